// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/link_fixtures.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "support/catch.hpp"

using namespace causeway;
using plan::link_matrix;

namespace {

std::size_t city(std::string_view name) {
  const auto& all = plan::worldwide_cities;
  return static_cast<std::size_t>(std::find(all.begin(), all.end(), name) - all.begin());
}

}  // namespace

TEST_CASE("fixtures are symmetric, complete and of the size that was asked for", "[plan][fast]") {
  for (const std::size_t n : {1U, 13U, 64U}) {
    for (const link_matrix& m : {plan::one_data_centre(n), plan::spot_data_centre(n), plan::two_universities(n),
                                 plan::four_sites(n), plan::worldwide(n)}) {
      REQUIRE(m.size() == n);
      REQUIRE(plan::check(m));
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < n; ++j) {
          REQUIRE(m(i, j).delay == m(j, i).delay);
          REQUIRE(m(i, j).bandwidth == m(j, i).bandwidth);
          REQUIRE((i == j) == (m(i, j).seconds(1) == 0));
        }
      }
    }
  }
}

TEST_CASE("data centres are quick within a machine", "[plan][fast]") {
  const auto whole = plan::one_data_centre(64);
  CHECK(whole(0, 7).bandwidth == 100e9);
  CHECK(whole(7, 8).bandwidth == 3.125e9);
  const auto spot = plan::spot_data_centre(64);
  CHECK(spot(28, 31).bandwidth == 100e9);
  CHECK(spot(31, 32).bandwidth == 1.25e9);
  CHECK(spot(32, 33).bandwidth == 1.25e9);
}

TEST_CASE("sites have the measured links", "[plan][fast]") {
  const auto two = plan::two_universities(64);
  CHECK(two(0, 31).delay == Approx(0.001));
  CHECK(two(31, 32).bandwidth == Approx(1.12e9));
  const auto four = plan::four_sites(64);  // Virginia, Oregon, California, Ohio
  CHECK(four(0, 16).delay == Approx(0.067));
  CHECK(four(16, 32).bandwidth == Approx(1.25e9));
  CHECK(four(0, 63).delay == Approx(0.011));
  const auto all = plan::worldwide(8);
  const auto link = [&](std::string_view a, std::string_view b) { return all(city(a), city(b)); };
  CHECK(link("Virginia", "Ohio").delay == Approx(0.011));
  CHECK(link("Virginia", "Ohio").bandwidth == Approx(1.12e9));
  CHECK(link("London", "Seoul").delay == Approx(0.238));
  CHECK(link("London", "Seoul").bandwidth == Approx(0.342e9));
  CHECK(link("Tokyo", "Ohio").bandwidth == Approx(0.694e9));
  CHECK(link("Ireland", "Tokyo").delay == Approx(0.199));
  CHECK(link("Frankfurt", "Ireland").bandwidth == Approx(1.08e9));
  CHECK(plan::worldwide(64)(0, 7).delay == Approx(0.010));
  CHECK(plan::worldwide(64)(7, 8).delay == Approx(0.067));
}
