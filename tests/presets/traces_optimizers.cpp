// SPDX-License-Identifier: Apache-2.0
// Presets that are an optimizer, or come with one, against references of their papers and authors' code.

#include <causeway/optim/basis_rotation.hpp>
#include <causeway/optim/dion.hpp>
#include <causeway/optim/lamb.hpp>
#include <causeway/presets/compressed.hpp>
#include <causeway/presets/optimizers.hpp>

#include "support/traced_runs.hpp"

using namespace causeway;
using namespace std::chrono_literals;
using presets::make;
using support::replay_in_any_order;

namespace {

struct traced_snoo : presets::snoo {
  traced_snoo() : presets::snoo{make(presets::snoo_options{.local_steps = 4})} {}
};
template <bool Given>
struct traced_dion : optim::dion {
  traced_dion()
      : optim::dion{
            optim::dion_options{.rank = 2, .momentum = 0.9F, .weight_decay = 0.05F, .adamw_rate = 0.25F, .given = Given}} {}
};
/// With what the traces say: rates of their own, and an epsilon that leaves rounding small.
template <bool ShorterSide>
struct traced_rotation : optim::basis_rotation<> {
  traced_rotation()
      : optim::basis_rotation<>{optim::basis_rotation_options{
            .beta2 = 0.95F, .epsilon = 1e-3F, .weight_decay = 0.01F, .period = 4, .shorter_side = ShorterSide}} {}
};
struct traced_first_order : optim::basis_rotation<> {
  traced_first_order()
      : optim::basis_rotation<>{optim::basis_rotation_options{
            .beta2 = 0.95F, .epsilon = 1e-3F, .weight_decay = 0.01F, .period = 4, .first_order = true, .clip_norm = 2.0F}} {
  }
};
struct traced_lamb : optim::lamb {
  traced_lamb() : optim::lamb{optim::lamb_options{.epsilon = 1e-3F, .longest = 5.0F}} {}
};
const auto every_step = [] { return comm::every_step<>{}; };

}  // namespace

TEST_CASE("traces: SNOO", "[presets][trace][fast]") {
  CHECK(replay_in_any_order<traced_snoo>(support::trace{"snoo"}, every_step) < 1e-5);
}

TEST_CASE("traces: Dion, whose factors travel", "[presets][trace][fast]") {
  const auto policy = [] { return make(presets::dion_options{.rank = 2, .momentum = 0.9F}); };
  CHECK(replay_in_any_order<traced_dion<true>>(support::trace{"dion"}, policy) < 1e-5);
}

TEST_CASE("traces: Dion of gradients that travel whole", "[presets][trace][fast]") {
  CHECK(replay_in_any_order<traced_dion<false>>(support::trace{"dion"}, every_step) < 1e-5);
}

TEST_CASE("traces: basis rotation, of both sides of a matrix and of one", "[presets][trace][fast]") {
  CHECK(replay_in_any_order<traced_rotation<false>>(support::trace{"basis_rotation"}, every_step) < 1e-5);
  CHECK(replay_in_any_order<traced_rotation<true>>(support::trace{"basis_rotation_one_side"}, every_step) < 1e-5);
}

TEST_CASE("traces: basis rotation by the momentum alone, with two norms to clip by", "[presets][trace][fast]") {
  CHECK(replay_in_any_order<traced_first_order>(support::trace{"basis_rotation_first_order"}, every_step) < 1e-5);
}

TEST_CASE("traces: DeDLOC with LAMB", "[presets][trace][fast]") {
  const support::trace t{"dedloc_lamb"};
  const auto policy = [] { return make(presets::dedloc_options{.batch = 16}); };
  const auto batch = [&](auto&, std::uint32_t peer, std::uint64_t) {
    return static_cast<std::int64_t>(t.numbers("batch")[peer]);
  };
  CHECK(replay_in_any_order<traced_lamb>(t, policy, {.steps = {20ms, 30ms, 50ms}}, batch) < 1e-5);
}
