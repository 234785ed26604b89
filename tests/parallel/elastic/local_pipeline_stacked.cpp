// SPDX-License-Identifier: Apache-2.0
// Pipelines whose replicas take steps of their own under two policies at once.
#include <causeway/comm/stacked.hpp>
#include <causeway/presets/compressed.hpp>

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

using namespace causeway;

namespace {

/// SPARTA's turns after every step, DiLoCo's after every third.
struct sparta_diloco : presets::sparta_diloco_options {
  static constexpr bool has_own_rounds = true;
  sparta_diloco() {
    sparta.share = 0.2;
    local_steps = support::steps_of_round;
  }
};

constexpr float rate = 0.7F, momentum = 0.9F;
/// Means of all parameters, and DiLoCo: turns after 2, 3, 4, 6, 8 and 9 steps, of the one, the other, or both.
struct means_and_diloco {
  [[nodiscard]] static auto policy() {
    return comm::stacked{comm::rounds{axis::every{2}, axis::parameters{}, axis::gather_mean<>{}},
                         comm::rounds{axis::every{support::steps_of_round}, axis::gather_mean<>{},
                                      axis::outer<optim::nesterov>{rate, optim::nesterov{{.momentum = momentum}}}}};
  }
};

/// Of two whole models with the halves of each batch. `means`: so are the first policy's.
support::parameters trained_by_hand(const support::elastic_world_options& o, bool means = true) {
  std::vector<float> velocity;
  return support::two_models_by_hand(
      o, [&](std::uint64_t steps, parameter_store& shared, const std::array<std::span<float>, 2>& models) {
        const bool last = steps == o.steps;
        const auto [one, other] = models;
        velocity.resize(one.size());
        for (std::size_t i = 0; i < one.size(); ++i) {
          if (means && (last || steps % 2 == 0)) one[i] = other[i] = (one[i] + other[i]) / 2;
          if (!last && steps % support::steps_of_round != 0) continue;
          float& anchor = shared.values()[i];
          const float delta = anchor - (one[i] + other[i]) / 2;
          velocity[i] = momentum * velocity[i] + delta;
          anchor -= rate * (delta + momentum * velocity[i]);
          one[i] = other[i] = anchor;
        }
      });
}

}  // namespace

TEST_CASE("local pipeline: two policies at once exchange as two whole models under both do", "[parallel][elastic][fast]") {
  auto o = support::two_pipelines();
  o.steps = GENERATE(7U, 9U, 12U);
  const auto is = support::undisturbed<means_and_diloco>(o);
  CHECK(support::off(is, trained_by_hand(o), o.layers) < 1e-4);
  CHECK(support::off(is, trained_by_hand(o, false), o.layers) > 1e-2);
}

TEMPLATE_TEST_CASE("local pipeline: two policies at once go on whoever is lost, and let others in", "[parallel][elastic]",
                   sparta_diloco, means_and_diloco) {
  support::goes_on_whoever_is_killed<TestType>(11, 0.03);
  support::lets_newcomers_in<TestType>();
  support::goes_on_from_checkpoints<TestType>();
}

TEMPLATE_TEST_CASE("local pipeline: two policies at once and whoever is lost at every single network call",
                   "[parallel][elastic][local_pipeline][slow][every_call]", sparta_diloco, means_and_diloco) {
  auto o = support::two_pipelines();
  if (std::is_same_v<TestType, sparta_diloco>) o.steps = 6;  // each has an exchange, and two have both
  support::goes_on_whoever_is_killed<TestType>(1, 0.03, o);
}

TEST_CASE("local pipeline: a spare peer takes up what both policies keep", "[parallel][elastic][fast]") {
  auto o = support::two_pipelines();
  o.steps = 15;
  support::spare_peers_take_over<means_and_diloco>(o, 900, 41, [&](const auto& all, const auto& quiet) {
    CHECK(support::off(all, quiet, o.layers) < 0.6);  // the same steps, with other moments
    CHECK(std::abs(support::held_out_loss(all, o.layers) / support::held_out_loss(quiet, o.layers) - 1) < 0.03);
  });
  support::lost_stages_come_back<means_and_diloco>(23);
}
