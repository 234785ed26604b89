// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/swarm.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/swarm/swarm_world.hpp"
#include "support/catch.hpp"

using namespace causeway;
using namespace std::chrono_literals;
using support::all_like, support::all_like_unsplit, support::nobody, support::three_stages;

namespace {

/// Kills `victim` at its network calls from, from + by, ...; started again after `back`, or never (0).
void kill_at_every(std::uint32_t victim, std::uint64_t from, std::uint64_t by, duration back,
                   const support::swarm_world_options& calm = three_stages) {
  support::swarm_world_options o = calm;
  o.victim = victim;
  o.back_after = back;
  const bool dies_for_good = o.once_committed = back == 0s;
  const auto calls = support::calls_of_victim<support::swarm_world<>>(o);
  const auto want = support::swarm_world<>{o}.unsplit();
  for (std::uint64_t n = from;; n = calls.after(n, by)) {
    INFO("host " << victim << " is killed at its network call " << n);
    o.dies_at = n;
    support::swarm_world<> swarm{o};
    if (dies_for_good) swarm.wanted = swarm.hosts() - 1;
    swarm.boot();
    swarm.run(2min);
    if (swarm.at(victim).calls <= n) return;  // it has outlived the run
    all_like(swarm, want, dies_for_good ? victim : nobody);
  }
}

/// The same in runs that evaluate before every step. What survivors heard is right; who comes back may have missed some.
void kill_during_evaluations(std::uint32_t victim, std::uint64_t from, std::uint64_t by, duration back) {
  support::swarm_world_options o = three_stages;
  o.evaluations = 2;
  o.victim = victim, o.back_after = back;
  const bool dies_for_good = o.once_committed = back == 0s;
  const auto want = support::swarm_world<>{o}.unsplit();
  for (std::uint64_t n = from;; n += by) {
    INFO("host " << victim << " is killed at its network call " << n);
    o.dies_at = n;
    support::swarm_world<> swarm{o};
    if (dies_for_good) swarm.wanted = swarm.hosts() - 1;
    swarm.boot();
    swarm.run(2min);
    if (swarm.at(victim).calls <= n) return;
    all_like(swarm, want, dies_for_good ? victim : nobody);
    for (std::uint32_t h = 0; h < swarm.hosts(); ++h) {
      for (const auto& [step, loss] : swarm.at(h).evaluated) CHECK(loss == Approx(want.evaluated[step]).epsilon(1e-6));
      if (h != victim) CHECK(swarm.at(h).missed == 0);
    }
  }
}

struct said {
  std::vector<std::string> lines;
  [[nodiscard]] bool about(const std::string& part) const {
    return std::any_of(lines.begin(), lines.end(), [&](const auto& l) { return l.find(part) != std::string::npos; });
  }
};

}  // namespace

TEST_CASE("swarm: whichever peers a micro-batch goes through, the result is that of the unsplit model",
          "[parallel][fast]") {
  support::swarm_world<> swarm{three_stages};
  swarm.boot();
  swarm.run(2min);
  all_like_unsplit(swarm);
  const auto want = swarm.unsplit();
  for (std::size_t s = 0; s < want.losses.size(); ++s) CHECK(swarm.at(0).losses[s] == Approx(want.losses[s]).epsilon(1e-6));
  // One micro-batch more or less would show.
  for (std::size_t m = 0; m < 8; ++m) CHECK(swarm.distance(0, swarm.unsplit(m)) > 1e-5);
}

TEST_CASE("swarm: evaluation goes through all stages, and every peer hears what came out", "[parallel][fast]") {
  support::swarm_world_options o = three_stages;
  o.evaluations = 3;
  support::swarm_world<> swarm{o};
  swarm.boot();
  swarm.run(2min);
  all_like_unsplit(swarm);
  const auto want = swarm.unsplit();
  for (std::uint32_t h = 0; h < swarm.hosts(); ++h) {
    CHECK(swarm.at(h).missed == 0);
    for (std::uint64_t step = 0; step < o.steps; ++step) {
      CHECK(swarm.at(h).evaluated.at(step) == Approx(want.evaluated[step]).epsilon(1e-6));
    }
  }
}

TEST_CASE("swarm: whoever is killed while the others evaluate, they get the result", "[parallel][fast]") {
  // The coordinator comes back; of the others, who are killed after the first round, nobody does.
  kill_during_evaluations(0, 9, 97, 1500ms);
  kill_during_evaluations(1, 0, 61, 0s);
  kill_during_evaluations(4, 0, 67, 0s);
  kill_during_evaluations(8, 0, 71, 0s);
}

TEST_CASE("swarm: one peer per stage is a pipeline", "[parallel][fast]") {
  support::swarm_world<> swarm{{.speeds = {{1}, {1}, {1}, {1}}}};
  swarm.boot();
  swarm.run(2min);
  all_like_unsplit(swarm);
}

TEST_CASE("swarm: the same seed gives the same bits at the same moments", "[parallel][fast]") {
  support::swarm_world<> a{three_stages}, b{three_stages};
  a.boot(), b.boot();
  a.run(2min), b.run(2min);
  CHECK(a.world().history_hash() == b.world().history_hash());
  CHECK(a.at(4).parameters == b.at(4).parameters);
}

TEST_CASE("swarm: whoever is killed, no micro-batch is lost or counted twice", "[parallel][fast]") {
  // The coordinator and founder comes back; of the others, who are killed after the first round, nobody does.
  kill_at_every(0, 7, 41, 1500ms);
  kill_at_every(1, 0, 43, 0s);
  kill_at_every(4, 0, 37, 0s);
  kill_at_every(8, 0, 31, 0s);
}

TEST_CASE("swarm: whoever is killed at any of its network calls and comes back", "[parallel][slow][every_call]") {
  auto o = three_stages;
  o.micro_batches = 6;  // two for each peer of a stage
  for (const std::uint32_t victim : {0U, 1U, 2U, 4U, 8U}) kill_at_every(victim, 0, 1, 1500ms, o);
  for (const std::uint32_t victim : {1U, 2U, 4U, 8U}) kill_at_every(victim, 0, 1, 0s, o);
}

namespace {

/// Stages with one peer each, of which `victim` dies when it passes `point` in round 2, and `other` when it has the step.
void die_and_come_back(std::uint32_t victim, std::string_view point, std::uint32_t other) {
  INFO("peer " << victim << " dies at " << point << ", peer " << other << " after the step");
  std::set<std::uint32_t> died;
  std::map<std::uint32_t, int> rounds;
  support::swarm_world_options o{.speeds = {{1}, {1}, {1}}, .steps = 4, .micro_batches = 4, .clip_norm = 0.05F};
  o.back_after = 1500ms;
  o.dies_passing = [&](std::uint32_t host, std::string_view at) {
    if (at == "entered") ++rounds[host];
    if (host != victim && host != other) return false;
    return rounds[host] == 2 && at == (host == victim ? point : "committed") && died.insert(host).second;
  };
  support::swarm_world<> swarm{o};
  swarm.boot();
  swarm.run(3min);
  CHECK(died.size() == (other == nobody ? 1 : 2));
  all_like_unsplit(swarm);
}

}  // namespace

TEST_CASE("swarm: a peer that comes back while a step ends holds nobody up", "[parallel][fast]") {
  for (const std::uint32_t victim : {0U, 4U, 8U}) {
    for (std::uint64_t n = 200; n < 600; n += 37) {
      auto o = three_stages;
      o.steps = 15, o.victim = victim, o.dies_at = n, o.back_after = 1500ms;
      CAPTURE(victim, n);
      support::swarm_world<> swarm{o};
      swarm.boot();
      swarm.run(2min);
      REQUIRE(swarm.finished() == swarm.hosts());
      CHECK(support::longest_pause(swarm.at(3).ends) < 4s);
    }
  }
}

TEST_CASE("swarm: a stage's only peer may die at any point of a round, with another stage's, and come back",
          "[parallel][fast]") {
  for (const char* const point : {"before_ready", "entered", "exchanged", "before_store", "stored", "voted", "committed"}) {
    for (const std::uint32_t victim : {0U, 1U, 2U}) {
      for (const std::uint32_t other : {nobody, (victim + 1) % 3}) die_and_come_back(victim, point, other);
    }
  }
}

TEST_CASE("swarm: stages of one peer outlive deaths at any network call", "[parallel][slow]") {
  const support::swarm_world_options one_each{.speeds = {{1}, {1}, {1}}, .steps = 3, .micro_batches = 4};
  for (const std::uint32_t victim : {0U, 1U, 2U}) kill_at_every(victim, 0, 1, 1500ms, one_each);
}

TEST_CASE("swarm: a peer joins during a run, takes its mates' state and its share of the work", "[parallel][fast]") {
  support::swarm_world_options o{.speeds = {{1, 1}, {1, 1}}, .steps = 8, .micro_batches = 16, .block_seconds = 0.02};
  o.late = {3};
  support::swarm_world<> swarm{o};
  swarm.boot();
  swarm.world().run_until(time_point{4s});
  REQUIRE(!swarm.at(0).ends.empty());
  swarm.boot(3);
  swarm.run(5min);
  all_like_unsplit(swarm);
  CHECK(swarm.at(3).ends.size() < 8);  // it began late
  const auto& ends = swarm.at(0).ends;
  CHECK(ends[7] - ends[6] < 0.75 * (ends[1] - ends[0]));  // stage 1 was the bottleneck
}

TEST_CASE("swarm: when a stage's last peer goes, the others say which stage it is, and go on when it is back",
          "[parallel][fast]") {
  said log;
  support::swarm_world_options o{.speeds = {{1, 1}, {1}, {1, 1}}, .steps = 6, .block_seconds = 0.02};
  o.trace = [&](const std::string& line) { log.lines.push_back(line); };
  support::swarm_world<> swarm{o};
  swarm.boot();
  swarm.world().run_until(time_point{3s});
  const auto taken = swarm.at(0).ends.size();
  REQUIRE(taken > 0);
  REQUIRE(taken < 6);
  swarm.world().kill(2);
  swarm.world().run_until(time_point{30s});
  CHECK(swarm.at(0).ends.size() <= taken + 1);
  CHECK(log.about("stage 1 is served by nobody: start one of its peers again"));
  swarm.world().restart(2);
  swarm.run(2min);
  all_like_unsplit(swarm);
}

TEST_CASE("swarm: unequal peers reach nine tenths of their summed speed", "[parallel][fast]") {
  support::swarm_world_options o{.speeds = {{1, 2, 4}, {4, 1, 2}}, .steps = 4, .micro_batches = 140, .block_seconds = 0.1};
  o.link.latency = 2ms;
  support::swarm_world<> swarm{o};
  swarm.boot();
  swarm.run(10min);
  all_like_unsplit(swarm);
  const auto& ends = swarm.at(0).ends;
  const double step = seconds(ends[3] - ends[1]) / 2;  // once speeds are known
  const double one = 2 * 3 * 0.1;                      // blocks, times, seconds: of a peer of speed 1
  const double ideal = 140 * one / 7;
  INFO(step << " s a step, " << ideal << " at the summed speed");
  CHECK(ideal / step >= 0.9);
}

TEST_CASE("swarm: a peer of an idle stage moves to the starved one, and throughput follows", "[parallel][fast]") {
  support::swarm_world_options o{.speeds = {{1, 1, 1}, {1}}, .steps = 12, .micro_batches = 32, .block_seconds = 0.05};
  o.rebalance_every = 25s;
  support::swarm_world<> swarm{o};
  swarm.boot();
  swarm.run(10min);
  all_like_unsplit(swarm);
  const auto& ends = swarm.at(3).ends;
  REQUIRE(ends.size() == 12);
  const auto before = ends[1] - ends[0], after = ends[11] - ends[10];
  INFO(seconds(before) << " s a step before, " << seconds(after) << " s after");
  CHECK(seconds(before) / seconds(after) > 1.7);  // two peers instead of one
  CHECK(swarm.at_stage(0) == 2);
  CHECK(swarm.at_stage(1) == 2);
}

// Whenever peers speak, nothing waits: a step is over before the next heartbeat.
TEST_CASE("swarm: a peer moves to the starved stage also where steps are quick", "[parallel][fast]") {
  support::swarm_world_options o{.speeds = {{1, 1, 1}, {1}}, .steps = 24, .micro_batches = 8, .block_seconds = 0.005};
  o.rebalance_every = 2s;
  support::swarm_world<> swarm{o};
  swarm.boot();
  swarm.run(10min);
  all_like_unsplit(swarm);
  CHECK(swarm.at_stage(0) == 2);
  CHECK(swarm.at_stage(1) == 2);
}
