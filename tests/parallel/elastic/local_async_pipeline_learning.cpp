// SPDX-License-Identifier: Apache-2.0
// What pipelines learn that are drained before each exchange, beside others with the same exchanges: with a flush in every
// step, and with fixed peers and no flush at all.
#include <causeway/core/rng.hpp>
#include <causeway/parallel/async_pipeline.hpp>
#include <causeway/parallel/local_async_pipeline.hpp>
#include <causeway/presets/local_updates.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "parallel/elastic/local_pipeline_world.hpp"
#include "support/catch.hpp"
#include "support/cluster.hpp"

using namespace causeway;
using support::elastic_world_options;
using support::parameters;
using support::two_pipelines;
using support::undisturbed;

namespace {

/// Nine tokens of ten follow from the one before.
struct texts {
  texts(std::uint64_t step, std::int64_t many) : sequences{many} {
    rng random{11, step};
    for (std::int64_t i = 0; i < many; ++i) {
      auto a = static_cast<std::int32_t>(random.below(29));
      for (int t = 0; t < 8; ++t) {
        inputs.push_back(a);
        a = random.below(10) == 0 ? static_cast<std::int32_t>(random.below(29)) : (a * 7 + 3) % 29;
        targets.push_back(a);
      }
    }
  }
  [[nodiscard]] batch view() const { return {inputs, targets, sequences}; }
  std::vector<std::int32_t> inputs, targets;
  std::int64_t sequences;
};
constexpr std::int64_t texts_of_step = 16;
constexpr std::uint64_t learning_steps = 120;

double loss_on_new_text(const parameters& all, std::int64_t layers) {
  auto model = *nn::gpt::create(support::small_gpt(layers), kernels::cpu_backend{1});
  auto& store = model.parameters();
  for (std::size_t i = 0; i < store.segments().size(); ++i) {
    const auto& values = all.at(store.segments()[i].name);
    std::copy(values.begin(), values.end(), store.value(i));
  }
  store.touch();
  const texts b{1000000, 128};
  return *model.evaluate(b.inputs, b.targets, b.sequences) / static_cast<double>(b.inputs.size());
}

template <class Pipeline>
struct ten_steps {
  using pipeline = Pipeline;
  [[nodiscard]] static auto policy() { return make(presets::diloco_options{.local_steps = 10}); }
};

elastic_world_options of_texts() {
  auto o = two_pipelines();
  o.steps = learning_steps;
  static const std::vector<texts> all = [] {
    std::vector<texts> made;
    for (std::uint64_t s = 0; s < learning_steps; ++s) made.emplace_back(s, texts_of_step);
    return made;
  }();
  o.batch_of = [](std::uint64_t step) { return all[step].view(); };
  return o;
}

/// The same with a fixed set of peers, whose pipelines are never drained.
parameters two_fixed_pipelines(const elastic_world_options& o) {
  std::array<parameters, 4> of_peer;
  support::run_cluster(4, [&](std::uint32_t peer, environment env) {
    const parallel::async_pipeline_options po{.cut = {.micro_batches = o.micro_batches / 2, .ranks = 2}};
    const auto place = parallel::place_in(po.cut, peer, 4).value();
    auto model = nn::gpt::create(support::small_gpt(o.layers), kernels::cpu_backend{1},
                                 parallel::part_of(po.cut, place, o.layers).value());
    trainer_options to;
    to.learning_rate = optim::constant{0.01F};
    to.clip_norm = o.clip_norm;
    auto t = make_trainer(std::move(*model), std::move(env), to, make(presets::diloco_options{.local_steps = 10}),
                          optim::adamw{}, parallel::async_pipeline<>{po});
    support::detail::check(t.start());
    constexpr std::int64_t half = texts_of_step / 2;
    for (std::uint64_t s = 0; s < o.steps; ++s) {
      const batch b = o.batch_of(s).slice(static_cast<std::int64_t>(place.replica) * half, half);
      (void)*support::detail::valued(t.step(b));
    }
    support::detail::check(t.finish());
    support::detail::collect(t.model().parameters(), of_peer[peer]);
  });
  parameters all;
  for (auto& one : of_peer) all.merge(one);
  return all;
}

}  // namespace

TEST_CASE("local async pipeline: it learns what fixed asynchronous pipelines learn", "[parallel][elastic][fast]") {
  const auto o = of_texts();
  const double drained = loss_on_new_text(undisturbed<ten_steps<parallel::local_async_pipeline<>>>(o), o.layers);
  const double flushed = loss_on_new_text(undisturbed<ten_steps<parallel::local_pipeline<>>>(o), o.layers);
  const double fixed = loss_on_new_text(two_fixed_pipelines(o), o.layers);
  UNSCOPED_INFO("drained " << drained << ", flushed " << flushed << ", fixed " << fixed);
  CHECK(drained < 2);  // 3.4 at the beginning
  CHECK(std::abs(drained / fixed - 1) < 0.05);
  CHECK(std::abs(drained / flushed - 1) < 0.05);
}
