// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/swarm/swarm_coordinator.hpp>

#include <causeway/sim/world.hpp>
#include <causeway/stage/routing_by_chance.hpp>

#include <chrono>
#include <cstdint>
#include <utility>

#include "support/catch.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

using parallel::swarm_wire::evaluation_turn;
using parallel::swarm_wire::training_turn;

/// Peer 5 of stage 0 of two, which never hears from the network by itself.
struct lone_peer {
  explicit lone_peer(sim::process& p) : my{p.make_fabric(5), {.run = 5, .stage = 0, .stages = 2, .micro_batches = 4}, {}} {}
  parallel::swarm_state my;
  parallel::swarm_messenger messenger{my};
  parallel::swarm_table_sync table{my, messenger};
  parallel::swarm_coordinator coordinator{my, messenger, table, stage::routing::least_load{}};

  void meet(net::peer_id id, std::uint32_t stage, std::uint64_t turn, std::uint32_t term = 0, bool coordinates = false) {
    my.directory.up(id, static_cast<net::peer_index>(id), "", time_point{});
    parallel::swarm_wire::status s;
    s.stage = stage, s.serving = 1, s.turn = turn, s.term = term, s.coordinates = coordinates ? 1 : 0;
    my.directory.take(id, s, time_point{});
    coordinator.after_event();
  }
};

template <class Body>
void alone(Body body) {
  sim::world world{{.seed = 1}};
  (void)world.add_host();
  world.boot(0, [&](sim::process& p) {
    lone_peer l{p};
    body(l);
  });
  REQUIRE(world.run());
}

}  // namespace

TEST_CASE("swarm coordinator: the first peer of stage 0 coordinates, and gives way to a higher term", "[parallel][fast]") {
  bool coordinated = false, coordinates = true;
  net::peer_id followed = 0;
  std::size_t tasks = 0;
  alone([&](lone_peer& l) {
    l.coordinator.begin(training_turn(0), 4);
    coordinated = l.my.coordinates;
    l.meet(9, 1, training_turn(0));
    l.coordinator.after_event();
    l.meet(7, 0, training_turn(0), 8, true);
    coordinates = l.my.coordinates;
    followed = l.my.followed.id;
    tasks = l.my.micro_batches.queued();
  });
  CHECK(coordinated);
  CHECK_FALSE(coordinates);
  CHECK(followed == 7);
  CHECK(tasks == 0);  // the new coordinator has not confirmed them
}

TEST_CASE("swarm coordinator: nobody but stage 0 coordinates, and not before it has listened", "[parallel][fast]") {
  bool coordinated = true;
  alone([&](lone_peer& l) {
    l.coordinator.claims_from(time_point{1s});
    l.coordinator.begin(training_turn(0), 4);
    coordinated = l.my.coordinates;
  });
  CHECK_FALSE(coordinated);
}

TEST_CASE("swarm coordinator: the coordinator's word ends a turn; a later turn's word too", "[parallel][fast]") {
  bool before = true, other = true, after = false, beyond = false;
  alone([&](lone_peer& l) {
    l.coordinator.claims_from(time_point{1h});
    l.coordinator.begin(training_turn(3), 4);
    before = l.coordinator.may_enter();
    l.coordinator.hear({training_turn(2), 1, 1.0});
    other = l.coordinator.may_enter();
    l.coordinator.hear({training_turn(3), 1, 1.0});
    after = l.coordinator.may_enter();
    l.coordinator.begin(training_turn(4), 4);
    l.meet(7, 0, evaluation_turn(5, 0));  // of the same stage
    beyond = l.coordinator.may_enter();
  });
  CHECK_FALSE(before);
  CHECK_FALSE(other);
  CHECK(after);
  CHECK(beyond);
}

TEST_CASE("swarm coordinator: what an evaluation came to is kept for who comes late, and who cannot learn it gives up",
          "[parallel][fast]") {
  double late = 0;
  bool unknown = true, waits = true, given_up = false;
  alone([&](lone_peer& l) {
    l.coordinator.claims_from(time_point{1h});
    l.meet(7, 0, training_turn(3), 8, true);
    l.coordinator.begin(training_turn(2), 4);
    l.coordinator.hear({evaluation_turn(3, 0), 1, 2.5});
    l.coordinator.hear({evaluation_turn(3, 1), 0, 0.0});
    l.coordinator.begin(evaluation_turn(3, 0), 2);
    late = l.coordinator.evaluated().value_or(0);
    l.coordinator.begin(evaluation_turn(3, 1), 2);
    unknown = !l.coordinator.evaluated().has_value();
    waits = !l.coordinator.gives_up();
    l.coordinator.hear({evaluation_turn(3, 1), 0, 0.0});  // the coordinator is beyond, and does not know
    given_up = l.coordinator.gives_up();
  });
  CHECK(late == 2.5);
  CHECK(unknown);
  CHECK(waits);
  CHECK(given_up);
}
