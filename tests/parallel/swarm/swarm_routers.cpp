// SPDX-License-Identifier: Apache-2.0
// Simulated swarms with other routers than least_load, which tests/parallel/swarm.cpp has.
#include <causeway/parallel/swarm.hpp>

#include <causeway/core/rng.hpp>
#include <causeway/stage/routing_flow.hpp>
#include <causeway/stage/routing_planned.hpp>
#include <causeway/stage/routing_skip.hpp>

#include <chrono>
#include <cstdint>
#include <utility>

#include "parallel/swarm/swarm_world.hpp"
#include "support/catch.hpp"

using namespace causeway;
using namespace std::chrono_literals;
using support::all_like_unsplit, support::three_stages;

TEST_CASE("swarm: the result does not depend on the router", "[parallel][fast]") {
  support::swarm_world<stage::routing::random> by_chance{three_stages, stage::routing::random{{.seed = 3}}};
  by_chance.boot();
  by_chance.run(2min);
  all_like_unsplit(by_chance);
  support::swarm_world<stage::routing::min_cost_flow> by_flow{three_stages};
  by_flow.boot();
  by_flow.run(2min);
  all_like_unsplit(by_flow);
}

TEST_CASE("swarm: with delays measured, paths of least cost keep to near neighbours", "[parallel][fast]") {
  // Hosts 0 and 2 are near each other, 1 and 3 too.
  support::swarm_world_options o{.speeds = {{1, 1}, {1, 1}}, .steps = 10, .micro_batches = 16, .block_seconds = 0.02};
  o.window = 1;  // so that delays are not hidden
  support::swarm_world<stage::routing::random> by_chance{o};
  support::swarm_world<stage::routing::min_cost_flow> by_flow{o};
  const auto step_time = [](auto& swarm) {
    for (const auto& [a, b] : {std::pair{0U, 3U}, {1U, 2U}}) {
      swarm.world().set_link(a, b, {.latency = 300ms});
      swarm.world().set_link(b, a, {.latency = 300ms});
    }
    swarm.boot();
    swarm.run(5min);
    all_like_unsplit(swarm);
    const auto& ends = swarm.at(0).ends;
    return seconds(ends[9] - ends[5]) / 4;
  };
  const double chance = step_time(by_chance), flow = step_time(by_flow);
  INFO(chance << " s a step by chance, " << flow << " s by flow");
  CHECK(flow < 0.8 * chance);
}

TEST_CASE("swarm: where micro-batches leave stages out, the peers of a stage still end alike", "[parallel][fast]") {
  support::swarm_world_options o = three_stages;
  o.speeds = {{1}, {1, 1}, {1, 1}, {1}};
  support::swarm_world<stage::routing::skip<>> swarm{o};
  swarm.boot();
  swarm.run(2min);
  REQUIRE(swarm.finished() == 6);
  CHECK(swarm.at(1).parameters == swarm.at(2).parameters);
  CHECK(swarm.at(3).parameters == swarm.at(4).parameters);
  CHECK(swarm.distance(0, swarm.unsplit()) > 1e-4);  // it is another computation
}

namespace {

namespace routing = stage::routing;

/// Hosts 0, 1 serve stage 0; 2, 3 stage 1; 4, 5 stage 2; 6, 7 stage 3.
support::swarm_world_options four_pairs() {
  return {.speeds = {{1, 1}, {1, 1}, {1, 1}, {1, 1}}, .steps = 3, .micro_batches = 4, .block_seconds = 0.01};
}

/// As swarm_world names a host that is started for the first time.
net::peer_id id_of(std::uint32_t host) { return mix(1, host + 1 + 1000 * (host / 2), 0) | 1U; }

/// Two paths that each leave a middle stage out. Host 3 gets nothing.
routing::planned<> two_paths() {
  return routing::planned<>{
      {.paths = {{id_of(0), id_of(2), routing::left_out, id_of(6)}, {id_of(1), routing::left_out, id_of(4), id_of(7)}}}};
}

using planned_world = support::swarm_world<routing::planned<>>;

/// Kills `victim` at its network calls from, from + by, ...; started again after `back`, or never (0). What the others hold
/// is what they hold in a run in which nobody is lost.
void lose_one_of_a_plan(planned_world& quiet, std::uint32_t victim, std::uint64_t from, std::uint64_t by, duration back) {
  for (std::uint64_t n = from;; n += by) {
    INFO("host " << victim << " is killed at its network call " << n);
    support::swarm_world_options o = four_pairs();
    o.victim = victim, o.dies_at = n, o.back_after = back;
    const bool dies_for_good = o.once_committed = back == 0s;
    planned_world swarm{o, two_paths()};
    if (dies_for_good) swarm.wanted = swarm.hosts() - 1;
    swarm.boot();
    swarm.run(2min);
    if (swarm.at(victim).calls <= n) return;
    for (std::uint32_t h = 0; h < swarm.hosts(); ++h) {
      if (dies_for_good && h == victim) continue;
      REQUIRE(swarm.at(h).finished);
      CHECK(swarm.distance(h, {quiet.at(h).parameters, {}, {}}) < 1e-6);
    }
  }
}

}  // namespace

TEST_CASE("swarm: micro-batches take the paths of a plan, and a lost peer's are taken by its mate", "[parallel][fast]") {
  planned_world quiet{four_pairs(), two_paths()};
  quiet.boot();
  quiet.run(2min);
  REQUIRE(quiet.finished() == 8);
  for (std::uint32_t h = 0; h < 8; ++h) {
    // Two blocks a stage, each forward and two halves back; two of four micro-batches go to each peer of the plan.
    CHECK(quiet.at(h).blocks == (h == 3 || h == 5 ? 0 : 3 * 2 * 3 * 2));
    CHECK(quiet.at(h).parameters == quiet.at(h ^ 1U).parameters);
  }
  lose_one_of_a_plan(quiet, 2, 0, 61, 0s);  // its mate had nothing before
  lose_one_of_a_plan(quiet, 4, 5, 83, 1500ms);
}

TEST_CASE("swarm: peers of a plan are killed at any of their network calls", "[parallel][slow][every_call]") {
  planned_world quiet{four_pairs(), two_paths()};
  quiet.boot();
  quiet.run(2min);
  lose_one_of_a_plan(quiet, 2, 0, 3, 0s);
  lose_one_of_a_plan(quiet, 7, 0, 5, 1500ms);
}
