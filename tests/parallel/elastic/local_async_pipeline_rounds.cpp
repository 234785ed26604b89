// SPDX-License-Identifier: Apache-2.0
// Pipelines without a flush between two exchanges, with one policy of each kind that goes with them: rows with a residual,
// moments and parameters, fragments, rows that are set aside for some steps or for a round, replicas that meet in groups,
// two policies at once, and updates that are told between records.
#include <causeway/parallel/local_async_pipeline.hpp>
#include <causeway/presets/compressed.hpp>
#include <causeway/presets/gossip.hpp>
#include <causeway/presets/local_updates.hpp>
#include <causeway/presets/overlapped.hpp>

#include <cstdint>

#include "parallel/elastic/local_pipeline_world.hpp"
#include "parallel/elastic/newcomers.hpp"
#include "support/catch.hpp"

using namespace causeway;

namespace {

template <class Options>
struct streamed : Options {
  using pipeline = parallel::local_async_pipeline<>;
};

struct des_loc : streamed<presets::des_loc_options> {
  des_loc() { static_cast<presets::des_loc_options&>(*this) = {3, 6, 9}; }
};
struct streaming : streamed<presets::streaming_diloco_options> {
  static constexpr bool has_own_rounds = true;
  streaming() { local_steps = 6, overlap_steps = 3; }
};
struct eager : streamed<presets::eager_diloco_options> {
  eager() { outer_momentum = 0.3F; }  // of short rounds that move far
};
struct ravnest : streamed<presets::ravnest_options> {
  ravnest() { clusters.clear(); }
};
struct sparta_diloco : streamed<presets::sparta_diloco_options> {
  static constexpr bool has_own_rounds = true;
  sparta_diloco() {
    sparta.share = 0.2;
    local_steps = support::steps_of_round;
  }
};

/// Rounds that follow how far the whole model moves.
struct co_learning {
  using pipeline = parallel::local_async_pipeline<>;
  [[nodiscard]] static auto policy() {
    return make(
        presets::co_learning_options{{.local_steps = 1, .most = 3, .factor = 2, .tolerance = 0.0428, .cycle_end = 0.5F}});
  }
};
struct cocodc {
  using pipeline = parallel::local_async_pipeline<>;
  [[nodiscard]] static auto policy() {
    return make(presets::cocodc_options{.local_steps = 8, .exchanges = 4, .blocks_in_fragment = 2, .overlap_steps = 1});
  }
};
/// Replicas that tell each other what they change when they have.
struct gaia_asp {
  using pipeline = parallel::local_async_pipeline<>;
  [[nodiscard]] static auto policy() {
    return make(presets::gaia_asp_options{.threshold = 0.01F, .most_ahead = 2, .record_samples = 12});
  }
};

}  // namespace

TEMPLATE_TEST_CASE("local async pipeline: rounds of every kind go on whoever is lost, and let others in",
                   "[parallel][elastic][slow][every_call]", streamed<presets::sparse_loco_options>, des_loc,
                   streamed<presets::edit_options>, streaming, eager, streamed<presets::noloco_options>, sparta_diloco,
                   co_learning, cocodc, ravnest, gaia_asp) {
  support::goes_on_whoever_is_killed<TestType>(11, 0.03);
  support::lets_newcomers_in<TestType>();
}
