// SPDX-License-Identifier: Apache-2.0
// One peer of a swarm comes to values that are not finite: the others do its part, and it comes back.

#include <causeway/parallel/swarm.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "parallel/swarm/swarm_world.hpp"
#include "support/catch.hpp"

using namespace causeway;
using namespace std::chrono_literals;
using support::all_like_unsplit, support::three_stages;

namespace {

/// A parameter of `victim` becomes not a number before its `at`th computation of a block.
support::swarm_world_options spoilt(support::swarm_world_options o, std::uint32_t victim, std::uint64_t at) {
  o.spoils = [victim, at](std::uint32_t host, std::uint64_t n) { return host == victim && n == at; };
  return o;
}

void survives(const support::swarm_world_options& o) {
  support::swarm_world<> swarm{o};
  swarm.boot();
  swarm.run(3min);
  all_like_unsplit(swarm);
}

/// Three stages with one peer each: nobody else could do its part.
const support::swarm_world_options one_each{
    .speeds = {{1}, {1}, {1}}, .steps = 4, .micro_batches = 4, .block_seconds = 0.01};

}  // namespace

TEST_CASE("swarm: a not-a-number in one peer's weights costs what that peer has of the step", "[parallel][fast]") {
  for (const std::uint32_t victim : {0U, 1U, 4U, 8U}) {
    for (const std::uint64_t at : {0U, 3U, 10U, 25U, 34U, 40U}) {
      if (victim == 0 && at < 25) continue;  // who founds a run has nothing on disk before the first step
      INFO("host " << victim << ", before computation " << at);
      survives(spoilt(three_stages, victim, at));
    }
  }
}

TEST_CASE("swarm: a stage's only peer with a not-a-number goes back to its last state and takes the step anew",
          "[parallel][fast]") {
  for (const std::uint32_t victim : {0U, 1U, 2U}) {
    for (const std::uint64_t at : {24U, 30U, 37U, 47U, 48U, 60U}) {
      INFO("host " << victim << ", before computation " << at);
      survives(spoilt(one_each, victim, at));
    }
  }
}

TEST_CASE("swarm: a not-a-number during an evaluation is left to the others, and gone with the next step",
          "[parallel][fast]") {
  support::swarm_world_options o = three_stages;
  o.evaluations = 2;
  for (const std::uint32_t victim : {1U, 5U, 7U}) {
    for (const std::uint64_t at : {0U, 1U, 22U, 30U}) {
      INFO("host " << victim << ", before computation " << at);
      survives(spoilt(o, victim, at));
    }
  }
}

TEST_CASE("swarm: who comes to not-a-numbers again and again looks on, while others serve its stage", "[parallel][fast]") {
  support::swarm_world_options o = three_stages;
  o.spoils = [](std::uint32_t host, std::uint64_t n) { return host == 4 && n > 5; };
  support::swarm_world<> swarm{o};
  swarm.boot();
  swarm.run(3min);
  all_like_unsplit(swarm);
  CHECK(swarm.at(4).blocks < swarm.at(3).blocks / 2);
}

TEST_CASE("swarm: a stage's only peer that comes to nothing else ends with an error that says what to do",
          "[parallel][fast]") {
  support::swarm_world_options o = one_each;
  o.spoils = [](std::uint32_t host, std::uint64_t n) { return host == 1 && n >= 24; };
  support::swarm_world<> swarm{o};
  swarm.boot();
  swarm.run(1min);
  CHECK(swarm.at(1).error.find("3 times from a sound state: lower the learning rate") != std::string::npos);
  CHECK(swarm.finished() == 0);
}
