// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/swarm/swarm_state.hpp>

#include <causeway/sim/world.hpp>

#include <cstdint>
#include <functional>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;

namespace {

void alone(const parallel::swarm_options& o, const std::function<void(parallel::swarm_state&)>& body) {
  sim::world world{{.seed = 1}};
  (void)world.add_host();
  bool through = false;
  world.boot(0, [&](sim::process& p) {
    parallel::swarm_state my{p.make_fabric(1), o, {}};
    body(my);
    through = true;
  });
  REQUIRE(world.run());
  CHECK(through);
}

}  // namespace

TEST_CASE("swarm state: turns say which step it is, and what it is for", "[parallel][fast]") {
  using namespace parallel::swarm_wire;
  alone({.run = 5, .stage = 1, .stages = 3, .local_steps = 2}, [](parallel::swarm_state& my) {
    CHECK(my.steps_alone());
    my.micro_batches.begin(local_turn(4), 8);
    CHECK(my.step() == 4);
    CHECK(my.in_training());
    CHECK_FALSE(my.closes_a_round());
    my.micro_batches.begin(training_turn(4), 16);
    CHECK(my.closes_a_round());
    CHECK(my.size().micro_batches == 16);
    CHECK(my.size().stages == 3);
    my.gradients.keep_sum(4, std::vector<float>{1, 2});
    CHECK(my.has_sum());
    my.micro_batches.begin(evaluation_turn(5, 0), 2);
    CHECK_FALSE(my.in_training());
    CHECK_FALSE(my.has_sum());
    CHECK_FALSE(my.closes_a_round());
  });
}

TEST_CASE("swarm state: what a peer says of itself is what its parts have noted", "[parallel][fast]") {
  alone({.run = 5, .stage = 1, .stages = 3}, [](parallel::swarm_state& my) {
    my.micro_batches.begin(7, 8);
    my.serving = true;
    my.coordinates = true;
    my.followed = {1, 4};
    my.seconds = 0.5;
    my.own_sums[0] = {2, 9.0, {}};
    my.part = 6, my.committed = 3, my.paths = 2;
    const parallel::swarm_wire::status s = my.status();
    CHECK(s.stage == 1);
    CHECK(s.serving == 1);
    CHECK(s.turn == 7);
    CHECK(s.term == 4);
    CHECK(s.coordinates == 1);
    CHECK(s.seconds == 0.5);
    CHECK(s.sums[0].step == 2);
    CHECK(s.sums[0].squares == 9.0);
    CHECK(s.part == 6);
    CHECK(s.committed == 3);
    CHECK(s.paths == 2);
    CHECK(s.on_path == 0);
  });
}
