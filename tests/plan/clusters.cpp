// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/clusters.hpp>

#include <causeway/core/rng.hpp>

#include <cstddef>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using plan::cluster_peer;
using plan::cluster_task;

namespace {

std::vector<cluster_peer> random_peers(rng& draw, std::size_t n) {
  std::vector<cluster_peer> peers(n);
  for (cluster_peer& p : peers) {
    p = {2 + 8 * double(draw.uniform()), 1 + 3 * double(draw.uniform()), 0.1 + 2 * double(draw.uniform())};
  }
  return peers;
}

plan::detail::cluster_search::rated by_trying_all(const std::vector<cluster_peer>& peers, const cluster_task& task,
                                                  std::size_t clusters) {
  const plan::detail::cluster_search search{peers, task, clusters, {}};
  std::vector<std::size_t> of(peers.size(), 0);
  auto best = search.rate(of);
  for (;;) {
    std::size_t i = 0;
    while (i < of.size() && ++of[i] == clusters) of[i++] = 0;
    if (i == of.size()) return best;
    const auto r = search.rate(of);
    if (r < best) best = r;
  }
}

}  // namespace

TEST_CASE("clusters are the best of all where all can be tried", "[plan][fast]") {
  rng draw{89};
  int solved = 0;
  for (int round = 0; round < 12; ++round) {
    const std::size_t n = 4 + draw.below(4), clusters = 1 + draw.below(3);
    const auto peers = random_peers(draw, n);
    const cluster_task task{4 + 12 * double(draw.uniform()), 3, 1};
    const auto best = by_trying_all(peers, task, clusters);
    const auto found = plan::plan_clusters(peers, task, clusters);
    if (best.missing > 0) {
      REQUIRE_FALSE(found);
      REQUIRE(found.error().code == errc::out_of_memory);
      continue;
    }
    ++solved;
    REQUIRE(found);
    REQUIRE(found->slowest == Approx(best.slowest).epsilon(1e-12));
    std::vector<double> memory(clusters);
    for (std::size_t i = 0; i < n; ++i) memory[found->cluster_of[i]] += peers[i].memory;
    for (const double m : memory) REQUIRE(m >= task.memory);
  }
  CHECK(solved >= 6);
}

TEST_CASE("clusters are no worse than the best of many at random", "[plan][fast]") {
  rng draw{97};
  for (int round = 0; round < 3; ++round) {
    const auto peers = random_peers(draw, 20);
    const cluster_task task{16, 3, 1};
    const auto found = plan::plan_clusters(peers, task, 4);
    REQUIRE(found);
    const plan::detail::cluster_search search{peers, task, 4, {}};
    for (int i = 0; i < 2000; ++i) {
      std::vector<std::size_t> of(peers.size());
      for (std::size_t& c : of) c = draw.below(4);
      const auto r = search.rate(of);
      CHECK((r.missing > 0 || r.slowest >= found->slowest));
    }
  }
}

TEST_CASE("peers with slow lines end up together", "[plan][fast]") {
  std::vector<cluster_peer> peers;
  for (int i = 0; i < 12; ++i) peers.push_back({10, 1, i % 3 == 0 ? 0.5 : 5.0});
  const auto found = plan::plan_clusters(peers, {35, 0.1, 1}, 3);
  REQUIRE(found);
  for (std::size_t i = 0; i < 12; ++i) CHECK((found->cluster_of[i] == found->cluster_of[0]) == (i % 3 == 0));
  const auto again = plan::plan_clusters(peers, {35, 0.1, 1}, 3);
  CHECK(again->cluster_of == found->cluster_of);
}

TEST_CASE("clusters that cannot be are refused", "[plan][fast]") {
  const std::vector<cluster_peer> peers(3, {10, 1, 1});
  CHECK(plan::plan_clusters(peers, {10, 1, 1}, 0).error().code == errc::invalid_argument);
  CHECK(plan::plan_clusters(peers, {10, 1, 1}, 4).error().code == errc::invalid_argument);
  CHECK(plan::plan_clusters(peers, {11, 1, 1}, 3).error().code == errc::out_of_memory);
  CHECK(plan::plan_clusters(std::vector<cluster_peer>(2), {1, 1, 1}, 1).error().code == errc::invalid_argument);
}
