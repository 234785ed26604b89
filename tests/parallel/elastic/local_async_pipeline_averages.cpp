// SPDX-License-Identifier: Apache-2.0
// Pipelines without a flush between two exchanges, with the other policies of rounds that go with them.
#include <causeway/parallel/local_async_pipeline.hpp>
#include <causeway/presets/compressed.hpp>
#include <causeway/presets/gossip.hpp>
#include <causeway/presets/local_updates.hpp>

#include "parallel/elastic/local_pipeline_world.hpp"
#include "parallel/elastic/newcomers.hpp"
#include "support/catch.hpp"
#include "support/groups_by_hand.hpp"

using namespace causeway;

namespace {

template <class Options>
struct streamed : Options {
  using pipeline = parallel::local_async_pipeline<>;
};
struct sparta : streamed<presets::sparta_options> {
  sparta() { share = 0.5; }
};

}  // namespace

TEMPLATE_TEST_CASE("local async pipeline: averages and codecs go on whoever is lost, and let others in",
                   "[parallel][elastic][slow][every_call]", streamed<presets::open_diloco_options>,
                   streamed<presets::intellect1_options>, streamed<presets::muloco_options>,
                   streamed<presets::local_sgd_options>, streamed<presets::fedavg_options>,
                   streamed<presets::photon_options>, streamed<presets::gaia_options>, sparta,
                   streamed<presets::cocktail_sgd_options>, streamed<support::moshpit>,
                   streamed<presets::bacombo_options>) {
  support::goes_on_whoever_is_killed<TestType>(11, 0.03);
  support::lets_newcomers_in<TestType>();
}
