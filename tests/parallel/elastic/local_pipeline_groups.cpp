// SPDX-License-Identifier: Apache-2.0
// Pipelines whose replicas take steps of their own and meet in groups, other ones each time.
#include <causeway/presets/gossip.hpp>

#include <cmath>
#include <utility>

#include "parallel/elastic/local_pipeline_world.hpp"
#include "parallel/elastic/newcomers.hpp"
#include "support/catch.hpp"
#include "support/groups_by_hand.hpp"

using namespace causeway;

namespace {

/// Four replicas of two stages: pairs are not everybody.
support::elastic_world_options four_pipelines() {
  auto o = support::two_pipelines();
  o.hosts = 8;
  return o;
}

/// Of support::groups_by_hand, among pipelines.
template <class Exchange>
support::parameters by_hand(const support::elastic_world_options& o, Exchange exchange) {
  return support::models_by_hand<support::replicas>(
      o, support::groups_by_hand{o.steps, std::uint64_t{support::steps_of_round}, std::move(exchange)});
}

}  // namespace

TEST_CASE("local pipeline: each fragment of a stage meets partners of its own", "[parallel][elastic][fast]") {
  auto o = four_pipelines();
  o.steps = GENERATE(5U, 13U);
  const auto is = support::undisturbed<support::gossip_in_segments>(o);
  CHECK(support::off(is, by_hand(o, support::segments_by_hand{}), o.layers) < 1e-4);
  CHECK(support::off(is, by_hand(o, support::means_by_hand{.together = true}), o.layers) > 1e-2);
}

TEST_CASE("local pipeline: all stages of a replica meet those of the same other replicas", "[parallel][elastic][fast]") {
  auto o = four_pipelines();
  o.steps = GENERATE(5U, 13U);
  const auto means = support::undisturbed<support::moshpit>(o);
  CHECK(support::off(means, by_hand(o, support::means_by_hand{}), o.layers) < 1e-4);
  CHECK(support::off(means, by_hand(o, support::means_by_hand{.together = true}), o.layers) > 1e-2);
  const auto gossip = support::undisturbed<support::gossip_in_pairs>(o);
  CHECK(support::off(gossip, by_hand(o, support::gossip_by_hand{}), o.layers) < 1e-4);
  CHECK(support::off(gossip, by_hand(o, support::gossip_by_hand{.together = true}), o.layers) > 1e-2);
}

TEMPLATE_TEST_CASE("local pipeline: replicas that meet in groups go on whoever is lost, and let others in",
                   "[parallel][elastic]", support::moshpit, presets::noloco_options, presets::bacombo_options) {
  support::goes_on_whoever_is_killed<TestType>(11, 0.03);
  support::goes_on_whoever_is_killed<TestType>(67, 0.03, four_pipelines());
  support::lets_newcomers_in<TestType>();
  support::goes_on_from_checkpoints<TestType>();
}

TEMPLATE_TEST_CASE("local pipeline: replicas in groups and whoever is lost at every single network call",
                   "[parallel][elastic][local_pipeline][slow][every_call]", support::moshpit, presets::noloco_options,
                   presets::bacombo_options) {
  support::goes_on_whoever_is_killed<TestType>(1, 0.03);
  support::goes_on_whoever_is_killed<TestType>(5, 0.03, four_pipelines());
}

TEMPLATE_TEST_CASE("local pipeline: who gets a block begins with what the last exchange left its giver",
                   "[parallel][elastic][fast]", support::moshpit, presets::noloco_options, presets::bacombo_options) {
  auto o = support::two_pipelines();
  o.steps = 15;
  support::spare_peers_take_over<TestType>(o, 400, 41, [&](const auto& all, const auto& quiet) {
    CHECK(support::off(all, quiet, o.layers) < 0.6);  // the same steps, with other moments
    CHECK(std::abs(support::held_out_loss(all, o.layers) / support::held_out_loss(quiet, o.layers) - 1) < 0.03);
  });
  support::lost_stages_come_back<TestType>(23);
}
