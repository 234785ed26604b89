// SPDX-License-Identifier: Apache-2.0
// Presets that train on while an exchange is under way, against references of their papers and authors' code.

#include <causeway/optim/sgd.hpp>
#include <causeway/presets/overlapped.hpp>

#include "support/traced_runs.hpp"

using namespace causeway;
using presets::make;
using support::replay_in_any_order;

TEST_CASE("traces: CoCoDC", "[presets][trace][fast]") {
  const auto policy = [] {
    return make(presets::cocodc_options{.local_steps = 8, .exchanges = 4, .blocks_in_fragment = 1, .overlap_steps = 2});
  };
  CHECK(replay_in_any_order<optim::sgd>(support::trace{"cocodc"}, policy) < 1e-5);
}

TEST_CASE("traces: Streaming DiLoCo", "[presets][trace][fast]") {
  const auto policy = [] { return make(presets::streaming_diloco_options{.local_steps = 6, .blocks_in_fragment = 1}); };
  CHECK(replay_in_any_order<optim::sgd>(support::trace{"streaming_diloco"}, policy) < 1e-5);
}

TEST_CASE("traces: Eager DiLoCo", "[presets][trace][fast]") {
  const auto policy = [] { return make(presets::eager_diloco_options{.local_steps = 3}); };
  CHECK(replay_in_any_order<optim::sgd>(support::trace{"eager_diloco"}, policy) < 1e-5);
}
