// SPDX-License-Identifier: Apache-2.0
// Pipelines whose replicas take steps of their own, with every policy of rounds that goes with them.
#include <causeway/presets/compressed.hpp>
#include <causeway/presets/local_updates.hpp>

#include "parallel/elastic/local_pipeline_world.hpp"
#include "support/catch.hpp"

using namespace causeway;

TEMPLATE_TEST_CASE("local pipeline: rounds of every kind go on whoever is lost, and let others in", "[parallel][elastic]",
                   presets::open_diloco_options, presets::intellect1_options, presets::muloco_options,
                   presets::local_sgd_options, presets::fedavg_options, presets::photon_options,
                   presets::sparse_loco_options) {
  support::goes_on_whoever_is_killed<TestType>(11, 0.03);
  support::lets_newcomers_in<TestType>();
}

namespace {

struct sparta : presets::sparta_options {
  sparta() { share = 0.5; }
};
struct des_loc : presets::des_loc_options {
  des_loc() : presets::des_loc_options{3, 6, 9} {}
};

}  // namespace

TEMPLATE_TEST_CASE("local pipeline: peers whose parameters differ between rounds go on, and let others in",
                   "[parallel][elastic]", presets::gaia_options, sparta, des_loc) {
  support::goes_on_whoever_is_killed<TestType>(11, 0.03);
  support::lets_newcomers_in<TestType>();
  support::goes_on_from_checkpoints<TestType>();
}
