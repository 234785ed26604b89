// SPDX-License-Identifier: Apache-2.0
// Pipelines whose replicas take steps of their own, and exchange rows whose results are applied a round later.
#include <causeway/presets/compressed.hpp>
#include <causeway/presets/overlapped.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "parallel/elastic/local_pipeline_world.hpp"
#include "parallel/elastic/newcomers.hpp"
#include "support/catch.hpp"
#include "support/late_rows_by_hand.hpp"

using namespace causeway;

namespace {

struct eager : presets::eager_diloco_options {
  static constexpr float momentum = 0.3F;  // of short rounds that move far
  static constexpr bool own_is_fresh = true, keeps_unsent = false;
  eager() { outer_momentum = momentum; }
};
/// Everything a round late, or with what was not sent in the live parameters, which is nothing here.
struct late {
  static constexpr float momentum = 0.3F;
  static constexpr bool own_is_fresh = false, keeps_unsent = false;
  [[nodiscard]] static auto policy() {
    return comm::rounds{axis::every{support::steps_of_round}, axis::one_round_late{}, axis::split_mean<>{},
                        axis::outer<optim::nesterov>{0.7F, optim::nesterov{{.momentum = momentum}}}};
  }
};
struct exact_cocktail {
  static constexpr float momentum = 0;
  static constexpr bool own_is_fresh = false, keeps_unsent = true;
  [[nodiscard]] static auto policy() {
    return comm::rounds{axis::every{support::steps_of_round}, axis::implicit_residual{}, axis::one_round_late{},
                        axis::split_mean<>{}, axis::outer<optim::nesterov>{0.7F, optim::nesterov{{.momentum = momentum}}}};
  }
};
/// An exchange after every step.
struct cocktail : presets::cocktail_sgd_options {};

template <class Options>
support::parameters trained_by_hand(const support::elastic_world_options& o) {
  support::late_rows_by_hand<Options> with;
  return support::two_models_by_hand(o, [&](std::uint64_t steps, parameter_store& shared, const auto& models) {
    if (steps % support::steps_of_round != 0 && steps != o.steps) return;
    with.exchange(steps == o.steps, shared.values(), models);
  });
}

}  // namespace

TEMPLATE_TEST_CASE("local pipeline: results a round late are those of whole models, and the last exchange takes all along",
                   "[parallel][elastic][fast]", eager, late, exact_cocktail) {
  auto o = support::two_pipelines();
  o.steps = GENERATE(2U, 5U, 9U, 13U);
  CHECK(support::off(support::undisturbed<TestType>(o), trained_by_hand<TestType>(o), o.layers) < 1e-4);
}

TEMPLATE_TEST_CASE("local pipeline: results a round late go on whoever is lost, and let others in", "[parallel][elastic]",
                   eager, cocktail) {
  support::goes_on_whoever_is_killed<TestType>(11, 0.03);
  support::lets_newcomers_in<TestType>();
  support::goes_on_from_checkpoints<TestType>();
}

TEST_CASE("local pipeline: a spare peer takes part in results a round late", "[parallel][elastic][fast]") {
  auto o = support::two_pipelines();
  o.steps = 15;
  support::spare_peers_take_over<eager>(o, 400, 41, [&](const auto& all, const auto& quiet) {
    CHECK(support::off(all, quiet, o.layers) < 0.5);
    CHECK(std::abs(support::held_out_loss(all, o.layers) / support::held_out_loss(quiet, o.layers) - 1) < 0.03);
  });
}

TEMPLATE_TEST_CASE("local pipeline: results a round late and whoever is lost at every single network call",
                   "[parallel][elastic][local_pipeline][slow][every_call]", eager, cocktail) {
  auto o = support::two_pipelines();
  if (std::is_same_v<TestType, cocktail>) o.steps = 5;  // each of which is a round
  support::goes_on_whoever_is_killed<TestType>(1, 0.03, o);
}
