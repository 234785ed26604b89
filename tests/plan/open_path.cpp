// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/open_path.hpp>

#include <causeway/core/rng.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;

namespace {

std::vector<double> random_costs(rng& draw, std::size_t n) {
  std::vector<double> costs(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < i; ++j) costs[i * n + j] = costs[j * n + i] = static_cast<double>(draw.below(1000));
  }
  return costs;
}

bool is_a_path(std::vector<std::size_t> order, std::size_t n) {
  std::sort(order.begin(), order.end());
  std::vector<std::size_t> all(n);
  std::iota(all.begin(), all.end(), std::size_t{0});
  return order == all;
}

}  // namespace

TEST_CASE("up to twelve places the path is the cheapest of all orders", "[plan][fast]") {
  rng draw{5};
  for (int round = 0; round < 60; ++round) {
    const std::size_t n = 1 + draw.below(7);
    const std::vector<double> costs = random_costs(draw, n);
    const plan::open_path path = plan::shortest_open_path(costs, n);
    REQUIRE(is_a_path(path.order, n));
    REQUIRE(plan::cost_of_path(costs, n, path.order) == path.cost);
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), std::size_t{0});
    double best = std::numeric_limits<double>::infinity();
    do best = std::min(best, plan::cost_of_path(costs, n, order));
    while (std::next_permutation(order.begin(), order.end()));
    REQUIRE(path.cost == best);
  }
  CHECK(plan::shortest_open_path({}, 0).order.empty());
}

TEST_CASE("with more places the way along a line is found, and random ones come close to the exact method",
          "[plan][fast]") {
  rng draw{6};
  constexpr std::size_t n = 20;
  std::vector<std::size_t> at(n);
  std::iota(at.begin(), at.end(), std::size_t{0});
  shuffle(at, draw);
  std::vector<double> costs(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      costs[i * n + j] = std::abs(static_cast<double>(at[i]) - static_cast<double>(at[j]));
    }
  }
  const plan::open_path line = plan::shortest_open_path(costs, n);
  CHECK(is_a_path(line.order, n));
  CHECK(line.cost == n - 1);

  for (int round = 0; round < 5; ++round) {
    const std::vector<double> some = random_costs(draw, 14);
    plan::detail::path_table exact;
    const double best = exact.fill(some, 14);
    const plan::open_path path = plan::shortest_open_path(some, 14);
    REQUIRE(is_a_path(path.order, 14));
    REQUIRE(path.cost >= best);
    REQUIRE(path.cost <= 1.1 * best);
  }
}
