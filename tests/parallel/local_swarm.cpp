// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/local_swarm.hpp>

#include <causeway/optim/sgd.hpp>

#include <chrono>
#include <cstdint>

#include "parallel/swarm_world.hpp"
#include "support/catch.hpp"
#include "support/local_seat.hpp"

using namespace causeway;
using namespace std::chrono_literals;
using support::all_like_unsplit, support::nobody, support::three_stages;

namespace {

using sgd_swarm =
    support::swarm_world<stage::routing::least_load, support::timed_job, stage::plain, support::local_steps<optim::sgd>>;

support::swarm_world_options rounds_of(std::uint32_t local_steps, std::uint64_t steps) {
  support::swarm_world_options o = support::three_stages;
  o.local_steps = local_steps;
  o.steps = steps;
  return o;
}

/// All have finished, and those of a stage alike.
void stages_agree(sgd_swarm& swarm, std::uint32_t except = nobody) {
  for (std::uint32_t h = 0; h < swarm.hosts(); ++h) {
    if (h == except) continue;
    INFO("host " << h << ": " << swarm.at(h).error);
    REQUIRE(swarm.at(h).finished);
    const std::uint32_t first = h / 3 * 3 == except ? except + 1 : h / 3 * 3;
    CHECK(swarm.at(h).parameters == swarm.at(first).parameters);
  }
}

/// Kills `victim` at its network calls from, from + by, ...; started again after `back`, or never (0).
void kill_at_every(std::uint32_t victim, std::uint64_t from, std::uint64_t by, duration back) {
  for (std::uint64_t n = from;; n += by) {
    INFO("host " << victim << " is killed at its network call " << n);
    auto o = rounds_of(3, 6);
    o.victim = victim, o.dies_at = n, o.back_after = back;
    sgd_swarm swarm{o};
    const bool dies_for_good = back == 0s;
    if (dies_for_good) swarm.wanted = swarm.hosts() - 1;
    swarm.boot();
    swarm.run(2min);
    if (swarm.at(victim).calls <= n) return;  // it has outlived the run
    stages_agree(swarm, dies_for_good ? victim : nobody);
  }
}

}  // namespace

TEST_CASE("local swarm: rounds of one step of SGD are the swarm's every-batch sum", "[parallel][fast]") {
  sgd_swarm swarm{rounds_of(1, 3)};
  swarm.boot();
  swarm.run(2min);
  all_like_unsplit(swarm);
  const auto want = swarm.unsplit();
  for (std::size_t s = 0; s < want.losses.size(); ++s) CHECK(swarm.at(0).losses[s] == Approx(want.losses[s]).epsilon(1e-6));
}

TEST_CASE("local swarm: with one peer a stage, rounds of any length are the unsplit model's steps", "[parallel][fast]") {
  auto o = rounds_of(3, 6);
  o.speeds = {{1}, {1}, {1}};
  sgd_swarm swarm{o};
  swarm.boot();
  swarm.run(2min);
  all_like_unsplit(swarm);
}

TEST_CASE("local swarm: the peers of a stage are equal after every round", "[parallel][fast]") {
  sgd_swarm swarm{rounds_of(3, 6)};
  swarm.boot();
  swarm.run(2min);
  stages_agree(swarm);
}

TEST_CASE("local swarm: whoever is killed in a local step or in an exchange, the round is made", "[parallel][fast]") {
  kill_at_every(0, 7, 41, 1500ms);
  kill_at_every(1, 640, 43, 0s);
  kill_at_every(4, 350, 37, 0s);
  kill_at_every(8, 330, 31, 0s);
}

TEST_CASE("local swarm: whoever is killed at any of its network calls and comes back", "[parallel][slow]") {
  for (const std::uint32_t victim : {0U, 1U, 2U, 4U, 8U}) kill_at_every(victim, 0, 1, 1500ms);
  for (const std::uint32_t victim : {1U, 2U, 4U, 8U}) kill_at_every(victim, 640, 1, 0s);
}
