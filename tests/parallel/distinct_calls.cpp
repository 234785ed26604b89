// SPDX-License-Identifier: Apache-2.0
// Sweeps that kill a peer at every network call leave out those at which its death makes the same run.
#include "support/distinct_calls.hpp"

#include <causeway/presets/local_updates.hpp>

#include <chrono>
#include <cstdint>

#include "parallel/elastic/local_pipeline_world.hpp"
#include "parallel/swarm/local_swarm_cases.hpp"
#include "support/catch.hpp"

using namespace causeway;

namespace {

/// `history(n)`: of the run in which the peer is killed at call n. Gives how many of those calls a sweep leaves out.
template <class History>
std::uint64_t left_out(const support::distinct_calls& calls, std::uint64_t from, std::uint64_t to, History&& history) {
  std::uint64_t out = 0;
  for (std::uint64_t n = from; n < to; n = calls.after(n)) {
    for (std::uint64_t same = n + 1; same < calls.after(n) && same < to; ++same, ++out) {
      INFO("calls " << n << " and " << same);
      CHECK(history(same) == history(n));
    }
  }
  return out;
}

}  // namespace

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
  const std::uint64_t out = left_out(calm.at(1).distinct, 130, 190, history);
  CHECK(out > 20);
  CHECK(out < 50);
}

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
  const std::uint64_t out = left_out(calls, 200, 260, history);
  CHECK(out > 5);
  CHECK(out < 55);
}
