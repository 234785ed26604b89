// SPDX-License-Identifier: Apache-2.0
// Swarms whose peers take local steps, and exchange what they moved in fragments, some of them later.
#include <causeway/presets/local_updates.hpp>
#include <causeway/presets/overlapped.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>

#include "parallel/swarm/local_swarm_cases.hpp"
#include "support/catch.hpp"
#include "support/fragments_by_hand.hpp"

using namespace causeway;
using support::fragments_by_hand;

namespace {

/// Three fragments after 2, 4 and 6 steps; a row is made before the one that was made before it is applied.
struct streaming : presets::streaming_diloco_options {
  streaming() { overlap_steps = 3; }
};
/// The same with exact rows.
struct exact_streaming : streaming {
  [[nodiscard]] auto policy() const {
    return comm::rounds{axis::staggered{local_steps}, axis::strided{blocks_in_fragment}, axis::gather_mean<>{},
                        axis::delayed{overlap_steps, local_share},
                        axis::outer<optim::nesterov>{outer_learning_rate, optim::nesterov{{.momentum = outer_momentum}}}};
  }
};
/// One fragment is blocks 0 to 2, the other is block 3, of which the first stage has nothing; a third is nobody's.
struct of_neighbours {
  std::uint32_t local_steps = 0;
  [[nodiscard]] auto policy() const {
    return comm::rounds{axis::staggered{local_steps}, axis::consecutive{3}, axis::split_mean<>{},
                        axis::outer<optim::nesterov>{0.4F, optim::nesterov{{.momentum = 0.9F}}}};
  }
};
/// Each stage has a block in either.
struct of_equal_size {
  std::uint32_t local_steps = 0;
  [[nodiscard]] auto policy() const {
    return comm::rounds{axis::staggered{local_steps}, axis::balanced{2}, axis::split_mean<>{},
                        axis::outer<optim::nesterov>{0.4F, optim::nesterov{{.momentum = 0.9F}}}};
  }
};
/// Neighbours, by the context's mean.
struct of_neighbours_by_context {
  std::uint32_t local_steps = 0;
  [[nodiscard]] auto policy() const {
    return comm::rounds{axis::staggered{local_steps}, axis::consecutive{3},
                        axis::outer<optim::nesterov>{0.4F, optim::nesterov{{.momentum = 0.9F}}}};
  }
};

support::named_parameters by_hand(const support::swarm_world_options& o, fragments_by_hand with,
                                  const std::function<std::size_t(int)>& fragment_of) {
  return support::models_by_hand(o, [&](std::uint64_t steps, parameter_store& shared, const auto& models) {
    if (steps == 1) with.cut(shared.segments(), fragment_of);
    with.shared = shared.values();
    with.exchange(steps, steps == o.steps, models);
  });
}
std::size_t neighbours(int block) { return block < 0 ? 0U : block < 3 ? 1U : 2U; }

}  // namespace

TEST_CASE("local swarm: rows that are made some steps before they are sent are those of whole models", "[parallel][fast]") {
  auto o = support::two_pairs();
  o.steps = GENERATE(4U, 8U, 10U, 13U);
  const auto exact = by_hand(o, support::streaming_by_hand(), support::strided_fragment_of);
  CHECK(support::off_by_hand<support::preset_rounds<exact_streaming>>(o, exact) < 1e-4);
  CHECK(support::off_by_hand<support::preset_rounds<streaming>>(o, exact) < 0.3);  // by the codes' 4 bits
}

TEMPLATE_TEST_CASE("local swarm: fragments are those of the whole model, of which a stage may have nothing",
                   "[parallel][fast]", of_neighbours, of_neighbours_by_context) {
  auto o = support::two_pairs();
  o.steps = GENERATE(8U, 13U);
  fragments_by_hand with{.period = 6, .rate = 0.4F, .momentum = 0.9F};
  for (const std::uint64_t first : {2U, 4U, 6U}) with.fragments.push_back({.due = first});
  CHECK(support::off_by_hand<support::preset_rounds<TestType>>(o, by_hand(o, with, neighbours)) < 1e-4);
}

TEST_CASE("local swarm: of fragments of equal size each stage has as many", "[parallel][fast]") {
  const auto o = support::two_pairs();
  fragments_by_hand with{.period = 6, .rate = 0.4F, .momentum = 0.9F};
  for (const std::uint64_t first : {3U, 6U}) with.fragments.push_back({.due = first});
  const auto exact = by_hand(o, with, [](int block) { return static_cast<std::size_t>(block) % 2; });
  CHECK(support::off_by_hand<support::preset_rounds<of_equal_size>>(o, exact) < 1e-4);
}

TEST_CASE("local swarm: layers that count by their norms are single blocks", "[parallel][fast]") {
  const auto o = support::two_pairs();
  fragments_by_hand with{.period = o.local_steps, .rate = 0.7F, .momentum = 0.9F, .by_norm = true};
  for (std::size_t f = 0; f < 5; ++f) with.fragments.push_back({.due = o.local_steps});
  const auto exact = by_hand(o, with, [](int block) { return static_cast<std::size_t>(block + 1); });
  CHECK(support::off_by_hand<support::preset_rounds<presets::edit_options>>(o, exact) < 1e-4);
}

TEST_CASE("local swarm: rounds in layers go on whoever is lost, and let others in", "[parallel][local_swarm]") {
  using rounds = support::preset_rounds<presets::edit_options>;
  support::trains_through_losses<rounds>(2.0 / 9);
  support::lets_newcomers_in<rounds>();
  support::goes_on_from_checkpoints<rounds>(2.0 / 9);
}

namespace {

support::swarm_world_options rounds_of_six() {
  auto o = support::two_stages();
  o.local_steps = 6, o.steps = 12;
  return o;
}
/// A lost peer takes with it a third of up to six steps of twelve, of each fragment, and of these a round is computed
/// again.
constexpr double by_a_lost_peer = 0.3;
/// All peers together take all of them.
constexpr double by_all = 0.7;

}  // namespace

TEMPLATE_TEST_CASE("local swarm: rounds in fragments go on whoever is lost, and let others in", "[parallel][local_swarm]",
                   streaming, of_neighbours, of_neighbours_by_context) {
  using rounds = support::preset_rounds<TestType>;
  support::trains_through_losses<rounds>(by_a_lost_peer, rounds_of_six(), 11);
  support::lets_newcomers_in<rounds>(18, rounds_of_six());
  support::goes_on_from_checkpoints<rounds>(by_all, rounds_of_six());
}

TEST_CASE("local swarm: rounds in fragments, and whoever is lost at every single network call",
          "[parallel][local_swarm][slow][every_call]") {
  support::trains_through_losses<support::preset_rounds<presets::edit_options>>(by_a_lost_peer, support::two_stages(), 1);
  support::trains_through_losses<support::preset_rounds<streaming>>(by_a_lost_peer, rounds_of_six(), 1);
}
