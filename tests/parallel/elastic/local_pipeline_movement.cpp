// SPDX-License-Identifier: Apache-2.0
// Pipelines whose replicas take steps of their own, with policies whose rounds follow how far the whole model moves.
#include <causeway/presets/local_updates.hpp>
#include <causeway/presets/overlapped.hpp>

#include <cstdint>
#include <mutex>
#include <utility>

#include "parallel/elastic/local_pipeline_world.hpp"
#include "parallel/elastic/newcomers.hpp"
#include "support/catch.hpp"

using namespace causeway;

namespace {

/// Rounds of one step, then of two, with a rate that falls in each of them. In the third round the whole model moves by
/// 0.0425, its stages by 0.0420 and 0.0431: one of them would decide otherwise.
struct co_learning {
  [[nodiscard]] static auto policy() {
    return make(
        presets::co_learning_options{{.local_steps = 1, .most = 3, .factor = 2, .tolerance = 0.0428, .cycle_end = 0.5F}});
  }
};
/// A fragment in every second step; which one goes by what moved most.
struct cocodc {
  [[nodiscard]] static auto policy() {
    return make(presets::cocodc_options{.local_steps = 8, .exchanges = 4, .blocks_in_fragment = 2, .overlap_steps = 1});
  }
};

/// What two peers that hold the whole model come to, each with half of every batch.
template <class Options>
support::parameters of_whole_models(const support::elastic_world_options& o) {
  support::parameters named;
  std::mutex mutex;
  support::run_cluster(2, [&](std::uint32_t peer, environment env) {
    trainer_options to;
    to.learning_rate = optim::constant{0.01F};
    to.clip_norm = o.clip_norm;
    const std::int64_t half = o.micro_batches / 2;
    auto t = make_trainer(*nn::gpt::create(support::small_gpt(o.layers), kernels::cpu_backend{1}), std::move(env), to,
                          support::policy_of<Options>(), optim::adamw{}, parallel::data_parallel{{.micro_batches = half}});
    REQUIRE(t.start());
    for (std::uint64_t s = 0; s < o.steps; ++s) {
      const support::token_batch b{0, s, o.micro_batches};
      REQUIRE(t.step(b.view().slice(half * peer, half)));
    }
    REQUIRE(t.finish());
    const std::lock_guard lock{mutex};
    if (peer == 0) support::detail::collect(t.model().parameters(), named);
  });
  return named;
}

template <class Options>
void comes_to_whole_models(std::uint64_t steps) {
  auto o = support::two_pipelines();
  o.steps = steps;
  CHECK(support::off(support::undisturbed<Options>(o), of_whole_models<Options>(o), o.layers) < 1e-4);
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
