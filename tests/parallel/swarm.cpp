// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/swarm.hpp>

#include <chrono>
#include <cstdint>
#include <string>

#include "parallel/swarm_world.hpp"
#include "support/catch.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

template <class World>
void all_like_unsplit(World& swarm, std::uint32_t except = UINT32_MAX) {
  const auto want = swarm.unsplit();
  for (std::uint32_t h = 0; h < swarm.hosts(); ++h) {
    if (h == except) continue;
    INFO("host " << h << ": " << swarm.at(h).error);
    REQUIRE(swarm.at(h).finished);
    CHECK(swarm.distance(h, want) < 1e-6);
  }
}

}  // namespace

TEST_CASE("swarm: whichever peers a micro-batch goes through, the result is that of the unsplit model",
          "[parallel][fast]") {
  support::swarm_world_options o;
  support::swarm_world<> swarm{o};
  swarm.boot();
  swarm.run(2min);
  all_like_unsplit(swarm);
  const auto want = swarm.unsplit();
  for (std::size_t s = 0; s < want.losses.size(); ++s) CHECK(swarm.at(0).losses[s] == Approx(want.losses[s]).epsilon(1e-6));
}
