// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/link_matrix.hpp>

#include <limits>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using plan::link_matrix;

TEST_CASE("a message costs its delay and its bits at the link's rate, each direction by itself", "[plan][fast]") {
  link_matrix m{3, {0.010, 8e6}};
  m.set(0, 1, {0.100, 1e6});
  CHECK(m(0, 1).seconds(1e6) == Approx(0.1 + 8));
  CHECK(m(1, 0).seconds(1e6) == Approx(0.01 + 1));
  CHECK(m.mean_seconds(0, 1, 1e6) == Approx((8.1 + 1.01) / 2));
  CHECK(m.mean_seconds(1, 0, 1e6) == m.mean_seconds(0, 1, 1e6));
  CHECK(m(2, 2).seconds(1e12) == 0);
}

TEST_CASE("devices take the links of their regions, the diagonal within one, and pay nothing to themselves",
          "[plan][fast]") {
  link_matrix regions{2};
  regions.set(0, 0, {0.001, 10e9});
  regions.set(1, 1, {0.002, 20e9});
  regions.set(0, 1, {0.050, 1e9});
  regions.set(1, 0, {0.060, 2e9});
  const link_matrix m = regions.devices_in(std::vector<std::size_t>{0, 1, 0, 1});
  REQUIRE(m.size() == 4);
  CHECK(m(0, 2).delay == 0.001);
  CHECK(m(1, 3).delay == 0.002);
  CHECK(m(2, 3).delay == 0.050);
  CHECK(m(3, 2).bandwidth == 2e9);
  CHECK(m(1, 1).seconds(1) == 0);
}

TEST_CASE("links that are none are refused with the pair's name", "[plan][fast]") {
  link_matrix m{3, {0.010, 1e9}};
  CHECK(plan::check(m));
  for (const plan::link_cost bad : {plan::link_cost{-1, 1e9}, plan::link_cost{0, 0}, plan::link_cost{0, -5},
                                    plan::link_cost{std::numeric_limits<double>::infinity(), 1},
                                    plan::link_cost{std::numeric_limits<double>::quiet_NaN(), 1},
                                    plan::link_cost{0, std::numeric_limits<double>::quiet_NaN()}}) {
    link_matrix wrong = m;
    wrong.set(2, 1, bad);
    const auto checked = plan::check(wrong);
    REQUIRE_FALSE(checked);
    CHECK(checked.error().code == errc::invalid_argument);
    CHECK(checked.error().where == "link 2 to 1");
  }
}
