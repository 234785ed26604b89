// SPDX-License-Identifier: Apache-2.0
// Presets in which peers meet in groups, against references of their papers and authors' code.

#include <causeway/optim/sgd.hpp>
#include <causeway/presets/gossip.hpp>

#include "support/traced_runs.hpp"

using namespace causeway;
using presets::make;
using support::replay;
using support::replay_in_any_order;

TEST_CASE("traces: NoLoCo", "[presets][trace][fast]") {
  const auto policy = [] {
    return make(presets::noloco_options{.local_steps = 3, .outer = {.alpha = 0.5F, .beta = 0.7F, .gamma = 0.9F}});
  };
  CHECK(replay<optim::sgd>(support::trace{"noloco"}, policy) < 1e-5);
}

TEST_CASE("traces: Moshpit SGD on a grid that is not full", "[presets][trace][fast]") {
  const auto policy = [] { return make(presets::moshpit_sgd_options{.local_steps = 2, .side = 3, .dimensions = 2}); };
  CHECK(replay<optim::sgd>(support::trace{"moshpit_sgd"}, policy) < 1e-5);
}

TEST_CASE("traces: BACombo with unequal batches", "[presets][trace][fast]") {
  const support::trace t{"bacombo"};
  const auto policy = [] { return make(presets::bacombo_options{.local_steps = 2, .segments = 3}); };
  const auto batch = [&](auto&, std::uint32_t peer, std::uint64_t) {
    return static_cast<std::int64_t>(t.numbers("batch")[peer]);
  };
  CHECK(replay<optim::sgd>(t, policy, {}, batch) < 1e-5);
}

TEST_CASE("traces: Ravnest between clusters of one peer", "[presets][trace][fast]") {
  const auto policy = [] { return make(presets::ravnest_options{.local_steps = 3, .clusters = {{0}, {1}, {2}}}); };
  CHECK(replay_in_any_order<optim::sgd>(support::trace{"ravnest"}, policy) < 1e-5);
}

TEST_CASE("traces: NETSTORM", "[presets][trace][fast]") {
  for (const std::size_t message_bytes : {4'000'000U, 32U}) {  // directly, and by auxiliary paths
    const auto policy = [=] { return make(presets::netstorm_options{.message_bytes = message_bytes}); };
    CHECK(replay_in_any_order<optim::sgd>(support::trace{"netstorm"}, policy) < 1e-5);
  }
}
