// SPDX-License-Identifier: Apache-2.0
// Presets that part a model, against references of their papers and authors' code.

#include <causeway/comm/periodic.hpp>
#include <causeway/optim/nadam.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/presets/experts.hpp>
#include <causeway/presets/modular.hpp>
#include <causeway/presets/pipelines.hpp>
#include <causeway/presets/subspaces.hpp>
#include <causeway/stage/expert.hpp>
#include <causeway/stage/expert_directory.hpp>
#include <causeway/stage/product_key_gate.hpp>

#include "support/cluster.hpp"
#include "support/timed_stages.hpp"
#include "support/traced_runs.hpp"

using namespace causeway;
using presets::make;
using support::replay;

TEST_CASE("traces: DiPaCo", "[presets][trace][fast]") {
  const auto policy = [] {
    return make(presets::dipaco_options{.paths = axis::every_path({2, 2}, 4),
                                        .blocks_per_level = 1,
                                        .weights = {1, 2, 1, 3},
                                        .local_steps = 3,
                                        .outer_learning_rate = 0.3F,
                                        .outer_momentum = 0.6F});
  };
  CHECK(replay<optim::sgd>(support::trace{"dipaco"}, policy) < 1e-5);
}

namespace {

/// The largest relative difference of any stage after any step.
double replay_late_stages(const support::trace& t, const std::string& name, const presets::nag_pp_options& options) {
  std::vector<double> worst(3);
  support::run_cluster(3, [&](std::uint32_t peer, environment env) {
    const parallel::pipeline_options cut{.micro_batches = 1, .ranks = 3};
    const auto place = parallel::place_in(cut, peer, 3).value();
    support::timed_stages model{3, 2, parallel::part_of(cut, place, 3).value()};
    trainer_options o;
    o.learning_rate = optim::constant{0.02F};
    o.clip_norm = 0;
    auto trainer = make_trainer(std::move(model), std::move(env), o, comm::periodic<>{{.local_steps = 1000}}, make(options),
                                optim::nadam{{.weight_decay = 0}});
    if (!trainer.start()) throw std::runtime_error{"start"};
    for (std::uint64_t s = 0; t.has("tokens " + std::to_string(s)); ++s) {
      std::vector<std::int32_t> tokens;
      for (const float x : t.numbers("tokens " + std::to_string(s))) tokens.push_back(static_cast<std::int32_t>(x));
      if (!trainer.step({tokens, tokens, 1})) throw std::runtime_error{"step"};
      const double want{t.numbers(support::trace::key(name, place.rank, s + 1)).at(0)};
      const double difference = std::abs(double{*trainer.model().parameters().value(0)} - want);
      if (difference > 0) worst[place.rank] = std::max(worst[place.rank], difference / std::abs(want));
    }
  });
  return *std::max_element(worst.begin(), worst.end());
}

}  // namespace

TEST_CASE("traces: NAG-PP, with the parameters of a backward's forward and without", "[presets][trace][fast]") {
  const support::trace t{"nag_pp"};
  CHECK(replay_late_stages(t, "stashed", {.ranks = 3, .stashing = true}) < 1e-5);
  CHECK(replay_late_stages(t, "plain", {.ranks = 3, .stashing = false}) < 1e-5);
}

TEST_CASE("traces: the weights of Protocol Models", "[presets][trace][fast]") {
  const support::trace t{"protocol_models"};
  support::traced_model model{t};
  auto& store = model.parameters();
  thread_pool pool{1};
  const auto basis = stage::subspace_basis::spanned_by(t.numbers("basis"), 6).value();
  const auto pieces = stage::residual_writers();
  stage::confine(pool, store, basis, pieces);
  stage::subspace_adamw optimizer{basis, pieces, {.beta1 = 0.9F, .beta2 = 0.95F, .epsilon = 1e-8F, .weight_decay = 0.1F}};
  optimizer.reset(store.length());
  for (std::int32_t step = 0; step < 5; ++step) {
    std::fill(store.gradients().begin(), store.gradients().end(), 0.0F);
    const std::vector<std::int32_t> who{0, step};
    REQUIRE(model.forward_backward(who, who, 1, 0.5F, 0));
    optimizer.step(pool, store.view(), {.learning_rate = 0.01F});
    const auto key = support::trace::key("live", 0, static_cast<std::uint64_t>(step) + 1);
    CHECK(support::largest_difference(store, t, store.values(), t.numbers(key)) < 1e-5);
  }
}

namespace {

/// |a - b| over the largest |b|; the four tensors of an expert are all of about the size 1.
double difference(std::span<const float> a, const std::vector<float>& b) {
  double worst = 0, scale = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double d = std::abs(double{a[i]} - double{b[i]});
    worst = d <= worst ? worst : d;
    scale = std::max(scale, std::abs(double{b[i]}));
  }
  return worst / scale;
}

}  // namespace

TEST_CASE("traces: Learning@home, trainers and an expert", "[presets][trace][fast]") {
  const support::trace t{"learning_at_home"};
  const auto policy = [] { return make(presets::learning_at_home_options{.local_steps = 3}); };
  CHECK(support::replay_in_any_order<optim::sgd>(t, policy) < 1e-5);

  stage::feed_forward_expert<optim::sgd> expert{{.width = 3, .hidden = 4, .learning_rate = 0.1F, .clip_norm = 0}};
  parameter_store& store = expert.parameters();
  const auto held = [&] {
    std::vector<float> all;
    for (std::size_t s = 0; s < 4; ++s) all.insert(all.end(), store.value(s), store.value(s) + store.segments()[s].size());
    return all;
  };
  auto from = t.numbers("expert 0").begin();
  for (std::size_t s = 0; s < 4; ++s) {
    std::copy_n(from, store.segments()[s].size(), store.value(s));
    from += store.segments()[s].size();
  }
  store.touch();
  for (int k = 0; k < 4; ++k) {
    const std::string number = std::to_string(k);
    std::vector<float> dx(6);
    REQUIRE(expert.backward(t.numbers("x " + number), t.numbers("dy " + number), dx));
    CHECK(difference(dx, t.numbers("dx " + number)) < 1e-5);
    CHECK(difference(held(), t.numbers("expert " + std::to_string(k + 1))) < 1e-5);
  }
}

TEST_CASE("traces: what crosses a boundary of Protocol Models", "[presets][trace][fast]") {
  const support::trace t{"protocol_models_boundary"};
  const auto& fixed = t.numbers("fixed");
  thread_pool pool{1};
  const auto crossed = [&](stage::direction way, const std::string& name) {
    stage::subspace<> codec;  // that of presets::protocol_models
    codec.use(stage::subspace_basis::spanned_by(t.numbers("directions"), 8).value());
    const stage::crossing c{.way = way, .rows = 5, .width = 8, .base = fixed};
    std::vector<float> values = t.numbers(name + " sent");
    std::vector<std::byte> bytes(codec.most_bytes(c));
    CHECK(codec.encode(pool, c, values, bytes).value() == 5 * 3 * sizeof(float));
    REQUIRE(codec.decode(pool, c, bytes, values));
    return difference(values, t.numbers(name + " arrives"));
  };
  CHECK(crossed(stage::direction::forward, "inside") < 1e-5);
  CHECK(crossed(stage::direction::forward, "outside") < 1e-5);
  CHECK(crossed(stage::direction::backward, "gradient") < 1e-5);
}

TEST_CASE("traces: the gate of Learning@home", "[presets][trace][fast]") {
  const support::trace t{"learning_at_home_gate"};
  constexpr std::size_t width = 5;
  thread_pool pool{1};
  const stage::expert_grid grid{{3, 4}};
  stage::expert_directory directory{grid};
  for (stage::expert_id e = 0; e < 12; ++e) {
    if (e != 7) directory.announce(e);
  }
  auto gate = stage::product_key_gate::create(width, grid, {.chosen = 3}).value();
  std::copy(t.numbers("weights").begin(), t.numbers("weights").end(), gate.weights().begin());
  const auto& outputs = t.numbers("outputs");
  for (std::uint64_t step = 0; step < 4; ++step) {
    const auto& x = t.numbers(support::trace::key("x", step, 0));
    const auto& target = t.numbers(support::trace::key("target", step, 0));
    const auto choices = gate.choose(pool, x, directory).value();
    std::vector<float> experts, shares(choices.all.size()), d_shares(choices.all.size()), dx(x.size());
    std::vector<std::uint8_t> answered;
    for (std::size_t i = 0; i < choices.all.size(); ++i) {
      experts.push_back(static_cast<float>(choices.all[i].expert));
      answered.push_back(i % 3 == 1 && i / 3 % 3 == 2 ? 0 : 1);
    }
    CHECK(experts == t.numbers(support::trace::key("chosen", step, 0)));
    stage::weigh_experts(choices, answered, shares);
    for (std::size_t r = 0; r < choices.rows(); ++r) {
      for (std::size_t k = 0; k < width; ++k) {
        float off = -target[r * width + k];
        for (std::size_t i = 3 * r; i < 3 * r + 3; ++i) off += shares[i] * outputs[choices.all[i].expert * width + k];
        for (std::size_t i = 3 * r; i < 3 * r + 3; ++i) d_shares[i] += off * outputs[choices.all[i].expert * width + k];
      }
    }
    stage::weigh_experts_backward(choices, shares, d_shares);
    std::fill(gate.gradients().begin(), gate.gradients().end(), 0.0F);
    gate.backward(pool, x, choices, d_shares, dx);
    for (std::size_t i = 0; i < gate.weights().size(); ++i) gate.weights()[i] -= 0.1F * gate.gradients()[i];
    CHECK(difference(gate.weights(), t.numbers(support::trace::key("weights", step, 1))) < 1e-5);
  }
}
