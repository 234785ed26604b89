// SPDX-License-Identifier: Apache-2.0
// Swarms whose peers take local steps, and exchange rows whose results are applied a round later.
#include <causeway/presets/compressed.hpp>
#include <causeway/presets/overlapped.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

#include "parallel/swarm/local_swarm_cases.hpp"
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
  std::uint32_t local_steps = 0;
  [[nodiscard]] auto policy() const {
    return comm::rounds{axis::every{local_steps}, axis::one_round_late{}, axis::split_mean<>{},
                        axis::outer<optim::nesterov>{0.7F, optim::nesterov{{.momentum = momentum}}}};
  }
};
struct exact_cocktail {
  static constexpr float momentum = 0;
  static constexpr bool own_is_fresh = false, keeps_unsent = true;
  std::uint32_t local_steps = 0;
  [[nodiscard]] auto policy() const {
    return comm::rounds{axis::every{local_steps}, axis::implicit_residual{}, axis::one_round_late{}, axis::split_mean<>{},
                        axis::outer<optim::nesterov>{0.7F, optim::nesterov{{.momentum = momentum}}}};
  }
};
/// An exchange after every step. Nothing is left out but what 4 bits leave.
struct cocktail : presets::cocktail_sgd_options {
  cocktail() { mask_share = 1, k = 4096; }
};

/// The first exchange is of the second round.
support::swarm_world_options rounds_of(support::swarm_world_options o, std::uint32_t steps) {
  o.local_steps = steps;
  o.most_local_steps = 2 * steps;
  return o;
}

template <class Options, class Who>
support::named_parameters by_hand(const support::swarm_world_options& o) {
  support::late_rows_by_hand<Options> with;
  std::array<float, 2> samples{};
  return support::models_by_hand<Who>(o, [&](std::uint64_t steps, parameter_store& shared, const auto& models) {
    for (std::uint32_t m = 0; m < o.micro_batches; ++m) samples[Who::of(steps - 1, m)] += 1;
    if (steps % o.local_steps != 0 && steps != o.steps) return;
    with.exchange(steps == o.steps, shared.values(), models, std::exchange(samples, {}));
  });
}

/// Three quarters of a step's micro-batches go through one pair, and of the next one's through the other.
struct mostly_one {
  static constexpr std::size_t models = 2;
  static std::size_t of(std::uint64_t step, std::uint32_t m) { return (m % 4 == 0) == (step % 2 == 0) ? 1U : 0U; }
};

}  // namespace

TEMPLATE_TEST_CASE("local swarm: results a round late are those of whole models, and the last exchange takes all along",
                   "[parallel][fast]", eager, late, exact_cocktail) {
  auto o = rounds_of(support::two_pairs(), 3);
  o.steps = GENERATE(2U, 5U, 9U, 13U);
  CHECK(support::off_by_hand<support::preset_rounds<TestType>>(o, by_hand<TestType, support::in_turn>(o)) < 1e-4);
}

TEMPLATE_TEST_CASE("local swarm: a row that is a round late counts by the micro-batches that it is of", "[parallel][fast]",
                   late, exact_cocktail) {
  auto o = rounds_of(support::two_pairs(), 1);
  o.steps = GENERATE(5U, 6U);
  CHECK(support::off_by_hand<support::preset_rounds<TestType>, mostly_one>(o, by_hand<TestType, mostly_one>(o)) < 1e-4);
}

namespace {

support::swarm_world_options four_rounds() {
  auto o = rounds_of(support::two_stages(), 3);
  o.steps = 12;
  return o;
}
/// A lost peer takes with it a third of up to two rounds of four, and is computed again as one step of a round.
constexpr double by_a_lost_peer = 0.3;
/// All peers together take two rounds of four.
constexpr double by_all = 0.5;

}  // namespace

TEST_CASE("local swarm: results a round late go on whoever is lost, and let others in", "[parallel][local_swarm]") {
  using rounds = support::preset_rounds<eager>;
  support::trains_through_losses<rounds>(by_a_lost_peer, four_rounds(), 11);
  support::lets_newcomers_in<rounds>(15, four_rounds());
  support::goes_on_from_checkpoints<rounds>(by_all, four_rounds());
}

TEST_CASE("local swarm: results a step late go on whoever is lost, and let others in", "[parallel][local_swarm]") {
  using rounds = support::preset_rounds<cocktail>;
  const auto o = rounds_of(support::two_stages(), 1);
  support::trains_through_losses<rounds>(by_a_lost_peer, o, 11);
  support::lets_newcomers_in<rounds>(12, o);
  support::goes_on_from_checkpoints<rounds>(by_all, o);
}

TEST_CASE("local swarm: results that are late, and whoever is lost at every single network call",
          "[parallel][local_swarm][slow][every_call]") {
  support::trains_through_losses<support::preset_rounds<eager>>(by_a_lost_peer, four_rounds(), 1);
  support::trains_through_losses<support::preset_rounds<cocktail>>(by_a_lost_peer, rounds_of(support::two_stages(), 1), 1);
}
