// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/serving/block_server.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "support/catch.hpp"
#include "support/tuned_gpt.hpp"

namespace causeway::parallel {
namespace {

using namespace std::chrono_literals;
using support::small_text;
using swarm_type = support::served_gpt<>;

std::vector<float> copy_of(std::span<const float> values) { return {values.begin(), values.end()}; }

double least_throughput(swarm_type& s, const std::map<std::uint32_t, double>& rows_a_second) {
  std::vector<stage::served_span> spans;
  for (const auto& [host, server] : s.servers) spans.push_back({host + 1, server->blocks().held(), rows_a_second.at(host)});
  const auto sums = stage::block_throughputs(spans, support::frozen_gpt.layers);
  return *std::min_element(sums.begin(), sums.end());
}

void restless(block_server_options& o) {
  o.look_around = 2s;
  o.rebalance_every = 10s;
}

}  // namespace

TEST_CASE("block_server: not one bit of its parameters changes, whatever clients train", "[parallel][fast]") {
  auto model = support::pretrained_gpt();
  swarm_type swarm{model};
  swarm.add_server(0, 4);
  swarm.add_server(3, 3);
  std::vector<std::vector<float>> before(2), after(2);
  swarm.add_client({}, [&](sim::process&, auto& client) {
    for (const std::uint32_t h : {0U, 1U}) before[h] = copy_of(swarm.servers.at(h)->blocks().parameters().values());
    const auto first = copy_of(client.parameters().values());
    optim::adamw inner;
    inner.reset(client.parameters().length());
    for (std::uint64_t s = 0; s < 10; ++s) (void)support::tuned(client, inner, small_text{s});
    CHECK(copy_of(client.parameters().values()) != first);
    for (const std::uint32_t h : {0U, 1U}) after[h] = copy_of(swarm.servers.at(h)->blocks().parameters().values());
  });
  REQUIRE(swarm.run());
  const bool alike = before == after;
  CHECK(alike);
  CHECK(before[0].size() > 4000);
}

TEST_CASE("block_server: servers that come choose blocks until all are covered, and stay there", "[parallel][fast]") {
  auto model = support::pretrained_gpt();
  swarm_type swarm{model};
  for (int s = 0; s < 4; ++s) swarm.add_server(restless);
  swarm.world.run_until(time_point{120s});
  std::vector<nn::block_range> held;
  std::uint64_t moves = 0;
  for (const auto& [host, server] : swarm.servers) {
    held.push_back(server->blocks().held());
    moves += server->moves();
  }
  CHECK(least_throughput(swarm, {{0, 1}, {1, 1}, {2, 1}, {3, 1}}) == 1);
  swarm.world.run_until(time_point{1200s});
  std::uint64_t later = 0;
  for (const auto& [host, server] : swarm.servers) later += server->moves();
  CHECK(later == moves);
}

TEST_CASE("block_server: when the only server of some blocks dies another moves there, and a step that waits goes on",
          "[parallel][fast]") {
  auto model = support::pretrained_gpt();
  double want = 0, got = 0;
  std::uint64_t moves = 0;
  swarm_type swarm{model};
  for (int s = 0; s < 4; ++s) swarm.add_server(restless);
  swarm_type::client_options o;
  o.client.give_up = 300s;
  swarm.add_client(o, [&](sim::process& p, auto& client) {
    p.sleep(100s);
    const small_text t{1};
    want = support::valued(client.evaluate(t.in, t.out, support::sequences_each));
    std::map<std::int64_t, std::vector<std::uint32_t>> holders;
    for (const auto& [host, server] : swarm.servers) holders[server->blocks().held().first].push_back(host);
    REQUIRE(holders.size() == 3);
    const auto alone = std::find_if(holders.begin(), holders.end(),
                                    [](const auto& h) { return h.second.size() == 1 && h.second[0] != 0; });
    REQUIRE(alone != holders.end());
    swarm.world.kill(alone->second[0]);
    p.sleep(100ms);
    got = support::valued(client.evaluate(t.in, t.out, support::sequences_each));
  });
  REQUIRE(swarm.run());
  for (const auto& [host, server] : swarm.servers) moves += server->moves();
  CHECK(swarm.servers.size() == 3);
  CHECK(moves >= 1);
  CHECK(got == want);
}

TEST_CASE("block_server: when a server becomes slow another moves to its blocks, and back and forth nobody does",
          "[parallel][fast]") {
  auto model = support::pretrained_gpt();
  swarm_type swarm{model};
  const auto three = [](block_server_options& o) {
    restless(o);
    o.blocks = 3;
  };
  for (const duration each : {10us, 10us, 40us, 40us}) swarm.add_server(three, each);
  std::map<std::uint32_t, double> rows{{0, 4}, {1, 4}, {2, 1}, {3, 1}};
  swarm.add_client({}, [&](sim::process& p, auto& client) {
    const small_text t{1};
    const auto ask_until = [&](duration end) {
      while (p.now() < time_point{end}) {
        (void)support::valued(client.evaluate(t.in, t.out, support::sequences_each));
        p.sleep(1s);
      }
    };
    ask_until(300s);
    CHECK(least_throughput(swarm, rows) >= 0.75 * 5);
    const auto beside = [&](std::uint32_t h) {
      const auto here = swarm.servers.at(h)->blocks().held();
      return std::count_if(swarm.servers.begin(), swarm.servers.end(),
                           [&](const auto& s) { return s.second->blocks().held() == here; });
    };
    const std::uint32_t slowed = beside(0) < beside(1) ? 0 : 1;
    swarm.world.set_speed(slowed, 0.25);
    rows[slowed] = 1;
    const double worse = least_throughput(swarm, rows);
    ask_until(600s);
    const double better = least_throughput(swarm, rows);
    CHECK(better == 3);  // the best there is: the quick one alone, and the three others
    CHECK(better > worse);
    const auto moves = [&] {
      std::uint64_t all = 0;
      for (const auto& [host, server] : swarm.servers) all += server->moves();
      return all;
    };
    const auto before = moves();
    ask_until(1500s);
    CHECK(moves() == before);
  });
  REQUIRE(swarm.run());
}

TEST_CASE("block_server: sizes that cannot work are refused, and a source that fails ends it with its error",
          "[parallel][fast]") {
  sim::world w{{.seed = 1}};
  w.add_host({});
  bool ended = false;
  w.boot(0, [&](sim::process& p) {
    using blocks_type = stage::frozen_blocks<nn::gpt_family>;
    const auto make = [&](net::peer_id id, block_server_options o, stage::parameter_source source) {
      return std::make_unique<block_server<blocks_type>>(p.make_fabric(id), o,
                                                         support::valued(blocks_type::create(support::frozen_gpt, source)));
    };
    const auto nothing = [](parameter_store&) { return result<void>{}; };
    CHECK_FALSE(make(1, {.blocks = 0}, nothing)->open());
    CHECK_FALSE(make(2, {.blocks = 7}, nothing)->open());
    CHECK_FALSE(make(3, {.blocks = 3, .first = 4}, nothing)->open());
    CHECK_FALSE(make(4, {.most_rows = 0}, nothing)->open());
    const auto server = make(
        5, {.first = 0}, [](parameter_store&) -> result<void> { return fail(errc::not_found, "weights", "no such file"); });
    REQUIRE(server->open());
    const auto outcome = server->serve([] { return false; });
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code == errc::not_found);
    ended = true;
  });
  CHECK(w.run());
  CHECK(ended);
}

}  // namespace causeway::parallel
