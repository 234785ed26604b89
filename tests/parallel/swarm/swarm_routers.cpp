// SPDX-License-Identifier: Apache-2.0
// Simulated swarms with other routers than least_load, which tests/parallel/swarm.cpp has.
#include <causeway/parallel/swarm.hpp>

#include <causeway/stage/routing_flow.hpp>
#include <causeway/stage/routing_skip.hpp>

#include <chrono>
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
