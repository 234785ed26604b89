// SPDX-License-Identifier: Apache-2.0
#include <causeway/stage/subspace_refresh.hpp>

#include "stage/activation_checks.hpp"
#include "support/catch.hpp"

#include <cmath>
#include <numbers>

using namespace causeway;
using activation_checks::normal;
using stage::refreshed;
using stage::share_outside;
using stage::subspace_basis;
using stage::subspace_statistics;

namespace {

subspace_statistics of_gradients(std::int64_t width, std::uint64_t seed, std::int64_t rows = 200) {
  thread_pool pool{1};
  scratch memory;
  subspace_statistics statistics{width};
  statistics.add(pool, memory, normal(static_cast<std::size_t>(rows * width), seed));
  return statistics;
}

}  // namespace

TEST_CASE("subspace_statistics: the sum of all gradients' outer products", "[stage][fast]") {
  thread_pool pool{1};
  scratch memory;
  subspace_statistics statistics{3};
  statistics.add(pool, memory, std::vector<float>{1, 2, 3, 0, 1, 0});
  statistics.add(pool, memory, std::vector<float>{1, 0, -1});
  const std::vector<float> expected{2, 2, 2, 2, 5, 6, 2, 6, 10};
  REQUIRE(std::equal(expected.begin(), expected.end(), statistics.sums().begin()));
}

TEST_CASE("share_outside: what the subspace cuts off of the gradients' squares", "[stage][fast]") {
  thread_pool pool{1};
  scratch memory;
  const auto basis = subspace_basis::random(1, 24, 4);
  const auto gradient = normal(50 * 24, 2);
  subspace_statistics statistics{24};
  statistics.add(pool, memory, gradient);
  auto inside = gradient;
  basis->project_rows(pool, inside);
  double all = 0, cut = 0;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    all += std::pow(static_cast<double>(gradient[i]), 2);
    cut += std::pow(static_cast<double>(gradient[i] - inside[i]), 2);
  }
  REQUIRE(std::abs(share_outside(pool, *basis, statistics.sums()) - cut / all) < 1e-5);
  REQUIRE(share_outside(pool, *basis, std::vector<float>(24 * 24)) == 0);
}

TEST_CASE("refreshed: in two dimensions the angle is the one on paper", "[stage][fast]") {
  thread_pool pool{1};
  const float angle = 0.7F;
  const auto basis = subspace_basis::spanned_by({std::cos(angle), std::sin(angle)}, 2);
  const std::vector<float> sums{4, 0, 0, 1};
  // The tangent at u is (S - (u'Su) I) u = -3 sin(a) cos(a) (-sin a, cos a), and |S| = sqrt(17).
  const double turn = std::atan(3.0 * std::sin(0.7) * std::cos(0.7) / std::sqrt(17.0));
  const auto next = refreshed(pool, *basis, sums);
  REQUIRE(next);
  REQUIRE(std::abs(std::atan2(next->vectors()[1], next->vectors()[0]) - static_cast<float>(0.7 - turn)) < 1e-5F);
}

TEST_CASE("refreshed: a step of up to 1 lowers what is cut off, many reach the gradients' main directions",
          "[stage][fast]") {
  thread_pool pool{1};
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    for (const float step : {0.1F, 1.0F}) {
      const auto statistics = of_gradients(24, seed, 30);
      const auto basis = subspace_basis::random(seed, 24, 5);
      const auto next = refreshed(pool, *basis, statistics.sums(), step);
      REQUIRE(share_outside(pool, *next, statistics.sums()) < share_outside(pool, *basis, statistics.sums()));
    }
  }
  // Gradients of rank 3, and a basis of 3: nothing need be cut off.
  scratch memory;
  subspace_statistics statistics{16};
  const auto hidden = subspace_basis::random(50, 16, 3);
  const auto z = normal(100 * 3, 4);
  std::vector<float> gradient(100 * 16);
  hidden->expand(pool, memory, 100, z.data(), nullptr, gradient.data());
  statistics.add(pool, memory, gradient);
  auto basis = *subspace_basis::random(51, 16, 3);
  REQUIRE(share_outside(pool, basis, statistics.sums()) > 0.5);
  for (int i = 0; i < 60; ++i) basis = *refreshed(pool, basis, statistics.sums());
  REQUIRE(share_outside(pool, basis, statistics.sums()) < 1e-4);
}

TEST_CASE("refreshed: the same bits for every thread count; nothing to learn changes nothing", "[stage][fast]") {
  thread_pool one{1}, three{3};
  const auto statistics = of_gradients(160, 5);
  const auto basis = subspace_basis::random(5, 160, 12);
  const auto a = refreshed(one, *basis, statistics.sums()), b = refreshed(three, *basis, statistics.sums());
  REQUIRE(std::equal(a->vectors().begin(), a->vectors().end(), b->vectors().begin()));
  const auto same = refreshed(one, *basis, std::vector<float>(160 * 160));
  REQUIRE(std::equal(same->vectors().begin(), same->vectors().end(), basis->vectors().begin()));
  std::vector<float> bad(160 * 160);
  bad[77] = std::nanf("");
  REQUIRE(refreshed(one, *basis, bad).error().code == errc::non_finite);
}
