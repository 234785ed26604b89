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

using coordinator = parallel::swarm_coordinator<stage::routing::least_load>;
using parallel::swarm_wire::evaluation_turn;
using parallel::swarm_wire::training_turn;

/// Peer 5 of stage 0 of two, which never hears from the network by itself.
struct lone_peer final : coordinator {
  explicit lone_peer(sim::process& p)
      : coordinator{
            p.make_fabric(5), {.run = 5, .stage = 0, .stages = 2, .micro_batches = 4}, stage::routing::least_load{}, {}} {}
  using coordinator::begin, coordinator::coordinates_, coordinator::evaluated, coordinator::followed_,
      coordinator::gives_up, coordinator::hear, coordinator::may_enter, coordinator::after_event,
      coordinator::micro_batches_, coordinator::directory_, coordinator::term_, coordinator::claims_from_,
      coordinator::ask_for_the_loss;

  void meet(net::peer_id id, std::uint32_t stage, std::uint64_t turn, std::uint32_t term = 0, bool coordinates = false) {
    directory_.up(id, static_cast<net::peer_index>(id), "", time_point{});
    parallel::swarm_wire::status s;
    s.stage = stage, s.serving = 1, s.turn = turn, s.term = term, s.coordinates = coordinates ? 1 : 0;
    directory_.take(id, s, time_point{});
    after_event();
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
    l.begin(training_turn(0), 4);
    coordinated = l.coordinates_;
    l.meet(9, 1, training_turn(0));
    l.after_event();
    l.meet(7, 0, training_turn(0), 8, true);
    coordinates = l.coordinates_;
    followed = l.followed_.id;
    tasks = l.micro_batches_.queued();
  });
  CHECK(coordinated);
  CHECK_FALSE(coordinates);
  CHECK(followed == 7);
  CHECK(tasks == 0);  // the new coordinator has not confirmed them
}

TEST_CASE("swarm coordinator: nobody but stage 0 coordinates, and not before it has listened", "[parallel][fast]") {
  bool coordinated = true;
  alone([&](lone_peer& l) {
    l.claims_from_ = time_point{1s};
    l.begin(training_turn(0), 4);
    coordinated = l.coordinates_;
  });
  CHECK_FALSE(coordinated);
}

TEST_CASE("swarm coordinator: the coordinator's word ends a turn; a later turn's word too", "[parallel][fast]") {
  bool before = true, other = true, after = false, beyond = false;
  alone([&](lone_peer& l) {
    l.claims_from_ = time_point{1h};
    l.begin(training_turn(3), 4);
    before = l.may_enter();
    l.hear({training_turn(2), 1, 1.0});
    other = l.may_enter();
    l.hear({training_turn(3), 1, 1.0});
    after = l.may_enter();
    l.begin(training_turn(4), 4);
    l.meet(7, 0, evaluation_turn(5, 0));  // of the same stage
    beyond = l.may_enter();
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
    l.claims_from_ = time_point{1h};
    l.meet(7, 0, training_turn(3), 8, true);
    l.begin(training_turn(2), 4);
    l.hear({evaluation_turn(3, 0), 1, 2.5});
    l.hear({evaluation_turn(3, 1), 0, 0.0});
    l.begin(evaluation_turn(3, 0), 2);
    late = l.evaluated().value_or(0);
    l.begin(evaluation_turn(3, 1), 2);
    unknown = !l.evaluated().has_value();
    waits = !l.gives_up();
    l.hear({evaluation_turn(3, 1), 0, 0.0});  // the coordinator is beyond, and does not know
    given_up = l.gives_up();
  });
  CHECK(late == 2.5);
  CHECK(unknown);
  CHECK(waits);
  CHECK(given_up);
}
