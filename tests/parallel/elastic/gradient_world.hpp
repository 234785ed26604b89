// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_PARALLEL_ELASTIC_GRADIENT_WORLD_HPP
#define CAUSEWAY_TESTS_PARALLEL_ELASTIC_GRADIENT_WORLD_HPP

// Elastic pipelines of two stages whose gradients a communication policy exchanges, in a simulated world.

#include <causeway/parallel/elastic_pipeline.hpp>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "parallel/elastic/elastic_world.hpp"
#include "parallel/elastic/local_pipeline_world.hpp"
#include "support/catch.hpp"
#include "support/cluster.hpp"

namespace support {

/// The inner optimizer that goes with a policy: AdamW, unless `Policy` says another.
template <class Policy>
auto inner_of() {
  if constexpr (requires { Policy::inner(); }) {
    return Policy::inner();
  } else {
    return causeway::optim::adamw{};
  }
}

/// `Policy::make()` gives the policy of a peer, and `Policy::recovery()`, if there is one, what becomes of lost stages.
template <class Policy>
class gradient_world : public any_elastic_world {
 public:
  explicit gradient_world(elastic_world_options options, local_checkpoints* checkpoints = nullptr)
      : any_elastic_world{
            std::move(options),
            [checkpoints](const elastic_world_options& o, const std::shared_ptr<causeway::pipeline_group>& group,
                          causeway::environment env, causeway::parallel::elastic_pipeline_options po) {
              po.steps = o.steps;
              auto recovery = recovery_of<Policy>();
              causeway::parallel::elastic_pipeline<decltype(recovery)> pipeline{std::move(po), std::move(recovery)};
              return peer(o, group, std::move(env), std::move(pipeline), checkpoints);
            }} {}

 private:
  template <class Pipeline>
  static std::unique_ptr<elastic_peer> peer(const elastic_world_options& o, std::shared_ptr<causeway::pipeline_group> group,
                                            causeway::environment env, Pipeline pipeline, local_checkpoints* checkpoints) {
    const std::uint64_t id = group->identity();
    const bool saved = checkpoints != nullptr && checkpoints->by_peer.contains(id);
    const auto part = saved ? checkpoints->by_peer.at(id).part : causeway::nn::model_part{{0, 1}};
    auto t =
        elastic_trainer(o, std::move(group), std::move(env), std::move(pipeline), Policy::make(), part, inner_of<Policy>());
    if (saved) load(t, checkpoints->by_peer.at(id).state);
    return std::make_unique<saved_peer<decltype(t)>>(std::move(t), id, checkpoints);
  }

  /// Saved after the step that the checkpoints are of.
  template <class Trainer>
  class saved_peer final : public elastic_peer_of<Trainer> {
   public:
    saved_peer(Trainer trainer, std::uint64_t id, local_checkpoints* to)
        : elastic_peer_of<Trainer>{std::move(trainer)}, id_{id}, to_{to} {}
    causeway::result<causeway::step_report> step(const causeway::batch& b) override {
      auto report = elastic_peer_of<Trainer>::step(b);
      auto& t = this->trainer();
      if (report && to_ != nullptr && t.context().step() == to_->after) to_->by_peer[id_] = {t.model().part(), save(t)};
      return report;
    }

   private:
    std::uint64_t id_;
    local_checkpoints* to_;
  };
};

/// What the peers of a run without faults hold; `calls`: the network calls that each has made.
template <class Policy>
parameters undisturbed_gradients(elastic_world_options o, std::vector<distinct_calls>* calls = nullptr) {
  o.dies_at = UINT64_MAX;
  gradient_world<Policy> w{o};
  w.boot();
  w.run();
  CHECK(errors_of(w, o.hosts).empty());
  REQUIRE(w.finished() == o.hosts);
  for (std::uint32_t h = 0; calls != nullptr && h < o.hosts; ++h) calls->push_back(w.at(h).distinct);
  return holders_agree(w, o.hosts);
}

/// Two whole models on the halves of each batch, whose gradients the policy averages.
template <class Policy>
parameters of_two_models(const elastic_world_options& o) {
  parameters all;
  support::run_cluster(2, [&](std::uint32_t p, causeway::environment env) {
    using namespace causeway;
    trainer_options to;
    to.learning_rate = optim::constant{0.01F};
    to.clip_norm = o.clip_norm;
    auto model = nn::gpt::create(small_gpt(o.layers), kernels::cpu_backend{1});
    auto t = make_trainer(std::move(*model), std::move(env), to, Policy::make(), inner_of<Policy>(),
                          parallel::data_parallel{{.micro_batches = 2}});
    REQUIRE(t.start());
    for (std::uint64_t s = 0; s < o.steps; ++s) {
      const token_batch b{0, s, o.micro_batches};
      REQUIRE(t.step(b.view().slice(2 * p, 2)));
    }
    if (p == 0) detail::collect(t.model().parameters(), all);
  });
  return all;
}

/// The victim is killed at every `every`th call of its network, and comes back or does not. Each step is made of the whole
/// batch: what is lost with a peer is its residual, and a row that waits. `most`: how far the loss may be from that of a
/// run without faults.
template <class Policy>
void goes_on_by_gradients(std::uint64_t every, double most = 0.03) {
  auto o = two_pipelines();
  std::vector<distinct_calls> calls;
  const double loss = held_out_loss(undisturbed_gradients<Policy>(o, &calls), o.layers);
  for (const std::uint32_t victim : {0U, 1U, 2U, 3U}) {
    for (std::uint64_t n = (victim == 0 ? 2 : 1) * founded + victim; n < calls[victim].count(); n += every) {
      INFO("host " << victim << " is killed at call " << n);
      o.victim = victim;
      o.dies_at = n;
      o.back_after = n % 2 == 0 ? causeway::duration{0} : std::chrono::milliseconds{200};
      gradient_world<Policy> w{o};
      w.wanted = 3;
      w.boot();
      w.run();
      CHECK(errors_of(w, o.hosts).empty());
      CHECK(w.finished() >= 3);
      CHECK(std::abs(held_out_loss(holders_agree(w, o.hosts), o.layers) / loss - 1) < most);
    }
  }
}

/// All are stopped, and go on from checkpoints with the same bits.
template <class Policy>
void goes_on_with_the_same_bits() {
  const auto o = two_pipelines();
  const parameters quiet = undisturbed_gradients<Policy>(o);
  local_checkpoints saved{.after = 4};
  gradient_world<Policy> w{o, &saved};
  stop_all_once_saved(w, saved);
  CHECK(errors_of(w, o.hosts).empty());
  REQUIRE(w.finished() == 4);
  CHECK(holders_agree(w, o.hosts) == quiet);
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_PARALLEL_ELASTIC_GRADIENT_WORLD_HPP
