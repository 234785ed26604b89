// SPDX-License-Identifier: Apache-2.0
// A language model in a simulated swarm: three stages, one of them with three peers.
#include <causeway/parallel/swarm.hpp>

#include <causeway/core/thread_pool.hpp>
#include <causeway/optim/clip.hpp>
#include <causeway/train/contribution.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "parallel/swarm/swarm_world.hpp"
#include "support/catch.hpp"
#include "support/swarm_gpt.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

using gpt_swarm = support::swarm_world<stage::routing::least_load, support::gpt_job>;

support::swarm_world_options small() {
  support::swarm_world_options o{.speeds = {{1, 1}, {1, 1, 1}, {1}}, .steps = 4, .blocks_per_stage = 1};
  o.rate = support::gpt_rate;
  o.clip_norm = support::gpt_clip_norm;
  return o;
}

void check_like_unsplit(gpt_swarm& swarm, std::uint32_t except = support::nobody) {
  support::all_like_unsplit(swarm, except, 1e-5);
  const auto want = swarm.unsplit();
  for (std::uint32_t h = 0; h < swarm.hosts(); ++h) {
    if (h == except) continue;
    INFO("host " << h);
    for (std::size_t s = 0; s < want.losses.size(); ++s) {
      if (swarm.at(h).losses.at(s) != 0) CHECK(swarm.at(h).losses[s] == Approx(want.losses[s]).epsilon(1e-6));
    }
  }
}

/// What a stage computes with.
struct bare_context {
  nn::gpt held;
  nn::gpt& model() { return held; }
  thread_pool& pool() { return held.backend().pool(); }
  [[nodiscard]] std::uint64_t step() const { return 0; }
  std::span<float> parameters() { return held.parameters().values(); }
  std::span<float> gradients() { return held.parameters().gradients(); }
  float norm_of(std::span<const float> part) { return optim::global_norm(pool(), part); }
  float own_norm() { return 0; }
  result<void> inner_step(float) { return {}; }
  void parameters_changed() {}
  detail::contribution counted{};
  detail::contribution& contribution() { return counted; }
};

}  // namespace

TEST_CASE("swarm: a step on what was missing counts the samples of that", "[parallel][fast]") {
  const support::gpt_job job{2};
  const auto b = job.batch({.micro_batches = 6}, 0);
  const batch whole = b.view();
  bare_context ctx{job.make(nn::model_part{{0, 1}})};
  stage::plain codec;
  const parallel::embedding_base none;
  parallel::detail::stage_computer<bare_context, stage::plain> computer{ctx, codec, whole, 6, nn::pass_kind::recorded,
                                                                        none};
  REQUIRE(computer.take_step(3));  // on two of six
  CHECK(ctx.counted.all() == 4);   // of two sequences each
  REQUIRE(computer.take_step(6));
  CHECK(ctx.counted.all() == 6);
}

TEST_CASE("swarm: a stage adds a micro-batch's gradient when it goes back, all of it or nothing", "[parallel][fast]") {
  const support::gpt_job job{2};
  const auto b = job.batch({.micro_batches = 2}, 0);
  const batch whole = b.view();
  bare_context first{job.make(nn::model_part{{0, 1}})}, last{job.make(nn::model_part{{1, 2}})};
  stage::plain codec;
  const parallel::embedding_base none;
  parallel::detail::stage_computer<bare_context, stage::plain> below{first, codec, whole, 2, nn::pass_kind::recorded, none};
  const auto out = below.forward({.micro_batch = 1});
  REQUIRE(out);
  const auto gradients = [&](int forwards) {
    const auto g = last.gradients();
    std::fill(g.begin(), g.end(), 0.0F);
    parallel::detail::stage_computer<bare_context, stage::plain> above{last, codec, whole, 2, nn::pass_kind::recorded,
                                                                       none};
    for (int k = 0; k < forwards; ++k) {
      above.forget(1);
      REQUIRE(above.take_in({.micro_batch = 1}, out->bytes));
      REQUIRE(above.forward({.micro_batch = 1, .edge = 1}));
      CHECK(std::all_of(g.begin(), g.end(), [](float v) { return v == 0; }));
    }
    const auto back = above.backward({.micro_batch = 1, .edge = 0, .backward = true});
    REQUIRE(back);
    CHECK(back->loss > 0);
    return std::vector<float>(g.begin(), g.end());
  };
  const auto once = gradients(1);
  CHECK(std::any_of(once.begin(), once.end(), [](float v) { return v != 0; }));
  CHECK(gradients(3) == once);  // the first two of which went back elsewhere
}

TEST_CASE("swarm: a GPT's losses and parameters are those of the unsplit one", "[parallel][fast]") {
  gpt_swarm swarm{small()};
  swarm.boot();
  swarm.run(2min);
  check_like_unsplit(swarm);
  for (std::size_t m = 0; m < 8; ++m) CHECK(swarm.distance(0, swarm.unsplit(m)) > 1e-3);  // one less would show
}

TEST_CASE("swarm: a GPT goes on without a peer that is closed, wherever it is", "[parallel][fast]") {
  for (std::uint64_t call = 10;; call += 97) {
    auto o = small();
    o.victim = 3;  // of the stage of three
    o.dies_at = call;
    o.once_committed = true;
    gpt_swarm swarm{o};
    swarm.wanted = swarm.hosts() - 1;
    swarm.boot();
    swarm.run(2min);
    INFO("killed at its network call " << call);
    if (swarm.at(3).calls <= call) return;
    check_like_unsplit(swarm, 3);
  }
}
