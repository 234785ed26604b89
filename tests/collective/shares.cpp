// SPDX-License-Identifier: Apache-2.0
#include <causeway/collective/shares.hpp>

#include <causeway/core/rng.hpp>

#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using causeway::collective::bandwidth_shares;
using causeway::collective::whole_parts;

namespace {

using numbers = std::vector<double>;

/// What the shares cost: how long the slowest peer sends, for a row that takes a peer of bandwidth 1 one unit of time.
double cost(std::span<const double> bandwidths, std::span<const double> shares) {
  double slowest = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (bandwidths[i] == 0 && shares[i] > 0) return std::numeric_limits<double>::infinity();
    if (bandwidths[i] == 0) continue;
    slowest = std::max(slowest, (1 + (static_cast<double>(shares.size()) - 2) * shares[i]) / bandwidths[i]);
  }
  return slowest;
}

/// The least cost among all shares in steps of 1/steps.
double cheapest(const numbers& bandwidths, numbers& shares, std::size_t at, int left, int steps) {
  if (at + 1 == bandwidths.size()) {
    shares[at] = double(left) / steps;
    return cost(bandwidths, shares);
  }
  double best = std::numeric_limits<double>::infinity();
  for (int k = 0; k <= left; ++k) {
    shares[at] = double(k) / steps;
    best = std::min(best, cheapest(bandwidths, shares, at + 1, left - k, steps));
  }
  return best;
}

double sum(const numbers& v) { return std::accumulate(v.begin(), v.end(), 0.0); }

}  // namespace

TEST_CASE("shares: no other shares are done earlier", "[collective][fast]") {
  rng draw{1};
  for (const std::size_t n : {3U, 4U, 5U}) {
    for (int trial = 0; trial < 30; ++trial) {
      numbers bandwidths(n);
      for (double& b : bandwidths) b = 0.2 + 4.0 * double(draw.uniform());
      if (trial % 3 == 0) bandwidths[1] *= 0.05;  // so slow that its own row sets the time
      if (trial % 5 == 0) bandwidths[2] = 0;
      const numbers shares = bandwidth_shares(bandwidths);
      const double ours = cost(bandwidths, shares);
      numbers other(n);
      const int steps = n == 5 ? 20 : 48;
      const double grid = cheapest(bandwidths, other, 0, steps, steps);
      CAPTURE(bandwidths, shares, grid);
      CHECK(sum(shares) == Approx(1));
      CHECK(ours <= grid * (1 + 1e-12));
      // The grid is coarse; it comes as near as one step lets it.
      double slowest = std::numeric_limits<double>::infinity();
      for (const double b : bandwidths) slowest = b > 0 ? std::min(slowest, b) : slowest;
      CHECK(grid <= ours + double(n - 2) * double(n) / steps / slowest);
      for (std::size_t i = 0; i < n; ++i) CHECK((shares[i] >= 0 && (bandwidths[i] > 0 || shares[i] == 0)));
    }
  }
}

TEST_CASE("shares: named situations", "[collective][fast]") {
  CHECK(bandwidth_shares(numbers{3, 3, 3, 3}) == numbers{0.25, 0.25, 0.25, 0.25});
  CHECK(bandwidth_shares(numbers{1, 9}) == numbers{0.5, 0.5});
  CHECK(bandwidth_shares(numbers{1, 0}) == numbers{1, 0});
  CHECK(bandwidth_shares(numbers{7}) == numbers{1});
  CHECK(bandwidth_shares(numbers{0, 0, 0}) == numbers{0, 0, 0});
  // One server: it sends 1 + (n-2) rows.
  CHECK(bandwidth_shares(numbers{0, 5, 0, 0}) == numbers{0, 1, 0, 0});
  // ξ = (n-2+k)/Σb = 6/6 for {1, 1, 2, 2}: the slow ones send their rows and nothing else.
  CHECK(bandwidth_shares(numbers{1, 1, 2, 2}) == numbers{0, 0, 0.5, 0.5});
  // The slowest needs 10 for its own row, so the others need not hurry; their shares follow what they could take.
  const numbers slow = bandwidth_shares(numbers{0.1, 2, 1});
  CHECK(slow[0] == 0);
  CHECK(slow[1] / slow[2] == Approx(19.0 / 9.0));
}

TEST_CASE("shares: under the smallest share a peer gets none, and the rest is best again", "[collective][fast]") {
  const numbers bandwidths{10, 9, 6, 8};
  const numbers free = bandwidth_shares(bandwidths);
  REQUIRE(free[2] > 0);
  REQUIRE(free[2] < 0.1);
  const numbers limited = bandwidth_shares(bandwidths, 0.1);
  CHECK(limited[2] == 0);
  CHECK(sum(limited) == Approx(1));
  // The three that reduce are done at the same time: (4-2+3)/27.
  for (const std::size_t i : {0U, 1U, 3U}) CHECK((1 + 2 * limited[i]) / bandwidths[i] == Approx(5.0 / 27.0));
  CHECK(sum(bandwidth_shares(bandwidths, 2.0)) == Approx(1));  // nobody can have that much: one has all
  CHECK(bandwidth_shares(bandwidths, 2.0)[0] == Approx(1));
}

TEST_CASE("shares: whole parts add up, stay within one of their due, and favour the largest claim", "[collective][fast]") {
  rng draw{2};
  for (int trial = 0; trial < 300; ++trial) {
    numbers shares(1 + draw.below(9));
    for (double& s : shares) s = draw.below(4) == 0 ? 0.0 : double(draw.uniform());
    shares[draw.below(shares.size())] = 0.7;
    const std::size_t total = draw.below(40);
    const auto parts = whole_parts(total, shares);
    CHECK(std::accumulate(parts.begin(), parts.end(), std::size_t{0}) == total);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const double due = double(total) * shares[i] / sum(shares);
      CHECK(double(parts[i]) >= std::floor(due) - 1e-9);
      if (shares[i] == 0) CHECK(parts[i] == 0);
    }
  }
  CHECK(whole_parts(10, numbers{1, 1, 1}) == std::vector<std::size_t>{4, 3, 3});
  CHECK(whole_parts(1, numbers{0.1, 0.5, 0.4}) == std::vector<std::size_t>{0, 1, 0});
  CHECK(whole_parts(0, numbers{1, 2}) == std::vector<std::size_t>{0, 0});
}
