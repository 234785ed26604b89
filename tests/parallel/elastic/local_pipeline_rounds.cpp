// SPDX-License-Identifier: Apache-2.0
// Pipelines whose replicas take steps of their own, with every policy of rounds that goes with them.
#include <causeway/presets/compressed.hpp>
#include <causeway/presets/gossip.hpp>
#include <causeway/presets/local_updates.hpp>

#include <cmath>

#include "parallel/elastic/local_pipeline_world.hpp"
#include "parallel/elastic/newcomers.hpp"
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
struct every_step_a_round {
  [[nodiscard]] static auto policy() { return make(presets::local_sgd_options{.local_steps = 1}); }
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

TEST_CASE("local pipeline: in a round of one step, who rested in it makes it when it takes a lost one's place",
          "[parallel][elastic][fast]") {
  auto o = support::two_pipelines();
  o.steps = 15;
  support::spare_peers_take_over<every_step_a_round>(o, 900, 41, [&](const auto& all, const auto& quiet) {
    CHECK(std::abs(support::held_out_loss(all, o.layers) / support::held_out_loss(quiet, o.layers) - 1) < 0.03);
  });
}

namespace {

struct regions : presets::ravnest_options {
  regions() { clusters.clear(); }
};

}  // namespace

TEST_CASE("local pipeline: replicas of each stage meet in regions, of those who are there", "[parallel][elastic]") {
  auto o = support::two_pipelines();
  o.hosts = 8;  // two regions of two
  const auto all = support::undisturbed<regions>(o);
  CHECK(support::off(all, support::undisturbed<presets::local_sgd_options>(o), o.layers) < 1e-5);
  support::goes_on_whoever_is_killed<regions>(67, 0.03, o);
  support::lets_newcomers_in<regions>();
  support::goes_on_from_checkpoints<regions>();
}

TEST_CASE("local pipeline: replicas in regions and whoever is lost, all along its network calls",
          "[parallel][elastic][local_pipeline][slow][every_call]") {
  support::goes_on_whoever_is_killed<regions>(3, 0.03);
}
