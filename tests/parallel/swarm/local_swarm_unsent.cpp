// SPDX-License-Identifier: Apache-2.0
// Swarms whose peers take local steps, keep what was not sent in their live parameters, and apply results some steps later.
#include <causeway/comm/rounds.hpp>
#include <causeway/compress/sparse.hpp>
#include <causeway/compress/threshold.hpp>
#include <causeway/compress/transform.hpp>
#include <causeway/optim/nesterov.hpp>

#include <cstdint>

#include "parallel/swarm/local_swarm_cases.hpp"
#include "support/catch.hpp"
#include "support/fragments_by_hand.hpp"

using namespace causeway;

namespace {

/// Everything is sent. Three fragments after 2, 4 and 6 steps; a row is made before the one that was made before it is
/// applied.
struct all_sent {
  std::uint32_t local_steps = 0;
  [[nodiscard]] auto policy() const {
    return comm::rounds{
        axis::staggered{local_steps}, axis::strided{2},
        axis::implicit_residual{},    axis::replayed{3},
        axis::gather_mean<>{},        axis::outer<optim::nesterov>{0.4F, optim::nesterov{{.momentum = 0.9F}}}};
  }
};
struct significant {
  std::uint32_t local_steps = 0;
  [[nodiscard]] auto policy() const {
    using codec = compress::sparse<compress::no_transform, compress::significant, compress::none>;
    return comm::rounds{axis::every{local_steps}, axis::implicit_residual{}, axis::replayed{1},
                        axis::gather_mean<codec>{codec{compress::no_transform{}, compress::significant{{.first = 0.05F}}}},
                        axis::outer<optim::nesterov>{0.7F, optim::nesterov{{.momentum = 0.3F}}}};
  }
};

support::swarm_world_options rounds_of(std::uint32_t steps) {
  auto o = support::two_stages();
  o.local_steps = steps, o.steps = 12, o.most_local_steps = 6;
  return o;
}
/// A lost peer takes with it a third of up to six steps of twelve, and of these a round is computed again.
constexpr double by_a_lost_peer = 0.3;
/// All peers together take all of them.
constexpr double by_all = 0.7;

}  // namespace

TEST_CASE("local swarm: where all is sent, what was trained meanwhile stays as it was", "[parallel][fast]") {
  auto o = support::two_pairs();
  o.steps = GENERATE(4U, 9U, 13U);
  auto with = support::streaming_by_hand();
  with.replays = true;
  const auto exact = support::models_by_hand(o, [&](std::uint64_t steps, parameter_store& shared, const auto& models) {
    if (steps == 1) with.cut(shared.segments(), support::strided_fragment_of);
    with.shared = shared.values();
    with.exchange(steps, steps == o.steps, models);
  });
  CHECK(support::off_by_hand<support::preset_rounds<all_sent>>(o, exact) < 1e-4);
}

TEST_CASE("local swarm: what was not sent stays where it is, whoever is lost or comes", "[parallel][local_swarm]") {
  using rounds = support::preset_rounds<significant>;
  support::trains_through_losses<rounds>(by_a_lost_peer, rounds_of(3), 11);
  support::lets_newcomers_in<rounds>(12, rounds_of(3));
  support::goes_on_from_checkpoints<rounds>(by_all, rounds_of(3));
}

TEST_CASE("local swarm: rows of fragments that are set aside stay a part of what is live, whoever is lost or comes",
          "[parallel][local_swarm]") {
  using rounds = support::preset_rounds<all_sent>;
  support::trains_through_losses<rounds>(by_a_lost_peer, rounds_of(6), 11);
  support::lets_newcomers_in<rounds>(18, rounds_of(6));
}

TEST_CASE("local swarm: what was not sent, and whoever is lost at every single network call",
          "[parallel][local_swarm][slow][every_call]") {
  support::trains_through_losses<support::preset_rounds<significant>>(by_a_lost_peer, rounds_of(3), 1);
}
