// SPDX-License-Identifier: Apache-2.0
// Pipelines whose replicas take steps of their own, and exchange what they moved in fragments, some of them later.
#include <causeway/presets/local_updates.hpp>
#include <causeway/presets/overlapped.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "parallel/elastic/local_pipeline_world.hpp"
#include "parallel/elastic/newcomers.hpp"
#include "support/catch.hpp"
#include "support/fragments_by_hand.hpp"

using namespace causeway;
using support::fragments_by_hand;

namespace {

/// Three fragments after 2, 4 and 6 steps; a row is made before the one that was made before it is applied.
struct streaming : presets::streaming_diloco_options {
  static constexpr bool has_own_rounds = true;
  streaming() { local_steps = 6, overlap_steps = 3; }
};
/// The same with exact rows.
struct exact_streaming : streaming {
  [[nodiscard]] auto policy() const {
    return comm::rounds{axis::staggered{local_steps}, axis::strided{blocks_in_fragment}, axis::gather_mean<>{},
                        axis::delayed{overlap_steps, local_share},
                        axis::outer<optim::nesterov>{outer_learning_rate, optim::nesterov{{.momentum = outer_momentum}}}};
  }
};
/// And in fragments of equal size.
struct even_streaming : streaming {
  [[nodiscard]] auto policy() const {
    return comm::rounds{axis::staggered{local_steps}, axis::balanced{3}, axis::gather_mean<>{},
                        axis::delayed{overlap_steps, local_share},
                        axis::outer<optim::nesterov>{outer_learning_rate, optim::nesterov{{.momentum = outer_momentum}}}};
  }
};
/// Fragments are due in every step.
struct brief_streaming : presets::streaming_diloco_options {};

/// Pseudo-gradients of these fragments, which take turns, by the context's mean.
template <class Fragments, std::uint32_t Count>
struct by_context {
  [[nodiscard]] static auto policy() {
    return comm::rounds{axis::staggered{6}, Fragments{Count},
                        axis::outer<optim::nesterov>{0.4F, optim::nesterov{{.momentum = 0.9F}}}};
  }
};
using even_by_context = by_context<axis::balanced, 3>;
using strided_by_context = by_context<axis::strided, 2>;
/// All of them together.
struct even_together {
  [[nodiscard]] static auto policy() {
    return comm::rounds{axis::every{support::steps_of_round}, axis::balanced{3},
                        axis::outer<optim::nesterov>{0.4F, optim::nesterov{{.momentum = 0.9F}}}};
  }
};
/// And of parameters.
struct even_parameters {
  [[nodiscard]] static auto policy() {
    return comm::rounds{axis::every{support::steps_of_round}, axis::balanced{3}, axis::parameters{}};
  }
};

template <class Cut>
support::parameters cut_and_trained(const support::elastic_world_options& o, fragments_by_hand with, const Cut& cut) {
  return support::two_models_by_hand(o, [&](std::uint64_t steps, parameter_store& shared, const auto& models) {
    if (steps == 1) cut(with, shared);
    with.shared = shared.values();
    with.exchange(steps, steps == o.steps, models);
  });
}
support::parameters trained_by_hand(const support::elastic_world_options& o, const fragments_by_hand& with,
                                    const std::function<std::size_t(int)>& fragment_of) {
  return cut_and_trained(o, with, [&](auto& f, const auto& shared) { f.cut(shared.segments(), fragment_of); });
}
support::parameters trained_evenly(const support::elastic_world_options& o, const fragments_by_hand& with) {
  return cut_and_trained(o, with, [](auto& f, const auto& shared) { f.cut_evenly(shared); });
}

}  // namespace

TEST_CASE("local pipeline: fragments are those of the whole model, and rows that are made early are applied later",
          "[parallel][elastic][fast]") {
  const auto o = support::two_pipelines();
  const auto exact = trained_by_hand(o, support::streaming_by_hand(), support::strided_fragment_of);
  CHECK(support::off(support::undisturbed<exact_streaming>(o), exact, o.layers) < 1e-4);
  CHECK(support::off(support::undisturbed<streaming>(o), exact, o.layers) < 0.2);  // by the codes' 4 bits
}

TEST_CASE("local pipeline: fragments of equal size are those of the whole model, too", "[parallel][elastic][fast]") {
  auto o = support::two_pipelines();
  o.steps = GENERATE(8U, 13U);
  CHECK(support::off(support::undisturbed<even_streaming>(o), trained_evenly(o, support::streaming_by_hand()), o.layers) <
        1e-4);
}

TEST_CASE("local pipeline: several rows go by the context's mean", "[parallel][elastic][fast]") {
  auto o = support::two_pipelines();
  o.steps = GENERATE(8U, 13U);
  const auto with = support::in_turn_by_hand();
  CHECK(support::off(support::undisturbed<even_by_context>(o), trained_evenly(o, with), o.layers) < 1e-4);
  const auto strided = trained_by_hand(o, with, support::strided_fragment_of);
  CHECK(support::off(support::undisturbed<strided_by_context>(o), strided, o.layers) < 1e-4);
}

TEST_CASE("local pipeline: the run's last step is followed by an exchange of all fragments, whatever is due",
          "[parallel][elastic][fast]") {
  auto o = support::two_pipelines();
  o.steps = GENERATE(4U, 8U, 10U);
  const auto exact = trained_by_hand(o, support::streaming_by_hand(), support::strided_fragment_of);
  CHECK(support::off(support::undisturbed<exact_streaming>(o), exact, o.layers) < 1e-4);
}

TEST_CASE("local pipeline: layers that count by their norms are single blocks, and what lies at each end",
          "[parallel][elastic][fast]") {
  const auto o = support::two_pipelines();
  fragments_by_hand with{.period = support::steps_of_round, .rate = 0.7F, .momentum = 0.9F, .by_norm = true};
  for (std::size_t f = 0; f < 6; ++f) with.fragments.push_back({.due = support::steps_of_round});
  const auto exact = trained_by_hand(o, with, [](int block) { return static_cast<std::size_t>(block + 1); });
  CHECK(support::off(support::undisturbed<presets::edit_options>(o), exact, o.layers) < 1e-4);
}

TEMPLATE_TEST_CASE("local pipeline: rounds in fragments go on whoever is lost, and let others in", "[parallel][elastic]",
                   presets::edit_options, streaming, brief_streaming, even_streaming, even_by_context, even_parameters) {
  support::goes_on_whoever_is_killed<TestType>(11, 0.03);
  support::lets_newcomers_in<TestType>();
  support::goes_on_from_checkpoints<TestType>();
}

TEMPLATE_TEST_CASE("local pipeline: and whoever is lost at every single network call",
                   "[parallel][elastic][local_pipeline][slow][every_call]", presets::edit_options, streaming,
                   even_streaming, even_by_context) {
  support::goes_on_whoever_is_killed<TestType>(1, 0.03);
}

/// How far a run may be off one without faults where a spare peer takes a lost one's place.
template <class Options>
void spare_peers_take_over(double most_off, double most_loss) {
  auto o = support::two_pipelines();
  o.steps = 15;
  support::spare_peers_take_over<Options>(o, 400, 41, [&](const auto& all, const auto& quiet) {
    CHECK(support::off(all, quiet, o.layers) < most_off);
    CHECK(std::abs(support::held_out_loss(all, o.layers) / support::held_out_loss(quiet, o.layers) - 1) < most_loss);
  });
}

TEST_CASE("local pipeline: a spare peer takes up all fragments' momentum", "[parallel][elastic][fast]") {
  spare_peers_take_over<presets::edit_options>(0.4, 0.03);  // the same steps, with other moments
  spare_peers_take_over<streaming>(0.8, 0.03);              // what a replica moved in the other fragments is lost, too
  spare_peers_take_over<even_by_context>(0.8, 0.03);
}

TEST_CASE("local pipeline: a stage that nobody has any more is had again with its fragments' momentum",
          "[parallel][elastic][fast]") {
  support::lost_stages_come_back<presets::edit_options>(23);  // all fragments are due together
  support::lost_stages_come_back<even_together>(23);
}
