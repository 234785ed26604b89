// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_PARALLEL_ELASTIC_WHOLE_MODELS_HPP
#define CAUSEWAY_TESTS_PARALLEL_ELASTIC_WHOLE_MODELS_HPP

// What pipelines are to come to: whole models, exchanged by hand.

#include <causeway/optim/adamw.hpp>
#include <causeway/optim/schedule.hpp>
#include <causeway/parallel/data_parallel.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "parallel/elastic/elastic_world.hpp"
#include "support/catch.hpp"
#include "support/conformance.hpp"

namespace support {

using parameters = std::map<std::string, std::vector<float>>;

inline auto trainer_alone(causeway::nn::gpt model, const causeway::trainer_options& to, std::int64_t part) {
  return causeway::make_trainer(std::move(model), causeway::environment{}, to, causeway::comm::every_step<>{},
                                causeway::optim::adamw{}, causeway::parallel::data_parallel{{.micro_batches = part}});
}

/// Those micro-batches, a sequence each, that a model makes a step on.
using parts_by_hand = std::function<causeway::index_range(std::size_t model, std::uint64_t step)>;

/// As many whole models as pipelines, which are trained on equal parts of each batch, or on `parts`, and exchanged by hand.
template <std::size_t Count>
class whole_models {
 public:
  explicit whole_models(const elastic_world_options& o, parts_by_hand parts = {})
      : options_{o}, parts_{std::move(parts)}, shared_{model()} {
    causeway::trainer_options to;
    to.learning_rate = causeway::optim::constant{0.01F};
    to.clip_norm = o.clip_norm;
    for (std::size_t m = 0; m < Count; ++m) all_.push_back(trainer_alone(model(), to, parts_ ? 1 : part()));
    for (auto& one : all_) REQUIRE(one.start());
  }
  std::span<float> operator[](std::size_t m) { return all_[m].context().parameters(); }
  causeway::parameter_store& shared() { return shared_.parameters(); }
  void step(std::size_t m, std::uint64_t number) {
    const token_batch b{0, number, options_.micro_batches};
    all_[m].context().parameters_changed();
    const std::int64_t first = part() * static_cast<std::int64_t>(m);
    const auto own = parts_ ? parts_(m, number) : causeway::index_range{first, first + part()};
    REQUIRE(all_[m].step(b.view().slice(own.begin, own.size())));
  }
  [[nodiscard]] parameters named() {
    parameters named;
    detail::collect(shared(), named);
    return named;
  }

 private:
  [[nodiscard]] auto model() const {
    auto gpt = small_gpt(options_.layers);
    gpt.tie = options_.tie;
    return *causeway::nn::gpt::create(gpt, causeway::kernels::cpu_backend{1});
  }
  [[nodiscard]] std::int64_t part() const { return options_.micro_batches / static_cast<std::int64_t>(Count); }

  elastic_world_options options_;
  parts_by_hand parts_;
  causeway::nn::gpt shared_;
  std::vector<decltype(trainer_alone(std::declval<causeway::nn::gpt>(), {}, 0))> all_;
};

/// What `Count` whole models come to. `exchange(steps, shared, models)` is called after every step, with how many there
/// were, the shared parameters and those of all, and does what the pipelines are to do.
template <std::size_t Count, class Exchange>
parameters models_by_hand(const elastic_world_options& o, Exchange&& exchange, parts_by_hand parts = {}) {
  whole_models<Count> all{o, std::move(parts)};
  std::array<std::span<float>, Count> models;
  for (std::size_t m = 0; m < Count; ++m) models[m] = all[m];
  for (std::uint64_t s = 0; s < o.steps; ++s) {
    for (std::size_t m = 0; m < Count; ++m) all.step(m, s);
    exchange(s + 1, all.shared(), models);
  }
  return all.named();
}

template <class Exchange>
parameters two_models_by_hand(const elastic_world_options& o, Exchange&& exchange) {
  return models_by_hand<2>(o, std::forward<Exchange>(exchange));
}

/// What two peers that hold the whole model come to, each with half of every batch and `policy()`.
template <class MakePolicy>
parameters of_two_peers(const elastic_world_options& o, const MakePolicy& policy) {
  using namespace causeway;
  parameters named;
  std::mutex mutex;
  run_cluster(2, [&](std::uint32_t peer, environment env) {
    trainer_options to;
    to.learning_rate = optim::constant{0.01F};
    to.clip_norm = o.clip_norm;
    const std::int64_t half = o.micro_batches / 2;
    auto gpt = small_gpt(o.layers);
    gpt.tie = o.tie;
    auto t = make_trainer(*nn::gpt::create(gpt, kernels::cpu_backend{1}), std::move(env), to, policy(), optim::adamw{},
                          parallel::data_parallel{{.micro_batches = half}});
    REQUIRE(t.start());
    for (std::uint64_t s = 0; s < o.steps; ++s) {
      const token_batch b{0, s, o.micro_batches};
      REQUIRE(t.step(b.view().slice(half * peer, half)));
    }
    REQUIRE(t.finish());
    const std::lock_guard lock{mutex};
    if (peer == 0) detail::collect(t.model().parameters(), named);
  });
  return named;
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_PARALLEL_ELASTIC_WHOLE_MODELS_HPP
