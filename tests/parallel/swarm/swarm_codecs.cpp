// SPDX-License-Identifier: Apache-2.0
// A language model in a simulated swarm whose boundaries are crossed in 8 bits.
#include <causeway/parallel/swarm.hpp>

#include <causeway/compress/block_int8.hpp>

#include <chrono>
#include <cstdint>

#include "parallel/swarm/swarm_world.hpp"
#include "support/catch.hpp"
#include "support/swarm_gpt.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

using coded_swarm = support::swarm_world<stage::routing::least_load, support::gpt_job, stage::coded<compress::block_int8>>;

support::swarm_world_options small() {
  support::swarm_world_options o{.speeds = {{1, 1}, {1, 1, 1}, {1}}, .steps = 4, .blocks_per_stage = 1};
  o.rate = support::gpt_rate;
  o.clip_norm = support::gpt_clip_norm;
  o.evaluations = 1;
  return o;
}

}  // namespace

TEST_CASE("swarm: in 8 bits a GPT learns nearly the same, and all peers of a stage the same", "[parallel][fast]") {
  coded_swarm swarm{small()};
  swarm.boot();
  swarm.run(2min);
  support::all_like_unsplit(swarm, support::nobody, 2e-3, 1e-6);
  const auto want = swarm.unsplit();
  for (std::uint32_t h = 0; h < swarm.hosts(); ++h) {
    CHECK(swarm.at(h).evaluated.at(0) == Approx(want.evaluated[0]).epsilon(1e-6));  // evaluation is exact
  }
  CHECK(swarm.at(0).parameters == swarm.at(1).parameters);
  CHECK(swarm.at(2).parameters == swarm.at(4).parameters);
  for (std::size_t s = 0; s < want.losses.size(); ++s) CHECK(swarm.at(5).losses[s] == Approx(want.losses[s]).epsilon(1e-3));
}

TEST_CASE("swarm: what is computed again in 8 bits is what was lost", "[parallel][fast]") {
  coded_swarm whole{small()};
  whole.boot();
  whole.run(2min);
  auto o = small();
  o.victim = 3;
  o.dies_at = 140;
  o.once_committed = true;
  coded_swarm swarm{o};
  swarm.wanted = swarm.hosts() - 1;
  swarm.boot();
  swarm.run(2min);
  REQUIRE(swarm.at(3).calls > 140);
  REQUIRE_FALSE(swarm.at(3).finished);
  for (const std::uint32_t h : {0U, 2U, 5U}) {
    REQUIRE(swarm.at(h).finished);
    CHECK(support::distance(swarm.at(h).parameters, {whole.at(h).parameters, {}, {}}) < 1e-5);
  }
}
