// SPDX-License-Identifier: Apache-2.0
#include <causeway/collective/ring_order.hpp>

#include <causeway/collective/all_reduce.hpp>
#include <causeway/collective/group_view.hpp>
#include <causeway/collective/quantised_ring.hpp>
#include <causeway/core/rng.hpp>

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "exchange_cases.hpp"
#include "sim/cluster.hpp"
#include "support/catch.hpp"

using namespace causeway;
using namespace causeway::collective;
using namespace std::chrono_literals;

namespace {

using order_list = std::vector<net::peer_index>;

struct cost_table {
  std::uint32_t peers;
  std::vector<double> costs;
  [[nodiscard]] link_costs view() const { return {costs, peers}; }
  double& at(std::size_t from, std::size_t to) { return costs[from * peers + to]; }
};

cost_table random_costs(std::uint32_t peers, std::uint64_t seed) {
  cost_table t{peers, std::vector<double>(std::size_t{peers} * peers)};
  rng draw{seed};
  for (double& c : t.costs) c = 1.0 + static_cast<double>(draw.below(30));  // whole numbers: ties, and exact sums
  return t;
}

bool better(const ring_cost& a, const ring_cost& b, ring_goal goal) { return collective::detail::is_better(a, b, goal); }

ring_cost cheapest(const cost_table& t, ring_goal goal) {
  order_list order(t.peers);
  std::iota(order.begin(), order.end(), 0U);
  ring_cost best = cost_of_ring(t.view(), order);
  while (std::next_permutation(order.begin() + 1, order.end())) {
    const ring_cost c = cost_of_ring(t.view(), order);
    if (better(c, best, goal)) best = c;
  }
  return best;
}

bool is_ring(order_list order, std::uint32_t peers) {
  if (order.empty() || order.front() != 0) return false;
  std::sort(order.begin(), order.end());
  order_list all(peers);
  std::iota(all.begin(), all.end(), 0U);
  return order == all;
}

/// Peers whose cheap links form the ring 0, 3, 6, ...; every other link costs more.
cost_table hidden_ring(std::uint32_t peers) {
  cost_table t = random_costs(peers, peers);
  for (double& c : t.costs) c += 5;
  for (std::uint32_t i = 0; i < peers; ++i) t.at(i * 3 % peers, (i + 1) * 3 % peers) = 1;
  return t;
}

/// Six hosts on a circle in the order 0 2 4 1 5 3: 10 ms to the next one on it, 100 ms to all others.
const order_list circle{0, 2, 4, 1, 5, 3};

bool are_near(sim::host_index a, sim::host_index b) {
  for (std::size_t i = 0; i < 6; ++i) {
    if (circle[i] == a && circle[(i + 1) % 6] == b) return true;
  }
  return false;
}

/// How long a ring all-reduce of `count` values takes in the given order, by `run(transport, values, process)`.
template <class Run>
duration time_ring(const order_list& order, std::size_t count, const Run& run) {
  sim::world w{cluster::exact(100ms)};
  cluster::add_hosts(w, 6);
  for (sim::host_index a = 0; a < 6; ++a) {
    for (sim::host_index b = 0; b < 6; ++b) {
      if (are_near(a, b)) w.set_link(a, b, {.latency = 10ms});
    }
  }
  duration took{0};
  std::vector<std::vector<float>> results(6);
  cluster::boot_peers(
      w, 6,
      [&](sim::process& p, sim::transport& net) {
        net::any_transport whole{std::move(net)};
        net::any_transport ring{group_view{whole, order}};
        results[p.host()] = cases::whole_values(p.host(), count);
        run(ring, std::span{results[p.host()]});
        took = std::max(took, p.now().since_start - 1s);
      },
      cluster::at(5s));
  CHECK(w.run());
  std::vector<std::vector<float>> inputs;
  for (std::uint32_t p = 0; p < 6; ++p) inputs.push_back(cases::whole_values(p, count));
  CHECK(cases::largest_difference(results[0], cases::reference_mean(inputs, std::vector<float>(6, 1.0F))) < 1e-5);
  for (const auto& r : results) CHECK(r == results[0]);
  return took - 4s;
}

}  // namespace

TEST_CASE("ring order: no other ring is better, by its slowest link or by its sum", "[collective][fast]") {
  for (const std::uint32_t peers : {1U, 2U, 3U, 5U, 7U}) {
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      const cost_table t = random_costs(peers, seed);
      for (const ring_goal goal : {ring_goal::slowest, ring_goal::sum}) {
        const order_list order = ring_order(t.view(), goal);
        CAPTURE(peers, seed);
        REQUIRE(is_ring(order, peers));
        const ring_cost ours = cost_of_ring(t.view(), order), best = cheapest(t, goal);
        CHECK(ours.sum == best.sum);
        if (goal == ring_goal::slowest) CHECK(ours.slowest == best.slowest);
      }
    }
  }
}

TEST_CASE("ring order: directions differ, and the diagonal costs nothing", "[collective][fast]") {
  cost_table t{3, {9, 1, 5, 5, 9, 1, 1, 5, 9}};  // 0 -> 1 -> 2 -> 0 is cheap, the other way dear
  CHECK(ring_order(t.view()) == order_list{0, 1, 2});
  std::swap(t.at(0, 1), t.at(0, 2));
  std::swap(t.at(1, 2), t.at(2, 1));
  std::swap(t.at(2, 0), t.at(1, 0));
  CHECK(ring_order(t.view(), ring_goal::sum) == order_list{0, 2, 1});
}

TEST_CASE("ring order: twelve peers exactly, more by search; a ring that is there is found", "[collective][fast]") {
  for (const std::uint32_t peers : {11U, 13U, 20U, 32U}) {
    const cost_table t = hidden_ring(peers);
    for (const ring_goal goal : {ring_goal::slowest, ring_goal::sum}) {
      const order_list order = ring_order(t.view(), goal, 7);
      REQUIRE(is_ring(order, peers));
      CHECK(cost_of_ring(t.view(), order).sum == peers);
      CHECK(ring_order(t.view(), goal, 7) == order);
    }
  }
}

TEST_CASE("ring order: the search comes near the optimum where both can be had", "[collective][fast]") {
  double exact = 0, searched = 0, as_listed = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const cost_table t = random_costs(11, 100 + seed);
    order_list listed(11);
    std::iota(listed.begin(), listed.end(), 0U);
    const order_list found = collective::detail::searched_ring(t.view(), ring_goal::sum, seed);
    REQUIRE(is_ring(found, 11));
    exact += cost_of_ring(t.view(), ring_order(t.view(), ring_goal::sum)).sum;
    searched += cost_of_ring(t.view(), found).sum;
    as_listed += cost_of_ring(t.view(), listed).sum;
  }
  CHECK(searched >= exact);
  CHECK(searched <= 1.1 * exact);
  CHECK(as_listed > 2 * exact);
}

TEST_CASE("ring order: links that do not exist are avoided where they can be", "[collective][fast]") {
  const double none = std::numeric_limits<double>::infinity();
  for (const std::uint32_t peers : {6U, 13U}) {
    cost_table t = hidden_ring(peers + 1);
    for (std::uint32_t from = 0; from <= peers; ++from) {
      for (std::uint32_t to = 0; to <= peers; ++to) {
        if (t.at(from, to) != 1 && (from + to) % 2 == 0) t.at(from, to) = none;
      }
    }
    CHECK(cost_of_ring(t.view(), ring_order(t.view(), ring_goal::slowest)).slowest < none);
    CHECK(cost_of_ring(t.view(), ring_order(t.view(), ring_goal::sum)).sum < none);
    std::fill(t.costs.begin(), t.costs.end(), none);
    CHECK(is_ring(ring_order(t.view()), peers + 1));
  }
}

TEST_CASE("ring order: on a network with near and far hosts the better ring takes less time", "[collective][fast]") {
  std::vector<double> costs(36);
  for (std::uint32_t a = 0; a < 6; ++a) {
    for (std::uint32_t b = 0; b < 6; ++b) costs[a * 6 + b] = are_near(a, b) ? 0.01 : 0.1;
  }
  const order_list found = ring_order({costs, 6});
  CHECK(found == circle);
  order_list listed(6);
  std::iota(listed.begin(), listed.end(), 0U);
  const auto encoded = [](net::any_transport& ring, std::span<float> values) {
    thread_pool pool{1};
    quantised_ring<cases::plain> exchange;
    const collective_options options;
    REQUIRE(run_exchange(exchange, {ring, cluster::some_id, options}, {.values = values},
                         compress::message_context{.pool = pool}));
  };
  const auto raw = [](net::any_transport& ring, std::span<float> values) {
    REQUIRE(all_reduce_mean(ring, cluster::some_id, values, {.how = algorithm::ring}));
  };
  // 2(n-1) = 10 latencies: of 10 ms each; as listed, of 100 ms each.
  for (const auto i : {0U, 1U, 2U, 3U, 4U, 5U}) REQUIRE_FALSE(are_near(i, (i + 1) % 6));
  for (const duration took : {time_ring(found, 24, raw), time_ring(found, 24, encoded)}) {
    CHECK((took >= 100ms && took < 101ms));
  }
  for (const duration took : {time_ring(listed, 24, raw), time_ring(listed, 24, encoded)}) {
    CHECK((took >= 1s && took < 1001ms));
  }
}
