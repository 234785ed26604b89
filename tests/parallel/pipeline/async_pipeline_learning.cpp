// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/async_pipeline.hpp>

#include <causeway/comm/periodic.hpp>
#include <causeway/nn/gpt.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/optim/basis_rotation.hpp>
#include <causeway/optim/nadam.hpp>
#include <causeway/train/trainer.hpp>

#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "support/catch.hpp"
#include "support/cluster.hpp"

namespace causeway::parallel {
namespace {

// One type of trainer for all optimizers, for it takes long to compile.
struct either {
  static constexpr std::string_view name = "either";
  void reset(std::int64_t length) {
    std::visit([&](auto& o) { o.reset(length); }, chosen);
  }
  void step(thread_pool& pool, parameter_view view, optim::step_options step) {
    std::visit([&](auto& o) { o.step(pool, view, step); }, chosen);
  }
  void serialize(auto& ar) {
    std::visit([&](auto& o) { ar(o); }, chosen);
  }
  std::variant<optim::adamw, optim::nadam, optim::basis_rotation<>> chosen;
};

using inner_options = std::variant<optim::adamw_options, optim::nadam_options, optim::basis_rotation_options>;

either either_of(const inner_options& o) {
  if (const auto* adamw = std::get_if<optim::adamw_options>(&o)) return {optim::adamw{*adamw}};
  if (const auto* nadam = std::get_if<optim::nadam_options>(&o)) return {optim::nadam{*nadam}};
  return {optim::basis_rotation<>{std::get<optim::basis_rotation_options>(o)}};
}

constexpr std::int64_t layers = 8, length = 12, vocabulary = 16, sequences = 8;

// Each token is drawn from the two before it by a rule that the seed makes, now and then at random.
struct texts {
  texts(std::uint64_t seed, std::uint64_t step) : inputs(sequences * length), targets(inputs.size()) {
    rng rule{seed, 1}, luck{seed, mix(2, step)};
    std::vector<std::uint64_t> next(vocabulary * vocabulary);
    for (auto& n : next) n = rule.below(vocabulary);
    for (std::int64_t s = 0; s < sequences; ++s) {
      std::uint64_t a = luck.below(vocabulary), b = luck.below(vocabulary);
      for (std::int64_t t = 0; t < length; ++t) {
        const std::uint64_t c = luck.uniform() < 0.05 ? luck.below(vocabulary) : next[a * vocabulary + b];
        const auto at = static_cast<std::size_t>(s * length + t);
        inputs[at] = static_cast<std::int32_t>(b), targets[at] = static_cast<std::int32_t>(c);
        a = b, b = c;
      }
    }
  }
  [[nodiscard]] batch view() const { return {inputs, targets, sequences}; }
  std::vector<std::int32_t> inputs, targets;
};

struct learning_case {
  std::uint32_t ranks = 8;
  inner_options inner{};
  float rate = 3e-3F;
  bool stashing = true;
  std::uint64_t seed = 1;
};

constexpr std::uint64_t steps = 400;

// The mean loss on batches that were not trained on.
double loss_after(const learning_case& c) {
  double loss = 0;
  support::run_cluster(c.ranks, [&](std::uint32_t peer, environment env) {
    nn::gpt_options o;
    o.layers = layers, o.heads = 2, o.width = 16, o.context = length, o.vocabulary = vocabulary;
    o.tie = false;
    const async_pipeline_options po{.stashing = c.stashing};
    const auto place = place_in(po.cut, peer, c.ranks).value();
    auto model = nn::gpt::create(o, kernels::cpu_backend{1}, part_of(po.cut, place, layers).value()).value();
    model.initialize(c.seed);
    auto t = make_trainer(std::move(model), std::move(env), {.learning_rate = optim::constant{c.rate}},
                          comm::periodic<>{{.local_steps = 1000000}}, async_pipeline<>{po}, either_of(c.inner));
    if (!t.start()) throw std::runtime_error{"start"};
    for (std::uint64_t s = 0; s < steps; ++s) {
      const auto report = t.step(texts{c.seed, s}.view());
      if (!report) throw std::runtime_error{report.error().text()};
    }
    double sum = 0;
    for (std::uint64_t s = 0; s < 8; ++s) sum += t.evaluate(texts{c.seed, 100000 + s}.view()).value() / 8;
    if (peer == 0) loss = sum;
  });
  return loss;
}

}  // namespace

TEST_CASE("async pipeline: NAdam makes up for most of what AdamW loses by late gradients", "[parallel][slow]") {
  const optim::adamw_options adamw{.beta2 = 0.999F, .weight_decay = 0.01F};
  const optim::adamw_options no_look_ahead{.beta1 = 0.99F, .beta2 = 0.999F, .weight_decay = 0.01F};
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    const double synchronous = loss_after({.ranks = 1, .inner = adamw, .seed = seed});
    const double plain = loss_after({.inner = adamw, .seed = seed});
    const double momentum = loss_after({.inner = no_look_ahead, .seed = seed});
    const double nadam = loss_after({.inner = optim::nadam_options{}, .seed = seed});
    const double unstashed = loss_after({.inner = optim::nadam_options{}, .stashing = false, .seed = seed});
    UNSCOPED_INFO("seed " << seed << ": synchronous AdamW " << synchronous << "; asynchronous AdamW " << plain
                          << ", with beta1 = 0.99 " << momentum << ", NAdam " << nadam << ", without stashing "
                          << unstashed);
    CHECK(nadam < synchronous + (plain - synchronous) / 2);
    CHECK(nadam < momentum - 0.4);
    CHECK(unstashed < plain - 0.05);
  }
}

TEST_CASE("async pipeline: in rotated bases late gradients cost less than AdamW's", "[parallel][slow]") {
  const optim::adamw_options adamw{.beta2 = 0.999F, .weight_decay = 0.01F};
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    const double plain = loss_after({.inner = adamw, .seed = seed});
    const double rotated = loss_after({.inner = optim::basis_rotation_options{}, .seed = seed});
    UNSCOPED_INFO("seed " << seed << ": AdamW " << plain << ", in rotated bases " << rotated);
    CHECK(rotated < plain - 0.2);
  }
}

TEST_CASE("async pipeline: learning is the same bits twice", "[parallel][fast]") {
  const learning_case c{.ranks = 4, .inner = optim::nadam_options{}, .seed = 4};
  CHECK(loss_after(c) == loss_after(c));
}

}  // namespace causeway::parallel
