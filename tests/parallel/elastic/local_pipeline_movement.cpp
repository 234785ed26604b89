// SPDX-License-Identifier: Apache-2.0
// Pipelines whose replicas take steps of their own, with policies whose rounds follow how far the whole model moves.

#include <cstdint>

#include "parallel/elastic/local_pipeline_world.hpp"
#include "parallel/elastic/movement_policies.hpp"
#include "parallel/elastic/newcomers.hpp"
#include "support/catch.hpp"

using namespace causeway;
using support::co_learning;
using support::cocodc;

namespace {

template <class Options>
void comes_to_whole_models(std::uint64_t steps) {
  auto o = support::two_pipelines();
  o.steps = steps;
  const auto whole = support::of_two_peers(o, support::policy_of<Options>);
  CHECK(support::off(support::undisturbed<Options>(o), whole, o.layers) < 1e-4);
}

}  // namespace

TEST_CASE("local pipeline: rounds grow by how much the whole model moves", "[parallel][elastic][fast]") {
  comes_to_whole_models<co_learning>(9);
}

TEST_CASE("local pipeline: the fragment that has changed most in the whole model is next", "[parallel][elastic][fast]") {
  comes_to_whole_models<cocodc>(12);
}

TEMPLATE_TEST_CASE("local pipeline: rounds that follow the model go on whoever is lost, and let others in",
                   "[parallel][elastic]", co_learning, cocodc) {
  support::goes_on_whoever_is_killed<TestType>(11, 0.03);
  support::lets_newcomers_in<TestType>();
  support::goes_on_from_checkpoints<TestType>();
}

TEST_CASE("local pipeline: and follow it whoever is lost at every single network call",
          "[parallel][elastic][local_pipeline][slow][every_call]") {
  support::goes_on_whoever_is_killed<cocodc>(1, 0.03);
}
