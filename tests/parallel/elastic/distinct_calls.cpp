// SPDX-License-Identifier: Apache-2.0
// Sweeps that kill a peer at every network call leave out those at which its death makes the same run.
#include "support/distinct_calls.hpp"

#include <causeway/presets/local_updates.hpp>

#include <chrono>
#include <cstdint>

#include "parallel/elastic/local_pipeline_world.hpp"
#include "support/catch.hpp"

using namespace causeway;

TEST_CASE("distinct calls: pipelines make the same run, whichever call of a moment a peer is killed at",
          "[parallel][elastic][fast]") {
  using world = support::local_world<presets::open_diloco_options>;
  auto o = support::two_pipelines();
  o.victim = 1, o.dies_at = UINT64_MAX, o.back_after = std::chrono::milliseconds{200};
  world calm{o};
  calm.boot();
  calm.run();
  const auto history = [&](std::uint64_t n) {
    o.dies_at = n;
    world w{o};
    w.boot();
    w.run(std::chrono::minutes{1});
    return w.world().history_hash();
  };
  const std::uint64_t out = support::left_out(calm.at(1).distinct, 130, 190, history);
  CHECK(out > 20);
  CHECK(out < 50);
}
