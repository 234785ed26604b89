// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/roles.hpp>

#include <causeway/core/rng.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using plan::role_peer;

namespace {

/// What each peer's line carries, up and down, in units of the vector.
void require_feasible(const std::vector<role_peer>& peers, const plan::role_plan& p, double bytes) {
  double trainers = 0, sum = 0;
  for (const bool t : p.trains) trainers += t ? 1 : 0;
  for (std::size_t i = 0; i < peers.size(); ++i) {
    const double w = p.shares[i], own = p.trains[i] ? 1 : 0;
    REQUIRE(w >= 0);
    sum += w;
    const double moved = own * (1 - w) + w * (trainers - own);  // both up and down
    REQUIRE(moved * bytes <= p.average_seconds * std::min(peers[i].upload, peers[i].download) * (1 + 1e-6));
  }
  REQUIRE(sum == Approx(1));
}

double by_trying_all(const std::vector<role_peer>& peers, double batch, double bytes) {
  const plan::detail::role_search search{peers, batch, bytes};
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t set = 1; set < (std::size_t{1} << peers.size()); ++set) {
    std::vector<bool> trains(peers.size());
    for (std::size_t i = 0; i < peers.size(); ++i) trains[i] = (set >> i & 1U) != 0;
    best = std::min(best, search.rated(trains).seconds());
  }
  return best;
}

}  // namespace

TEST_CASE("with equal peers and much to compute it is all-reduce", "[plan][fast]") {
  const std::vector<role_peer> peers(8, {10, 1e6, 1e6});
  const auto p = plan::assign_roles(peers, 8000, 8e6);
  for (std::size_t i = 0; i < 8; ++i) {
    CHECK(p.trains[i]);
    CHECK(p.shares[i] == Approx(1.0 / 8));
  }
  CHECK(p.gather_seconds == Approx(100));
  CHECK(p.average_seconds == Approx(2 * 7.0 / 8 * 8));
}

TEST_CASE("a peer without compute and with a wide line averages for all: a parameter server", "[plan][fast]") {
  std::vector<role_peer> peers(4, {10, 1e6, 1e6});
  peers.push_back({0, 100e6, 100e6});
  const auto p = plan::assign_roles(peers, 40, 1e6);
  CHECK_FALSE(p.trains[4]);
  CHECK(p.shares[4] == Approx(1).margin(0.01));
  CHECK(p.average_seconds == Approx(1).margin(0.01));  // each sends its own once
  require_feasible(peers, p, 1e6);
}

TEST_CASE("a trainer whose line would hold up all others does not train", "[plan][fast]") {
  std::vector<role_peer> peers(6, {10, 10e6, 10e6});
  peers.push_back({10, 10e6, 1e4});
  const auto p = plan::assign_roles(peers, 600, 10e6);
  CHECK_FALSE(p.trains[6]);
  CHECK(std::count(p.trains.begin(), p.trains.end(), true) == 6);
}

TEST_CASE("roles come close to the best of all, and no line carries more than it can", "[plan][fast]") {
  rng draw{83};
  int exact = 0;
  for (int round = 0; round < 80; ++round) {
    std::vector<role_peer> peers(1 + draw.below(8));
    for (role_peer& p : peers) {
      p = {draw.below(4) == 0 ? 0 : 1 + 20 * double(draw.uniform()), 1e5 + 1e7 * double(draw.uniform()),
           1e5 + 1e7 * double(draw.uniform())};
    }
    const double batch = 100 + 2000 * double(draw.uniform()), bytes = 1e6 + 1e8 * double(draw.uniform());
    const double best = by_trying_all(peers, batch, bytes);
    const auto p = plan::assign_roles(peers, batch, bytes);
    if (best == std::numeric_limits<double>::infinity()) {
      REQUIRE(p.seconds() == best);
      continue;
    }
    require_feasible(peers, p, bytes);
    REQUIRE(p.seconds() <= 1.02 * best);
    exact += p.seconds() <= best * (1 + 1e-9) ? 1 : 0;
  }
  CHECK(exact >= 70);
}
