// SPDX-License-Identifier: Apache-2.0
#include <causeway/stage/routing_flow.hpp>

#include <causeway/core/rng.hpp>

#include <algorithm>
#include <map>
#include <vector>

#include "support/catch.hpp"

namespace causeway::stage::routing {
namespace {

/// Peers 10 + p in stage 0, 20 + p in stage 1, ...
net::peer_id name(std::uint32_t stage, std::uint32_t peer) { return 10 * (stage + 1) + peer; }

roster equal_peers(std::uint32_t stages, std::uint32_t peers) {
  roster known{stages};
  for (std::uint32_t s = 0; s < stages; ++s) {
    for (std::uint32_t p = 0; p < peers; ++p) {
      known.announced(name(s, p), s);
      known.measured(name(s, p), 1);
    }
  }
  return known;
}

std::vector<path> planned(const roster& known, std::uint32_t micro_batches, min_cost_flow router = min_cost_flow{}) {
  router.begin({0, micro_batches, known.stages()}, known);
  std::vector<path> all;
  for (std::uint32_t m = 0; m < micro_batches; ++m) {
    path way;
    for (std::uint32_t s = 0; s < known.stages(); ++s) way.push_back(router.choose(known, s, m));
    all.push_back(way);
  }
  return all;
}

double cost(const roster& known, const std::vector<path>& paths) {
  double sum = 0;
  for (const path& p : paths) {
    for (std::size_t s = 0; s + 1 < p.size(); ++s) sum += known.link(p[s], p[s + 1]);
  }
  return sum;
}

}  // namespace

TEST_CASE("routing: shares let all peers end at about the same time", "[stage][fast]") {
  CHECK(shares_in_time({4, 2, 1}, 7) == std::vector<std::uint32_t>{1, 2, 4});
  CHECK(shares_in_time({1, 1}, 3) == std::vector<std::uint32_t>{2, 2});  // one has room
  CHECK(shares_in_time({}, 3).empty());
}

TEST_CASE("routing: the flow has the least delay of all ways to share the work", "[stage][fast]") {
  // Three stages of three equal peers and three micro-batches: each peer carries one. All (3!)^2 ways are tried.
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    roster known = equal_peers(3, 3);
    rng draw{seed, 1};
    for (std::uint32_t s = 0; s < 2; ++s) {
      for (std::uint32_t a = 0; a < 3; ++a) {
        for (std::uint32_t b = 0; b < 3; ++b) known.link(name(s, a), name(s + 1, b), double(draw.uniform()));
      }
    }
    double best = 1e9;
    std::vector<std::uint32_t> first{0, 1, 2};
    do {
      std::vector<std::uint32_t> second{0, 1, 2};
      do {
        std::vector<path> all;
        for (std::uint32_t p = 0; p < 3; ++p) all.push_back({name(0, p), name(1, first[p]), name(2, second[first[p]])});
        best = std::min(best, cost(known, all));
      } while (std::next_permutation(second.begin(), second.end()));
    } while (std::next_permutation(first.begin(), first.end()));
    const auto plan = planned(known, 3);
    CHECK(cost(known, plan) == Approx(best));
    std::map<net::peer_id, int> uses;
    for (const path& p : plan) {
      for (const auto id : p) ++uses[id];
    }
    CHECK(uses.size() == 9);  // each peer once
  }
}

TEST_CASE("routing: a flow gives way where the cheapest link of the first would cost the second too much",
          "[stage][fast]") {
  roster known = equal_peers(2, 2);
  known.link(10, 20, 1);
  known.link(10, 21, 2);
  known.link(11, 20, 2);
  known.link(11, 21, 100);
  const auto plan = planned(known, 2);  // taking 10-20 first would leave 11-21
  CHECK(cost(known, plan) == 4);
}

TEST_CASE("routing: paths as peers find them cost little more than the flow of least cost", "[stage][fast]") {
  double sum = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    roster known = equal_peers(3, 4);
    rng draw{seed, 1};
    for (std::uint32_t s = 0; s < 2; ++s) {
      for (std::uint32_t a = 0; a < 4; ++a) {
        for (std::uint32_t b = 0; b < 4; ++b) known.link(name(s, a), name(s + 1, b), 4 * double(draw.uniform()));
      }
    }
    const auto found = planned(known, 8, min_cost_flow{{.by_peers = true, .seed = seed}});
    std::map<net::peer_id, int> uses;
    for (const path& p : found) {
      for (const auto id : p) ++uses[id];
    }
    for (const auto& [id, many] : uses) CHECK(many == 2);  // all carry alike
    const double least = cost(known, planned(known, 8));
    CHECK(cost(known, found) >= least - 1e-9);
    sum += cost(known, found) / least;
    CHECK(planned(known, 8, min_cost_flow{{.by_peers = true, .seed = seed}}) == found);
  }
  CHECK(sum / 20 < 1.02);
}

TEST_CASE("routing: who is quicker carries more, and a lost peer's micro-batches go to the others", "[stage][fast]") {
  roster known{1};
  for (const net::peer_id id : {1U, 2U, 4U}) {
    known.announced(id, 0);
    known.measured(id, 4.0 / static_cast<double>(id));
  }
  min_cost_flow router;
  router.begin({0, 14, 1}, known);
  std::map<net::peer_id, int> got;
  for (std::uint32_t m = 0; m < 7; ++m) ++got[router.choose(known, 0, m)];
  CHECK(got[4] > got[2]);
  known.ban(4);
  for (std::uint32_t m = 7; m < 14; ++m) CHECK(router.choose(known, 0, m) != 4);
  CHECK(router.choose(known, 0, 99) != nobody);  // one that was not in the plan
}

}  // namespace causeway::stage::routing
