// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/flow_search.hpp>

#include <causeway/stage/routing_flow.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "support/catch.hpp"
#include "support/traced_runs.hpp"

using namespace causeway;
using plan::flow_peer;
using plan::flow_search;

namespace {

struct network {
  std::vector<flow_peer> peers;
  std::vector<double> costs;

  [[nodiscard]] double link(std::size_t a, std::size_t b) const { return costs[a * peers.size() + b]; }
};

/// One peer with data, and so many in each stage with room for one to three micro-batches; as many micro-batches as there
/// is room for, or half.
network random_network(rng& draw, bool full) {
  network n{{{0, 0}}, {}};
  const auto stages = static_cast<std::uint32_t>(2 + draw.below(3));
  const std::size_t in_stage = 2 + draw.below(4);
  std::uint32_t room = 99;
  for (std::uint32_t s = 1; s <= stages; ++s) {
    std::uint32_t of_stage = 0;
    for (std::size_t p = 0; p < in_stage; ++p) {
      n.peers.push_back({s, static_cast<std::uint32_t>(1 + draw.below(3))});
      of_stage += n.peers.back().capacity;
    }
    room = std::min(room, of_stage);
  }
  n.peers[0].capacity = full ? room : std::max(room / 2, 1U);
  n.costs.resize(n.peers.size() * n.peers.size());
  for (std::size_t i = 0; i < n.peers.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      n.costs[i * n.peers.size() + j] = n.costs[j * n.peers.size() + i] = 1 + 9 * double{draw.uniform()};
    }
  }
  return n;
}

/// The least cost at which all of peer 0's micro-batches can go, by successive shortest paths.
double least_cost(const network& n) {
  const std::size_t peers = n.peers.size(), sink = 2 * peers;
  const std::uint32_t wanted = n.peers[0].capacity, last = n.peers.back().stage;
  stage::routing::detail::flow_graph graph{sink + 1};
  for (std::size_t p = 0; p < peers; ++p) {
    graph.connect(2 * p, 2 * p + 1, n.peers[p].capacity, 0);
    for (std::size_t q = 1; q < peers; ++q) {
      if (n.peers[q].stage == n.peers[p].stage + 1) graph.connect(2 * p + 1, 2 * q, wanted, n.link(p, q));
    }
    if (n.peers[p].stage == last) graph.connect(2 * p + 1, sink, wanted, n.link(p, 0));
  }
  REQUIRE(graph.send(0, sink, wanted) == wanted);
  double sum = 0;
  for (std::uint32_t m = 0; m < wanted; ++m) {
    const auto way = graph.take_path(0, sink);
    for (std::size_t i = 0; i + 1 < way.size(); ++i) {
      const std::size_t to = way[i + 1] == sink ? 0 : way[i + 1] / 2;
      sum += n.link(way[i] / 2, to);  // 0 within a peer
    }
  }
  return sum;
}

void check_paths(const network& n, const flow_search& search) {
  std::map<std::size_t, std::uint32_t> carried;
  for (const auto& path : search.paths()) {
    REQUIRE(path.size() == n.peers.back().stage + 1);
    for (std::size_t s = 0; s < path.size(); ++s) {
      REQUIRE(n.peers[path[s]].stage == s);
      ++carried[path[s]];
    }
  }
  for (const auto& [peer, many] : carried) REQUIRE(many <= n.peers[peer].capacity);
}

}  // namespace

TEST_CASE("flow search: a link costs half of what its ends compute and what a tensor takes on it", "[plan][fast]") {
  plan::link_matrix links{2};
  links.set(0, 1, {0.1, 8e6});
  links.set(1, 0, {0.3, 24e6});
  const std::vector<double> seconds{1, 2};
  // (1 + 2) / 2, (0.1 + 0.3) / 2, and 2 MB at the mean of 1 and 3 MB/s
  const auto costs = plan::flow_costs(links, seconds, 2e6);
  CHECK(costs[1] == Approx(1.5 + 0.2 + 1.0).epsilon(1e-12));
  CHECK(costs[2] == costs[1]);
  CHECK(costs[0] == 0);
}

TEST_CASE("flow search: peers exchange ways that one of them took too cheaply", "[plan][fast]") {
  // 1 - 3 is the cheapest link, and leaves 2 - 4, which costs 100.
  network n{{{0, 2}, {1, 1}, {1, 1}, {2, 1}, {2, 1}}, std::vector<double>(25, 1)};
  const auto set = [&](std::size_t a, std::size_t b, double c) { n.costs[a * 5 + b] = n.costs[b * 5 + a] = c; };
  set(1, 4, 2);
  set(2, 3, 2);
  set(2, 4, 100);
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    flow_search search{n.peers, n.costs, {.seed = seed}};
    for (int i = 0; i < 60; ++i) search.period();
    CHECK(search.cost() == 4 + 2 + 2);
    CHECK(search.tally().messages > 0);
  }
}

TEST_CASE("flow search: all micro-batches find a path, at some per cent more than the least cost", "[plan][fast]") {
  rng draw{17};
  double sum = 0, worst = 0;
  constexpr int networks = 40;
  for (std::uint64_t seed = 1; seed <= networks; ++seed) {
    const network n = random_network(draw, seed % 2 == 0);
    flow_search search{n.peers, n.costs, {.seed = seed}};
    double cost = 0;
    for (int i = 0; i < 134; ++i) {
      search.period();
      check_paths(n, search);
      if (search.paths().size() == n.peers[0].capacity) cost = search.cost();
    }
    REQUIRE(cost > 0);
    const double over = cost / least_cost(n);
    CHECK(over >= 1 - 1e-12);
    sum += over;
    worst = std::max(worst, over);
  }
  CAPTURE(sum / networks, worst);
  CHECK(sum / networks < 1.04);
  CHECK(worst < 1.3);
}

TEST_CASE("flow search: what a lost peer carried goes through others", "[plan][fast]") {
  rng draw{3};
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const network n = random_network(draw, false);
    flow_search search{n.peers, n.costs, {.seed = seed}};
    for (int i = 0; i < 60; ++i) search.period();
    const std::size_t lost = 1 + draw.below(n.peers.size() - 1);
    search.lose(lost);
    std::uint32_t room = 0;
    for (std::size_t p = 0; p < n.peers.size(); ++p) {
      if (p != lost && n.peers[p].stage == n.peers[lost].stage) room += n.peers[p].capacity;
    }
    const std::size_t possible = std::min(room, n.peers[0].capacity);
    std::size_t most = 0;
    for (int i = 0; i < 134; ++i) {
      search.period();
      check_paths(n, search);
      for (const auto& path : search.paths()) REQUIRE(std::count(path.begin(), path.end(), lost) == 0);
      most = std::max(most, search.paths().size());
    }
    CHECK(most == possible);
  }
}

TEST_CASE("flow search: every period is that of GWTF's trace", "[plan][trace][fast]") {
  const support::trace t{"gwtf_flow"};
  const auto number = [](float x) { return static_cast<std::size_t>(x); };
  std::vector<flow_peer> peers;
  for (std::size_t p = 0; p < t.peers(); ++p) {
    peers.push_back(
        {static_cast<std::uint32_t>(t.numbers("stage")[p]), static_cast<std::uint32_t>(t.numbers("capacity")[p])});
  }
  const auto& costs = t.numbers("costs");
  flow_search search{peers, {costs.begin(), costs.end()}, {.seed = 5}};
  for (std::uint64_t n = 0; n < t.steps(0); ++n) {
    if (n == number(t.numbers("lost")[0])) search.lose(number(t.numbers("lost")[1]));
    search.period();
    const auto& seen = t.numbers("period " + std::to_string(n));
    CAPTURE(n);
    REQUIRE(search.paths().size() == number(seen[0]));
    REQUIRE(search.cost() == Approx(seen[1]).epsilon(1e-6));
    REQUIRE(search.tally().taken == number(seen[2]));
    REQUIRE(search.tally().changed == number(seen[3]));
    REQUIRE(search.tally().redirected == number(seen[4]));
  }
  std::vector<float> places;
  for (const auto& path : search.paths()) {
    for (const std::size_t p : path) places.push_back(static_cast<float>(p));
  }
  CHECK(places == t.numbers("paths"));
  for (std::size_t p = 0; p < peers.size(); ++p)
    CHECK(search.temperature(p) == Approx(t.numbers("temperature")[p]).epsilon(1e-6));
}
