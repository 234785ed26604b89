// SPDX-License-Identifier: Apache-2.0
// Peers that join, or come back, while rounds follow each other more quickly than a state is transferred. Bytes and rates
// are a tenth of those that the cases are about; times are the same.
#include <causeway/train/state_fetch.hpp>

#include <causeway/comm/every_step.hpp>
#include <causeway/comm/periodic.hpp>
#include <causeway/optim/adamw.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/elastic.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

const auto diloco = [] { return comm::periodic<>{{.local_steps = 4}}; };
const auto every_step = [] { return comm::every_step<>{}; };

/// Lines of so many Mbit/s, a tenth of it.
support::elastic_options over(double mbit_per_s, support::elastic_options o) {
  o.batch = 1;
  o.rounds = 4000;
  o.host.up_bytes_per_s = o.host.down_bytes_per_s = mbit_per_s * 1e6 / 8 / 10;
  o.world.link.latency = 10ms;
  return o;
}

/// Until the host is in a committed round, or the limit. How long that took.
template <class Cluster>
duration joins(Cluster& cluster, std::uint32_t host, duration limit) {
  const time_point begin = cluster.world().now();
  cluster.boot(host);
  while (cluster.member_at(host) == no_deadline && cluster.world().now() < begin + limit) {
    cluster.run(cluster.world().now().since_start + 500ms);
  }
  INFO(cluster.violation().value_or("no violation"));
  REQUIRE_FALSE(cluster.violation());
  REQUIRE(cluster.member_at(host) != no_deadline);
  return cluster.member_at(host) - begin;
}

}  // namespace

// 52 MB of state, 40 Mbit/s: a transfer takes 10.4 s.
TEST_CASE("joining: a member that stood still for a while is back, though the other goes on alone meanwhile",
          "[train][slow]") {
  auto o = over(40, {.peers = 2, .steps_per_round = 4, .step_time = 50ms, .size = 650'000});
  support::elastic_cluster cluster{diloco, o};
  cluster.boot();
  cluster.run(60s);
  cluster.world().stop(1);
  cluster.run(75s);
  cluster.world().resume(1);
  cluster.run(120s);
  REQUIRE_FALSE(cluster.violation());
  const auto held = cluster.held_last(1);
  CHECK(cluster.commits().rbegin()->first <= held + 1);
  cluster.run(150s);
  CHECK(cluster.held_last(1) >= held + 3);  // and takes part from then on
}

TEST_CASE("joining: a newcomer whose transfer takes as long as a round is in after a few", "[train][slow]") {
  auto o = over(40, {.peers = 4, .expected = 3, .steps_per_round = 4, .step_time = 500ms, .size = 650'000});
  support::elastic_cluster cluster{diloco, o};
  for (std::uint32_t host = 0; host < 3; ++host) cluster.boot(host);
  cluster.run(60s);
  const auto sent = cluster.bytes_sent();
  const duration took = joins(cluster, 3, 300s);
  CHECK(took < 100s);
  // Less than four states beside what three peers exchange in that time: not one after the other in vain.
  const auto rounds = static_cast<std::uint64_t>(took / 9500ms) + 1;
  CHECK(cluster.bytes_sent() - sent < rounds * 3 * 3'500'000 + 4 * 5'200'000);
}

// 100 MB of state, 100 Mbit/s: a transfer takes 8 s, a round 6 s and the exchange. Half of both, or chunks would be long.
TEST_CASE("joining: a newcomer is in an every_step run within three transfers, and the others hardly notice",
          "[train][slow]") {
  const auto [members, moment] =
      GENERATE(std::pair{4U, 0}, std::pair{4U, 3}, std::pair{4U, 6}, std::pair{4U, 8}, std::pair{8U, 4}, std::pair{8U, 7});
  auto o = over(500, {.peers = members + 1, .expected = members, .steps_per_round = 1, .step_time = 6s, .size = 4'165'000});
  support::elastic_cluster<decltype(every_step), optim::adamw> cluster{every_step, o};
  for (std::uint32_t host = 0; host < members; ++host) cluster.boot(host);
  cluster.run(100s);
  const auto last = cluster.commits().rbegin()->first;
  const duration round = (cluster.committed_at(last) - cluster.committed_at(last - 4)) / 4;
  cluster.run((cluster.committed_at(last) + round + moment * 1s).since_start);
  const duration took = joins(cluster, members, 100s);
  const auto first = cluster.commits().rbegin()->first;  // with it
  const duration lost = cluster.committed_at(first) - cluster.committed_at(last) - static_cast<int>(first - last) * round;
  INFO("members " << members << ", " << moment << " s after a commit");
  CHECK(took <= 24s);
  CHECK(lost <= 3s);  // 5 % of a minute
}

// The state follows from the means of the rounds that were missed, also where steps depend on their number.
TEST_CASE("joining: a round done again from its mean gives the same bits", "[train][fast]") {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    auto o = over(10, {.peers = 4, .expected = 3, .seed = seed, .steps_per_round = 1, .step_time = 2s, .size = 60'000});
    o.warmup = 40;
    std::vector<std::string> lines;
    o.trace = [&](std::string_view line) { lines.emplace_back(line); };
    support::elastic_cluster<decltype(every_step), optim::adamw> cluster{every_step, o};
    cluster.keep_history = true;
    for (std::uint32_t host = 0; host < 3; ++host) cluster.boot(host);
    cluster.run(20s);
    CHECK(joins(cluster, 3, 100s) < 60s);
    cluster.world().stop(2);
    cluster.run(cluster.world().now().since_start + 8s);
    cluster.world().resume(2);
    cluster.run(cluster.world().now().since_start + 60s);
    REQUIRE_FALSE(cluster.violation());
    CHECK(cluster.commits().rbegin()->first <= cluster.held_last(2) + 1);
    CHECK(cluster.commits().rbegin()->first <= cluster.held_last(3) + 1);
    const auto& history = cluster.history();
    CHECK(std::none_of(history.begin(), history.end(), [](const auto& l) { return l.find("diverged") != l.npos; }));
  }
}
