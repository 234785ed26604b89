// SPDX-License-Identifier: Apache-2.0
// Presets in which peers do not wait for each other, against references of their papers and authors' code.

#include <causeway/optim/sgd.hpp>
#include <causeway/presets/asynchronous.hpp>

#include "support/traced_runs.hpp"

using namespace causeway;
using namespace std::chrono_literals;
using presets::make;
using support::replay;
using support::replay_in_any_order;

TEST_CASE("traces: HALoS", "[presets][trace][fast]") {
  const presets::halos_options o;
  CHECK(o.local_steps == 8);
  CHECK(o.pushes == 32);
  const auto policy = [] {
    return make(presets::halos_options{.local_steps = 2, .pushes = 3, .region_period = 4, .global_period = 2});
  };
  CHECK(replay<optim::sgd>(support::trace{"halos"}, policy,
                           {.steps = {20ms, 27ms, 20ms, 35ms}, .regions = {0, 0, 1, 1}, .far = 60ms}) < 1e-5);
}

TEST_CASE("traces: Async Local-SGD", "[presets][trace][fast]") {
  const auto policy = [] {
    return make(presets::async_local_sgd_options{.local_steps = 6, .period = 3, .percentile = 1.0});
  };
  CHECK(replay<optim::sgd>(support::trace{"async_local_sgd"}, policy, {.steps = {20ms, 38ms, 29ms}, .by_sequence = true}) <
        1e-5);
}

TEST_CASE("traces: Decoupled DiLoCo with all learners in every merge", "[presets][trace][fast]") {
  const support::trace t{"decoupled_diloco"};
  const auto policy = [] {
    return make(presets::decoupled_diloco_options{.local_steps = 6, .fragments = 6, .overlap_steps = 2, .quorum = 3});
  };
  const auto batch = [&](auto&, std::uint32_t peer, std::uint64_t) {
    return static_cast<std::int64_t>(t.numbers("batch")[peer]);
  };
  CHECK(replay_in_any_order<optim::sgd>(t, policy, {}, batch) < 1e-5);
}

TEST_CASE("traces: Decoupled DiLoCo with one learner in every merge", "[presets][trace][fast]") {
  const auto policy = [] {
    return make(presets::decoupled_diloco_options{
        .local_steps = 6, .fragments = 6, .overlap_steps = 2, .quorum = 1, .cap_seconds = 0, .whole_steps = true});
  };
  CHECK(replay<optim::sgd>(support::trace{"decoupled_diloco_alone"}, policy, {.steps = {20ms, 52ms, 63ms}}) < 1e-5);
}

TEST_CASE("traces: DLion", "[presets][trace][fast]") {
  const auto policy = [] { return make(presets::dlion_options{.sequences = 15, .threshold = 1e-6F}); };
  const auto batch = [](auto& trainer, std::uint32_t, std::uint64_t) {
    return std::int64_t{trainer.comm().trigger().sequences()};
  };
  CHECK(replay_in_any_order<optim::sgd>(support::trace{"dlion"}, policy, {.steps = {60ms, 30ms, 20ms}, .by_sequence = true},
                                        batch) < 1e-5);
}
