// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/swarm/swarm_work.hpp>

#include <causeway/parallel/swarm/swarm_parts.hpp>
#include <causeway/sim/world.hpp>
#include <causeway/stage/routing_by_chance.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/counting_stage.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

using parallel::swarm_wire::local_turn;
using parallel::swarm_wire::training_turn;

/// Does what it is given when it is told to, and waits for nothing.
struct busy_peer : parallel::swarm_parts {
  busy_peer(std::shared_ptr<net::fabric> fabric, parallel::swarm_options o)
      : parallel::swarm_parts{std::move(fabric), std::move(o), stage::routing::least_load{}, {}} {}
  void do_everything() {
    work.move_tensors();
    while (const auto task = my.with_lock([this] { return my.micro_batches.next(); })) REQUIRE(work.compute(*task));
  }
};

/// Counts steps too.
struct stepping_stage final : support::counting_stage {
  using counting_stage::counting_stage;
  result<void> take_step(float scale) override {
    scales.push_back(scale);
    return {};
  }
  std::vector<float> scales;
};

/// The only peer of a swarm of one stage, and its computer.
void alone(std::uint32_t local_steps, const std::function<void(busy_peer&, stepping_stage&)>& body) {
  sim::world world{{.seed = 1}};
  (void)world.add_host();
  bool through = false;
  world.boot(0, [&](sim::process& p) {
    busy_peer peer{p.make_fabric(1), {.run = 5, .micro_batches = 3, .local_steps = local_steps}};
    stepping_stage stage{true, true};
    body(peer, stage);
    through = true;
  });
  REQUIRE(world.run());
  CHECK(through);
}

}  // namespace

TEST_CASE("swarm work: a micro-batch that is computed again adds nothing to the gradient", "[parallel][fast]") {
  alone(0, [](busy_peer& peer, stepping_stage& stage) {
    peer.work.begin(training_turn(0), 3, stage);
    CHECK(peer.work.wanted().count() == 3);
    peer.do_everything();
    CHECK(stage.gradient[0] == 3);
    CHECK(peer.my.micro_batches.done().count() == 3);
    REQUIRE(peer.work.compute({1, true, nullptr, 0}));
    CHECK(stage.gradient[0] == 3);
  });
}

TEST_CASE("swarm work: what another peer's gradient has too is thrown away whole", "[parallel][fast]") {
  alone(0, [](busy_peer& peer, stepping_stage& stage) {
    peer.work.begin(training_turn(0), 3, stage);
    peer.do_everything();
    peer.work.drop_everything();
    CHECK(stage.gradient[0] == 0);
    CHECK(peer.my.micro_batches.done().count() == 0);
  });
}

TEST_CASE("swarm work: with local steps nothing of the round stays with it", "[parallel][fast]") {
  alone(1, [](busy_peer& peer, stepping_stage& stage) {
    peer.work.progress() = parallel::swarm_wire::batch_set{3};
    peer.work.progress().add(1);
    peer.work.begin(training_turn(0), 3, stage, peer.work.progress());
    peer.do_everything();
    peer.work.drop_everything();
    CHECK(stage.gradient[0] == 0);
    CHECK(peer.my.micro_batches.done().count() == 0);
    CHECK(peer.work.progress().count() == 0);
    CHECK(peer.work.step_on_what_was_missing());  // there is nothing to step on
    CHECK(stage.scales.empty());
  });
}

TEST_CASE("swarm work: the first micro-batch of a local step clears what the gradients held", "[parallel][fast]") {
  alone(1, [](busy_peer& peer, stepping_stage& stage) {
    stage.gradient[0] = 50;
    peer.work.begin(local_turn(0), 3, stage);
    peer.do_everything();
    CHECK(stage.gradient[0] == 3);
    CHECK(peer.work.step_on_what_was_missing());  // it is no closing turn
    CHECK(stage.scales.empty());
  });
}

TEST_CASE("swarm work: what was missing in a closing turn is one step more, and the exchange is prepared anew",
          "[parallel][fast]") {
  alone(1, [](busy_peer& peer, stepping_stage& stage) {
    peer.work.progress() = parallel::swarm_wire::batch_set{3};
    peer.work.progress().add(1);
    peer.work.begin(training_turn(0), 3, stage, peer.work.progress());
    peer.do_everything();
    CHECK(stage.gradient[0] == 2);
    const auto outcome = peer.work.step_on_what_was_missing();
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code == errc::cancelled);
    CHECK(stage.scales == std::vector<float>{1.5F});  // three by two
    CHECK(peer.work.progress().count() == 3);
    CHECK(peer.my.micro_batches.pending() == 0);
    CHECK(peer.work.step_on_what_was_missing());
    CHECK(stage.scales.size() == 1);
  });
}

TEST_CASE("swarm work: tensors go to the stage beside and come back, one for each micro-batch", "[parallel][fast]") {
  sim::world world{{.seed = 1}};
  for (int h = 0; h < 2; ++h) (void)world.add_host();
  std::vector<float> counts(2);
  std::vector<bool> idle(2);
  double loss = 0;
  for (std::uint32_t h = 0; h < 2; ++h) {
    world.boot(h, [&, h](sim::process& p) {
      parallel::swarm_options o{.run = 5, .stage = h, .stages = 2, .micro_batches = 6};
      o.dial = {world.address(1 - h)};
      busy_peer peer{p.make_fabric(h + 1), o};
      support::counting_stage stage{h == 0, h == 1};
      peer.listen();
      peer.work.begin(training_turn(0), 6, stage);
      for (int round = 0; round < 500; ++round) {
        peer.do_everything();
        p.sleep(10ms);
      }
      peer.do_everything();
      idle[h] = !peer.my.with_lock([&] { return peer.work.has_something_to_do(); });
      counts[h] = stage.gradient[0];
      if (h == 1) loss = stage.loss;
      p.sleep(1s);
    });
  }
  REQUIRE(world.run());
  CHECK(counts == std::vector<float>{6, 6});
  CHECK(idle == std::vector<bool>{true, true});
  CHECK(loss == 6);  // of the last micro-batch: its number plus one
}
