// SPDX-License-Identifier: Apache-2.0
// Presets that are an optimizer, against references of their papers and authors' code.

#include <causeway/presets/optimizers.hpp>

#include "support/traced_runs.hpp"

using namespace causeway;
using presets::make;
using support::replay_in_any_order;

namespace {

struct traced_snoo : presets::snoo {
  traced_snoo() : presets::snoo{make(presets::snoo_options{.local_steps = 4})} {}
};
struct traced_dion : presets::dion {
  traced_dion()
      : presets::dion{
            make(presets::dion_options{.rank = 2, .momentum = 0.9F, .weight_decay = 0.05F, .adamw_rate = 0.25F})} {}
};
const auto every_step = [] { return comm::every_step<>{}; };

}  // namespace

TEST_CASE("traces: SNOO", "[presets][trace][fast]") {
  CHECK(replay_in_any_order<traced_snoo>(support::trace{"snoo"}, every_step) < 1e-5);
}

TEST_CASE("traces: Dion", "[presets][trace][fast]") {
  CHECK(replay_in_any_order<traced_dion>(support::trace{"dion"}, every_step) < 1e-5);
}
