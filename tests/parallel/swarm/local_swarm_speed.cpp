// SPDX-License-Identifier: Apache-2.0
// Swarms whose peers take local steps, with batches that follow speed: those of a swarm do, since the coordinator gives
// micro-batches to who is quick.
#include <causeway/presets/asynchronous.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "parallel/swarm/local_swarm_cases.hpp"
#include "support/catch.hpp"
#include "support/local_seat.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

/// In steps of 8 sequences, as many as the cases have micro-batches.
struct dlion : presets::dlion_options {
  dlion() { sequences = 8; }
};
/// All that changed is sent.
struct all_of_dlion : dlion {
  all_of_dlion() { threshold = 1e-6F; }
};

/// The first peer of each stage has three of four micro-batches.
struct three_to_one {
  static constexpr std::size_t models = 2;
  static std::size_t of(std::uint64_t, std::uint32_t m) { return m % 4 == 0 ? 1 : 0; }
};

}  // namespace

TEST_CASE("local swarm: peers that have three and one of four micro-batches count by them", "[parallel][fast]") {
  auto o = support::two_pairs();
  o.local_steps = 3, o.steps = 6;
  const auto by_hand = support::models_by_hand<three_to_one>(o, [&](std::uint64_t steps, auto& shared, const auto& models) {
    if (steps % o.local_steps != 0) return;
    for (std::size_t i = 0; i < models[0].size(); ++i) {
      float& mean = shared.values()[i];
      mean = models[0][i] = models[1][i] = 0.75F * models[0][i] + 0.25F * models[1][i];
    }
  });
  CHECK(support::off_by_hand<support::preset_rounds<all_of_dlion>, three_to_one>(o, by_hand) < 1e-4);
}

TEST_CASE("local swarm: a peer of half the speed has half as much of a step, without being asked", "[parallel][fast]") {
  auto o = support::two_stages();
  o.speeds = {{1, 0.5, 1}, {1, 1, 1}};
  o.micro_batches = 30, o.block_seconds = 0.05, o.window = 1;
  support::round_notes notes;
  using rounds = support::preset_rounds<dlion>;
  support::local_seat_of<rounds>::notes = &notes;
  support::local_swarm_of<rounds> swarm{o};
  swarm.boot();
  swarm.run(5min);
  support::local_seat_of<rounds>::notes = nullptr;
  support::stages_agree(swarm);
  std::vector<std::uint32_t> counts;
  for (const auto& done : notes.put_in.at(0)) counts.push_back(done.count());
  std::sort(counts.begin(), counts.end());
  REQUIRE(counts.size() == 3);
  CHECK(counts[0] + counts[1] + counts[2] == 30 * o.local_steps);
  CHECK(counts[0] / double(counts[1] + counts[2]) == Approx(0.25).margin(0.05));
}

TEST_CASE("local swarm: batches by speed go on whoever is lost, and let others in", "[parallel][local_swarm]") {
  using rounds = support::preset_rounds<dlion>;
  support::trains_through_losses<rounds>(0.3);
  support::lets_newcomers_in<rounds>();
  support::goes_on_from_checkpoints<rounds>(0.3);
}

TEST_CASE("local swarm: batches by speed, a peer lost at every single network call",
          "[parallel][local_swarm][slow][every_call]") {
  support::trains_through_losses<support::preset_rounds<dlion>>(0.3, support::two_stages(), 1);
}
