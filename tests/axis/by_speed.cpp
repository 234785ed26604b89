// SPDX-License-Identifier: Apache-2.0
#include <causeway/axis/by_speed.hpp>

#include <causeway/comm/rounds.hpp>
#include <causeway/optim/sgd.hpp>

#include <cmath>
#include <limits>
#include <vector>

#include "support/simulated_runs.hpp"

using namespace causeway;

namespace {

std::vector<std::uint32_t> steps_of(const axis::by_speed& trigger, const std::vector<double>& speeds) {
  std::vector<std::uint32_t> steps;
  for (const double s : speeds) steps.push_back(trigger.steps_for(s, speeds));
  return steps;
}

}  // namespace

TEST_CASE("by speed: a peer takes its share of H steps, rounded down, and at least one", "[axis][fast]") {
  const axis::by_speed trigger{{.local_steps = 10}};
  CHECK(steps_of(trigger, {4, 4, 4}) == std::vector<std::uint32_t>{10, 10, 10});
  CHECK(steps_of(trigger, {4, 2, 1}) == std::vector<std::uint32_t>{10, 5, 2});
  CHECK(steps_of(trigger, {100, 1}) == std::vector<std::uint32_t>{10, 1});
  CHECK(steps_of(trigger, {3, 1.0 / 3}) == std::vector<std::uint32_t>{10, 1});
  CHECK(steps_of(trigger, {0.3, 0.1}) == std::vector<std::uint32_t>{10, 3});
}

TEST_CASE("by speed: with the 90th percentile one peer measured wrongly shrinks nobody's work", "[axis][fast]") {
  std::vector<double> speeds(20, 1.0);
  speeds[7] = 1000;
  CHECK(steps_of(axis::by_speed{{.local_steps = 10}}, speeds)[0] == 1);
  const auto steps = steps_of(axis::by_speed{{.local_steps = 10, .percentile = 0.9}}, speeds);
  CHECK(steps == std::vector<std::uint32_t>(20, 10));
}

TEST_CASE("by speed: what is not known yet changes nothing", "[axis][fast]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const axis::by_speed trigger{{.local_steps = 10}};
  CHECK(steps_of(trigger, {2, 0, nan, -1, INFINITY, 1}) == std::vector<std::uint32_t>{10, 10, 10, 10, 10, 5});
  CHECK(steps_of(trigger, {0, 0}) == std::vector<std::uint32_t>{10, 10});
}

TEST_CASE("by speed: options that cannot work are refused", "[axis][fast]") {
  CHECK(axis::by_speed{}.check(1));
  CHECK_FALSE(axis::by_speed{{.local_steps = 0}}.check(1));
  CHECK_FALSE(axis::by_speed{{.percentile = 0}}.check(1));
  CHECK_FALSE(axis::by_speed{{.percentile = 1.5}}.check(1));
}

TEST_CASE("by speed: in synchronous rounds slow peers do less, and nobody waits long", "[axis][fast]") {
  // 8 steps of 20 ms, or 8 of 80 ms; after the first round the slow peer does 2 of its own.
  const auto trained = [](std::vector<std::uint64_t> more, auto make) {
    support::simulated_runs<optim::sgd, support::blocky, decltype(make)> runs{
        make,
        {.peers = 2, .steps = 8 + 2 * 4, .speeds = {1, 0.25}, .latency = std::chrono::milliseconds{1}, .more_steps = more}};
    const auto run = runs.run();
    support::all_alike(run);
    return seconds(run.peers[0].trained.since_start) - 1;
  };
  const double adapted = trained({24, 0}, [] { return comm::rounds{axis::by_speed{{.local_steps = 8}}}; });
  const double fixed = trained({24, 24}, [] { return comm::rounds{axis::every{8}}; });
  CHECK(adapted == Approx(8 * 0.08 + 4 * 0.16).margin(0.05));
  CHECK(fixed == Approx(5 * 8 * 0.08).margin(0.05));
}

TEST_CASE("by speed: where results are a round late, slow peers do less from the first one that came", "[axis][fast]") {
  // Two rounds of 8 steps each, then 2 of the slow peer's own.
  const auto make = [] {
    return comm::rounds{axis::by_speed{{.local_steps = 8}}, axis::one_round_late{}, axis::gather_mean<>{}};
  };
  support::simulated_runs<optim::sgd, support::blocky, decltype(make)> runs{make,
                                                                            {.peers = 2,
                                                                             .steps = 2 * 8 + 4 * 2,
                                                                             .speeds = {1, 0.25},
                                                                             .latency = std::chrono::milliseconds{1},
                                                                             .more_steps = {24, 0}}};
  const auto run = runs.run();
  support::all_alike(run);
  CHECK(seconds(run.peers[0].trained.since_start) - 1 == Approx(2 * 8 * 0.08 + 4 * 0.16).margin(0.05));
}
