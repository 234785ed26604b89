// SPDX-License-Identifier: Apache-2.0
// Pipelines whose replicas take steps of their own, with a hub for each stage.
#include "parallel/elastic/hubs_of_stages.hpp"

#include <cstddef>
#include <cstdint>

#include "parallel/elastic/local_pipeline_world.hpp"
#include "support/catch.hpp"

using namespace causeway;
using support::async_local_sgd;
using support::decoupled_diloco;

TEST_CASE("local pipeline: hubs of stages come to what a hub of whole models comes to", "[parallel][elastic][fast]") {
  auto o = support::two_pipelines();
  o.steps = 12;
  support::hub_of_two hub;
  const auto all = hub.run<support::in_pairs<4>>(o);
  const auto by_hand = support::models_by_hand<2>(
      o,
      [&](std::uint64_t steps, parameter_store& shared, const auto& models) {
        hub.after_step(steps, shared.values(), models);
      },
      [&](std::size_t m, std::uint64_t step) { return hub.makes(m, step); });
  CHECK(support::off(all, by_hand, o.layers) < 1e-4);
}

TEMPLATE_TEST_CASE("local pipeline: hubs of stages go on whoever is lost, and let others in", "[parallel][elastic]",
                   async_local_sgd, decoupled_diloco) {
  support::goes_on_whoever_is_killed<TestType>(29, 0.03);
  support::newcomers_push<TestType>();
}

TEST_CASE("local pipeline: and so they do whoever is lost at every single network call",
          "[parallel][elastic][slow][every_call]") {
  support::goes_on_whoever_is_killed<async_local_sgd>(1, 0.03);
}

TEST_CASE("local pipeline: a spare peer takes a lost one's place, and pushes", "[parallel][elastic]") {
  support::spare_peers_push<async_local_sgd>();
}

TEMPLATE_TEST_CASE("local pipeline: a stage that nobody has any more comes back with its hub", "[parallel][elastic]",
                   async_local_sgd, decoupled_diloco) {
  support::lost_stages_come_back<TestType>(61);
}

TEST_CASE("local pipeline: hubs go on when all were stopped", "[parallel][elastic][fast]") {
  support::hubs_go_on_when_all_were_stopped<async_local_sgd>();
}
