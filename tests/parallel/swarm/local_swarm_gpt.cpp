// SPDX-License-Identifier: Apache-2.0
// A language model in a swarm of local steps: how much it learns less than with a step of everybody at a time.
#include <causeway/parallel/local_swarm.hpp>

#include <causeway/optim/adamw.hpp>
#include <causeway/presets/compressed.hpp>
#include <causeway/presets/local_updates.hpp>
#include <causeway/presets/overlapped.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "parallel/swarm/local_swarm_cases.hpp"
#include "support/catch.hpp"
#include "support/local_seat.hpp"
#include "support/swarm_gpt.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

using diloco_world =
    support::swarm_world<stage::routing::least_load, support::gpt_job, stage::plain, support::local_steps<optim::adamw>>;

support::swarm_world_options options(float outer_rate, float momentum) {
  support::swarm_world_options o{.speeds = {{1, 1}, {1, 1}}, .steps = 48, .blocks_per_stage = 1};
  o.rate = 4e-3F;
  o.local_steps = 4, o.outer_rate = outer_rate, o.momentum = momentum;
  return o;
}

/// The mean loss over the last round's steps of the unsplit model, all micro-batches in every step: that of
/// parallel::swarm.
double with_a_step_of_everybody(const support::swarm_world_options& o) {
  const support::gpt_job job{2};
  const support::swarm_schedule s{.micro_batches = o.micro_batches, .seed = o.seed};
  auto model = job.make(nn::model_part{});
  optim::adamw inner;
  thread_pool pool{1};
  inner.reset(model.parameters().length());
  double last = 0;
  for (std::uint64_t step = 0; step < o.steps; ++step) {
    const auto b = job.batch(s, step);
    auto g = model.parameters().gradients();
    std::fill(g.begin(), g.end(), 0.0F);
    const auto tokens = static_cast<double>(b.tokens.size());
    const auto scale = 1.0F / static_cast<float>(b.tokens.size());
    const double loss = model.forward_backward(b.tokens, b.tokens, b.sequences, scale, 0).value() / tokens;
    if (step + o.local_steps >= o.steps) last += loss / o.local_steps;
    inner.step(pool, model.parameters().view(), {.learning_rate = o.rate});
    model.parameters().touch();
  }
  return last;
}

/// Of a swarm of two stages with two peers each, which has run.
template <class Swarm>
void stages_are_alike(Swarm& swarm) {
  for (std::uint32_t h = 0; h < 4; ++h) {
    INFO("host " << h << ": " << swarm.at(h).error);
    REQUIRE(swarm.at(h).finished);
  }
  CHECK(swarm.at(0).parameters == swarm.at(1).parameters);
  CHECK(swarm.at(2).parameters == swarm.at(3).parameters);
}

/// The same of a swarm whose peers step on their own.
double with_steps_alone(const support::swarm_world_options& o) {
  diloco_world swarm{o};
  swarm.boot();
  swarm.run(5min);
  stages_are_alike(swarm);
  const auto& losses = swarm.at(0).losses;
  CHECK(losses.front() > 3.3);  // of 29 tokens
  double last = 0;
  for (std::uint32_t k = 0; k < o.local_steps; ++k) last += losses[losses.size() - 1 - k] / o.local_steps;
  return last;
}

}  // namespace

TEST_CASE("local swarm: a GPT learns nearly as much from as many samples as with a step of everybody", "[parallel][fast]") {
  const auto averaged = options(1, 0), diloco = options(0.7F, 0.9F);
  const double together = with_a_step_of_everybody(averaged);
  CHECK(together < 1.2);
  const double at_random = std::log(29.0);
  CHECK(at_random - with_steps_alone(averaged) > 0.88 * (at_random - together));
  CHECK(with_steps_alone(diloco) < together);  // its momentum takes larger steps
}

TEST_CASE("local swarm: both ends refuse a model whose table they would have to share", "[parallel][fast]") {
  support::swarm_world<stage::routing::least_load, support::tied_gpt_job, stage::plain, support::local_steps<optim::adamw>>
      swarm{options(1, 0)};
  swarm.boot();
  swarm.run(5s);
  for (std::uint32_t h = 0; h < swarm.hosts(); ++h) {
    CHECK(swarm.at(h).error.find("unsupported") != std::string::npos);
    CHECK(swarm.at(h).error.find("untied embeddings") != std::string::npos);
    CHECK_FALSE(swarm.at(h).finished);
  }
}

namespace {

/// The mean loss over the last steps, where a peer is lost at its `dies_at`th network call and comes back.
template <class Options>
double loss_at_the_end(std::uint32_t victim, std::uint64_t dies_at) {
  auto o = options(1, 0);
  o.steps = 72, o.most_local_steps = 2 * o.local_steps;
  o.victim = victim, o.dies_at = dies_at, o.back_after = 1500ms, o.once_committed = true;
  support::swarm_world<stage::routing::least_load, support::gpt_job, stage::plain,
                       support::local_steps<optim::adamw, support::preset_rounds<Options>>>
      swarm{o};
  swarm.boot();
  swarm.run(5min);
  stages_are_alike(swarm);
  REQUIRE((victim == support::nobody || swarm.at(victim).calls > dies_at));
  const auto& losses = swarm.at(0).losses;
  double last = 0;
  for (std::uint32_t k = 0; k < 8; ++k) last += losses[losses.size() - 1 - k] / 8;
  return last;
}

}  // namespace

TEMPLATE_TEST_CASE("local swarm: a GPT learns as much in fragments, by late rows and by two policies, whoever is lost",
                   "[parallel][local_swarm]", presets::edit_options, presets::streaming_diloco_options,
                   presets::eager_diloco_options, presets::cocktail_sgd_options, presets::sparta_diloco_options) {
  const double at_random = std::log(29.0);
  const double quiet = loss_at_the_end<TestType>(support::nobody, 0);
  CHECK(quiet < 2.5);  // of 3.4 at random
  for (const auto& [victim, dies_at] :
       {std::pair{1U, 100U}, std::pair{1U, 301U}, std::pair{2U, 202U}, std::pair{3U, 403U}}) {
    INFO("host " << victim << " is killed at its network call " << dies_at);
    CHECK(at_random - loss_at_the_end<TestType>(victim, dies_at) > 0.97 * (at_random - quiet));
  }
}
