// SPDX-License-Identifier: Apache-2.0
// A language model in a simulated swarm: three stages, one of them with three peers.
#include <causeway/parallel/swarm.hpp>

#include <chrono>
#include <cstdint>

#include "parallel/swarm_world.hpp"
#include "support/catch.hpp"
#include "support/swarm_gpt.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

using gpt_swarm = support::swarm_world<stage::routing::least_load, support::gpt_job>;

support::swarm_world_options small() {
  support::swarm_world_options o{.speeds = {{1, 1}, {1, 1, 1}, {1}}, .steps = 4, .blocks_per_stage = 1};
  o.rate = support::gpt_rate;
  o.clip_norm = support::gpt_clip_norm;
  return o;
}

void check_like_unsplit(gpt_swarm& swarm, std::uint32_t except = UINT32_MAX) {
  const auto want = swarm.unsplit();
  for (std::uint32_t h = 0; h < swarm.hosts(); ++h) {
    if (h == except) continue;
    INFO("host " << h << ": " << swarm.at(h).error);
    REQUIRE(swarm.at(h).finished);
    CHECK(swarm.distance(h, want) < 1e-5);
    for (std::size_t s = 0; s < want.losses.size(); ++s) {
      if (swarm.at(h).losses.at(s) != 0) CHECK(swarm.at(h).losses[s] == Approx(want.losses[s]).epsilon(1e-6));
    }
  }
}

}  // namespace

TEST_CASE("swarm: a GPT's losses and parameters are those of the unsplit one", "[parallel][fast]") {
  gpt_swarm swarm{small()};
  swarm.boot();
  swarm.run(2min);
  check_like_unsplit(swarm);
  for (std::size_t m = 0; m < 8; ++m) CHECK(swarm.distance(0, swarm.unsplit(m)) > 1e-3);  // one less would show
}

TEST_CASE("swarm: a GPT goes on without a peer that is closed, wherever it is", "[parallel][fast]") {
  for (std::uint64_t call = 200;; call += 97) {
    auto o = small();
    o.victim = 3;  // of the stage of three
    o.dies_at = call;
    gpt_swarm swarm{o};
    swarm.wanted = swarm.hosts() - 1;
    swarm.boot();
    swarm.run(2min);
    INFO("killed at its network call " << call);
    if (swarm.at(3).calls <= call) return;
    check_like_unsplit(swarm, 3);
  }
}
