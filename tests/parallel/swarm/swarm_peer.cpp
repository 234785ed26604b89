// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/swarm/swarm_peer.hpp>

#include <causeway/sim/world.hpp>
#include <causeway/stage/routing_by_chance.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/catch.hpp"
#include "support/counting_stage.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

using support::counting_stage;
using peer_type = parallel::swarm_peer;

}  // namespace

TEST_CASE("swarm peer: two stages bring a batch through, and neither passes the barrier alone", "[parallel][fast]") {
  sim::world world{{.seed = 1}};
  for (int h = 0; h < 2; ++h) (void)world.add_host();
  std::vector<double> losses(2), norms(2);
  std::vector<float> counts(2);
  std::vector<time_point> passed(2);
  for (std::uint32_t h = 0; h < 2; ++h) {
    world.boot(h, [&, h](sim::process& p) {
      parallel::swarm_options o{.run = 5, .stage = h, .stages = 2, .micro_batches = 6};
      o.dial = {world.address(1 - h)};
      peer_type peer{p.make_fabric(h + 1), o, stage::routing::least_load{}};
      peer.open(0);
      counting_stage stage{h == 0, h == 1};
      losses[h] = peer.run(0, stage).value();
      counts[h] = stage.gradient[0];
      if (h == 1) p.sleep(30s);  // its sum is late
      REQUIRE(peer.keep_sum(stage.gradients(), stage.gradients()));
      norms[h] = peer.all_summed().value().front();
      passed[h] = p.now();
      p.sleep(10s);
    });
  }
  world.run_until(time_point{3min});
  for (std::size_t h = 0; h < 2; ++h) {
    CHECK(counts[h] == 6);
    CHECK(losses[h] == 0 + 1 + 2 + 3 + 4 + 5 + 6);  // each input plus one
    CHECK(norms[h] == 36 + 36);
    CHECK(passed[h] > time_point{30s});
  }
}

TEST_CASE("swarm peer: what a policy asks all stages for is what the first stage has committed", "[parallel][fast]") {
  sim::world world{{.seed = 1}};
  for (int h = 0; h < 2; ++h) (void)world.add_host();
  std::vector<double> came_to(2);
  std::vector<time_point> passed(2);
  for (std::uint32_t h = 0; h < 2; ++h) {
    world.boot(h, [&, h](sim::process& p) {
      parallel::swarm_options o{.run = 5, .stage = h, .stages = 2, .micro_batches = 6};
      o.dial = {world.address(1 - h)};
      peer_type peer{p.make_fabric(h + 1), o, stage::routing::least_load{}};
      peer.open(0);
      const auto memory = peer.decision(1);
      counting_stage stage{h == 0, h == 1};
      REQUIRE(peer.run(0, stage));
      double asked = h + 1.0;
      REQUIRE(peer.sum(std::span{&asked, 1}, {}));
      REQUIRE(peer.keep_sum(stage.gradients(), stage.gradients()));
      const auto all = peer.all_summed().value();
      passed[h] = p.now();
      REQUIRE(all.size() == 2);
      CHECK(all[0] == 36 + 36);  // what is clipped by is committed with it
      peer.agreed(all);
      came_to[h] = asked;
      if (h == 0) {
        p.sleep(20s);
        // As if it had heard of another sum of stage 1, whose peers were lost then: behind the step and the squares.
        const double as_committed = 7;
        std::memcpy(memory.data() + 2 * sizeof(double), &as_committed, sizeof as_committed);
        peer.committed(false);
      }
      p.sleep(40s);
    });
  }
  world.run_until(time_point{3min});
  CHECK(came_to == std::vector{3.0, 7.0});
  CHECK(passed[1] > passed[0] + 19s);
}

TEST_CASE("swarm peer: who waits says for whom", "[parallel][fast]") {
  sim::world world{{.seed = 1}};
  (void)world.add_host();
  std::string text;
  world.boot(0, [&](sim::process& p) {
    parallel::swarm_options o{.run = 5, .stage = 0, .stages = 2, .micro_batches = 6};
    peer_type peer{p.make_fabric(1), o, stage::routing::least_load{},
                   log_sink{[&](severity, std::string_view line) { text = line; }}};
    peer.open(0);
    counting_stage stage{true, false};
    (void)peer.run(0, stage);
  });
  world.run_until(time_point{20s});
  CHECK(text.find("stage 1 is served by nobody") != std::string::npos);
}

TEST_CASE("swarm peer: what cannot be decoded is refused, its sender sent away, and sent again", "[parallel][fast]") {
  sim::world world{{.seed = 1}};
  for (int h = 0; h < 2; ++h) (void)world.add_host();
  std::vector<float> counts(2);
  std::string text;
  int refusals = 0;
  for (std::uint32_t h = 0; h < 2; ++h) {
    world.boot(h, [&, h](sim::process& p) {
      parallel::swarm_options o{.run = 5, .stage = h, .stages = 2, .micro_batches = 6};
      o.dial = {world.address(1 - h)};
      peer_type peer{p.make_fabric(h + 1), o, stage::routing::least_load{},
                     log_sink{[&](severity, std::string_view line) { text.append(line).append("\n"); }}};
      peer.open(0);
      counting_stage stage{h == 0, h == 1};
      if (h == 1) stage.refused = 3;
      (void)peer.run(0, stage);
      counts[h] = stage.gradient[0];
      refusals += stage.refusals;
      p.sleep(10s);
    });
  }
  world.run_until(time_point{3min});
  CHECK(refusals == 1);
  CHECK(counts == std::vector<float>{6, 6});
  CHECK(text.find("peer 1 is sent away: micro-batch 3") != std::string::npos);
}

TEST_CASE("swarm peer: who trains another number of paths is sent away", "[parallel][fast]") {
  sim::world world{{.seed = 1}};
  for (int h = 0; h < 2; ++h) (void)world.add_host();
  std::string text;
  for (std::uint32_t h = 0; h < 2; ++h) {
    world.boot(h, [&, h](sim::process& p) {
      parallel::swarm_options o{.run = 5, .stage = h, .stages = 2, .micro_batches = 6};
      o.dial = {world.address(1 - h)};
      peer_type peer{p.make_fabric(h + 1), o, stage::routing::least_load{},
                     log_sink{[&](severity, std::string_view line) { text.append(line).append("\n"); }}};
      peer.open(0);
      REQUIRE(peer.shares_paths(2 + h, {}, {}));
      counting_stage stage{h == 0, h == 1};
      (void)peer.run(0, stage);
    });
  }
  world.run_until(time_point{20s});
  CHECK(text.find("peer 2 is sent away: it trains 3 paths, and this peer 2") != std::string::npos);
}

TEST_CASE("swarm peer: another codec or number of micro-batches is another run", "[parallel][fast]") {
  for (const bool other_codec : {true, false}) {
    sim::world world{{.seed = 1}};
    for (int h = 0; h < 2; ++h) (void)world.add_host();
    std::string text;
    for (std::uint32_t h = 0; h < 2; ++h) {
      world.boot(h, [&, h](sim::process& p) {
        parallel::swarm_options o{.run = 5, .stage = h, .stages = 2, .micro_batches = other_codec ? 6 : 6 + h};
        o.dial = {world.address(1 - h)};
        peer_type peer{p.make_fabric(h + 1), o, stage::routing::least_load{},
                       log_sink{[&](severity, std::string_view line) { text.append(line).append("\n"); }}};
        peer.open(other_codec ? h : 0);
        counting_stage stage{h == 0, h == 1};
        (void)peer.run(0, stage);
      });
    }
    world.run_until(time_point{20s});
    CHECK(text.find("of another model or seed, codec or number of micro-batches") != std::string::npos);
  }
}
