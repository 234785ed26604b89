// SPDX-License-Identifier: Apache-2.0
// Pipelines whose replicas take steps of their own, keep what was not sent in their live parameters, and apply results some
// steps later.
#include <causeway/comm/rounds.hpp>
#include <causeway/compress/sparse.hpp>
#include <causeway/compress/threshold.hpp>
#include <causeway/compress/transform.hpp>
#include <causeway/optim/nesterov.hpp>
#include <causeway/parallel/local_async_pipeline.hpp>

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "parallel/elastic/local_pipeline_world.hpp"
#include "parallel/elastic/newcomers.hpp"
#include "support/catch.hpp"
#include "support/fragments_by_hand.hpp"

using namespace causeway;

namespace {

/// Everything is sent. Three fragments after 2, 4 and 6 steps; a row is made before the one that was made before it is
/// applied.
struct all_sent {
  [[nodiscard]] static auto policy() {
    return comm::rounds{axis::staggered{6},        axis::strided{2},
                        axis::implicit_residual{}, axis::replayed{3},
                        axis::gather_mean<>{},     axis::outer<optim::nesterov>{0.4F, optim::nesterov{{.momentum = 0.9F}}}};
  }
};
/// Of each value whether it is sent depends on that value alone, so that it does not matter how a model is cut.
template <bool Keeps = true>
struct significant {
  [[nodiscard]] static auto policy() {
    using codec = compress::sparse<compress::no_transform, compress::significant, compress::none>;
    using residual = std::conditional_t<Keeps, axis::implicit_residual, axis::no_residual>;
    return comm::rounds{axis::every{support::steps_of_round}, residual{}, axis::replayed{1},
                        axis::gather_mean<codec>{codec{compress::no_transform{}, compress::significant{{.first = 1.0F}}}},
                        axis::outer<optim::nesterov>{0.7F, optim::nesterov{{.momentum = 0.3F}}}};
  }
};
struct streamed : significant<> {
  using pipeline = parallel::local_async_pipeline<>;
};

}  // namespace

TEST_CASE("local pipeline: where all is sent, what was trained meanwhile stays as it was", "[parallel][elastic][fast]") {
  auto o = support::two_pipelines();
  o.steps = GENERATE(4U, 9U, 10U);
  auto with = support::streaming_by_hand();
  with.replays = true;
  const auto exact = support::two_models_by_hand(o, [&](std::uint64_t steps, parameter_store& shared, const auto& models) {
    if (steps == 1) with.cut(shared.segments(), support::strided_fragment_of);
    with.shared = shared.values();
    with.exchange(steps, steps == o.steps, models);
  });
  CHECK(support::off(support::undisturbed<all_sent>(o), exact, o.layers) < 1e-4);
}

TEST_CASE("local pipeline: what was not sent stays as it does with whole models", "[parallel][elastic][fast]") {
  const auto o = support::two_pipelines();
  const auto all = support::undisturbed<significant<>>(o);
  CHECK(support::off(all, support::of_two_peers(o, significant<>::policy), o.layers) < 1e-4);
  CHECK(support::off(all, support::of_two_peers(o, significant<false>::policy), o.layers) > 1e-2);  // much is not sent
}

TEMPLATE_TEST_CASE("local pipeline: what was not sent stays where it is, whoever is lost or comes", "[parallel][elastic]",
                   all_sent, significant<>) {
  support::goes_on_whoever_is_killed<TestType>(11, 0.03);
  support::lets_newcomers_in<TestType>();
  support::goes_on_from_checkpoints<TestType>();
}

TEST_CASE("local pipeline: a spare peer begins with nothing that was not sent", "[parallel][elastic][fast]") {
  auto o = support::two_pipelines();
  o.steps = 15;
  support::spare_peers_take_over<significant<>>(o, 400, 41, [&](const auto& all, const auto& quiet) {
    CHECK(support::off(all, quiet, o.layers) < 0.8);  // what a replica had not sent is lost, too
    CHECK(std::abs(support::held_out_loss(all, o.layers) / support::held_out_loss(quiet, o.layers) - 1) < 0.03);
  });
}

TEST_CASE("local async pipeline: what was not sent stays where it is, whoever is lost or comes",
          "[parallel][elastic][slow][every_call]") {
  support::goes_on_whoever_is_killed<streamed>(11, 0.03);
  support::lets_newcomers_in<streamed>();
}

TEST_CASE("local pipeline: and stays there whoever is lost at every single network call",
          "[parallel][elastic][local_pipeline][slow][every_call]") {
  support::goes_on_whoever_is_killed<significant<>>(1, 0.03);
}
