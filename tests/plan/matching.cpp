// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/matching.hpp>

#include <causeway/core/rng.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;

namespace {

double dearest(const std::vector<double>& costs, const std::vector<std::size_t>& partner) {
  double most = 0;
  for (std::size_t i = 0; i < partner.size(); ++i) most = std::max(most, costs[i * partner.size() + partner[i]]);
  return most;
}

double by_trying_all(const std::vector<double>& costs, std::size_t n) {
  std::vector<std::size_t> partner(n);
  std::iota(partner.begin(), partner.end(), std::size_t{0});
  double best = std::numeric_limits<double>::infinity();
  do best = std::min(best, dearest(costs, partner));
  while (std::next_permutation(partner.begin(), partner.end()));
  return best;
}

}  // namespace

TEST_CASE("the pairing has the least bottleneck of all pairings", "[plan][fast]") {
  rng draw{3};
  for (int round = 0; round < 400; ++round) {
    const std::size_t n = 1 + draw.below(6);
    std::vector<double> costs(n * n);
    const std::uint64_t values = 2 + draw.below(40);  // few: many ties
    for (double& c : costs) c = static_cast<double>(draw.below(values));
    const plan::pairing p = plan::bottleneck_pairing(costs, n);
    std::vector<std::size_t> columns = p.partner_of;
    std::sort(columns.begin(), columns.end());
    for (std::size_t i = 0; i < n; ++i) REQUIRE(columns[i] == i);
    REQUIRE(dearest(costs, p.partner_of) == p.bottleneck);
    REQUIRE(p.bottleneck == by_trying_all(costs, n));
  }
}
