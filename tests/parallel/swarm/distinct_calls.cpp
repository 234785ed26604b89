// SPDX-License-Identifier: Apache-2.0
// Sweeps that kill a peer at every network call leave out those at which its death makes the same run.
#include "support/distinct_calls.hpp"

#include <causeway/presets/local_updates.hpp>

#include <chrono>
#include <cstdint>

#include "parallel/swarm/local_swarm_cases.hpp"
#include "support/catch.hpp"

using namespace causeway;

TEST_CASE("distinct calls: swarms make the same run, whichever call of a moment a peer is killed at", "[parallel][fast]") {
  using swarm_type = support::local_swarm_of<support::preset_rounds<presets::open_diloco_options>>;
  auto o = support::two_stages();
  o.victim = 4, o.back_after = std::chrono::milliseconds{1500};
  const auto calls = support::calls_of_victim<swarm_type>(o);
  const auto history = [&](std::uint64_t n) {
    o.dies_at = n;
    swarm_type w{o};
    w.boot();
    w.run(std::chrono::minutes{2});
    return w.world().history_hash();
  };
  const std::uint64_t out = support::left_out(calls, 200, 260, history);
  CHECK(out > 5);
  CHECK(out < 55);
}
