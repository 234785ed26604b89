// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_BENCH_E2E_LOSS_TABLE_RUN_HPP
#define CAUSEWAY_BENCH_E2E_LOSS_TABLE_RUN_HPP

// One run: peers that train the small GPT on the simulator, each on tokens of its own. What a peer computes is real, and so
// is every byte; only time is virtual. So one run gives the loss, the bytes, and how long the network made the peers wait,
// and policies whose result depends on when messages arrive give the same result again.

#include <causeway/sim/link_table.hpp>
#include <causeway/sim/world.hpp>
#include <causeway/train/trainer.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "model.hpp"

namespace losses {

using namespace std::chrono_literals;

/// How long an inner step takes on a peer of speed 1, in virtual time.
inline constexpr causeway::duration step_time = 50ms;

/// What is equal for all rows that are compared.
struct plan {
  std::uint32_t peers = 8;
  std::uint64_t steps = 300;       ///< of each peer
  std::uint32_t local_steps = 10;  ///< H, of every preset that has one
  float momentum = 0.3F;           ///< of outer Nesterov steps, delayed ones too
  float outer_rate = 0.7F;         ///< of DiLoCo
  std::uint64_t seed = 1;          ///< of the order of the text, and of what a policy draws
  float rate = 0.004F;             ///< peak of the inner learning rate
  std::int64_t sequences = batch;  ///< of one peer and step
  const corpus* text = nullptr;
  const causeway::sim::link_table* links = nullptr;  ///< none: 100 Mbit/s access lines, 20 ms one way
};

/// What a row may have of its own.
struct tweaks {
  float rate = 1;                ///< times the plan's
  float clip = 1;                ///< of the gradient's norm; 0: none
  float warmup = 20;             ///< steps
  double updates = 1;            ///< steps of the optimizer in a step
  std::vector<double> speeds{};  ///< of the peers, which take steps in proportion; the mean must be 1. None: all 1
  /// Sequences that a peer trains on in a step; none: the plan's for all.
  std::function<std::int64_t(std::uint32_t peer, std::uint64_t step)> sequences{};
};

struct outcome {
  double loss = 0;                  ///< nats per token on the validation text, of the parameters that finish() gives
  double megabytes = 0;             ///< sent by a peer, headers included: mean over the peers
  double waited = 0;                ///< virtual seconds of the run that were not inner steps
  std::vector<float> parameters{};  ///< of the first peer
};

template <class T>
auto checked(T&& outcome) {
  if (!outcome) throw std::runtime_error{outcome.error().text()};
  if constexpr (requires { *outcome; }) return std::move(*outcome);
}

namespace detail {

inline double speed_of(const tweaks& t, std::uint32_t peer) { return peer < t.speeds.size() ? t.speeds[peer] : 1.0; }

inline std::uint64_t steps_of(const plan& p, const tweaks& t, std::uint32_t peer) {
  return static_cast<std::uint64_t>(std::llround(static_cast<double>(p.steps) * speed_of(t, peer)));
}

inline causeway::trainer_options options_of(const plan& p, const tweaks& t, std::uint32_t peer) {
  causeway::trainer_options o;
  o.seed = p.seed;
  o.clip_norm = t.clip;
  o.hash_every = 0;
  o.learning_rate = causeway::optim::warmup_cosine{
      .peak = t.rate * p.rate,
      .warmup_steps = static_cast<std::uint64_t>(t.warmup),
      .total_steps = static_cast<std::uint64_t>(std::llround(static_cast<double>(steps_of(p, t, peer)) * t.updates)),
      .final_fraction = 0.1F};
  return o;
}

inline std::vector<causeway::sim::host_index> build(causeway::sim::world& world, const plan& p, const tweaks& t) {
  std::vector<causeway::sim::host_index> hosts;
  const auto regions = p.links ? static_cast<std::uint32_t>(p.links->regions().size()) : 1U;
  const double access = p.links ? causeway::sim::unlimited : 12.5e6;
  for (std::uint32_t i = 0; i < p.peers; ++i) {
    hosts.push_back(world.add_host(
        {.speed = speed_of(t, i), .up_bytes_per_s = access, .down_bytes_per_s = access, .region = i % regions}));
  }
  if (p.links) p.links->apply_to(world);
  return hosts;
}

template <class Trainer>
void train_peer(Trainer& trainer, causeway::sim::process& process, const plan& p, const tweaks& t) {
  const std::uint32_t peer = process.host();
  const causeway::data::sampler_options order{.context_length = context_length, .seed = p.seed, .shift_grid = true};
  auto samples = checked(causeway::data::batcher::make(p.text->training, order, p.sequences));
  checked(trainer.start());
  const std::uint64_t steps = steps_of(p, t, peer);
  for (std::uint64_t s = 0; s < steps; ++s) {
    process.compute(step_time);
    const std::int64_t sequences = t.sequences ? t.sequences(peer, s) : p.sequences;
    checked(trainer.step(samples.at((s * p.peers + peer) * static_cast<std::uint64_t>(p.sequences), sequences)));
  }
  checked(trainer.finish());
}

}  // namespace detail

/// Trains by `make_policy()` and `make_inner()`. Throws what goes wrong.
template <class MakePolicy, class MakeInner>
outcome train(const plan& p, MakePolicy make_policy, MakeInner make_inner, const tweaks& t = {}) {
  causeway::sim::world_options world_options;
  world_options.link.latency = 20ms;
  world_options.stack_bytes = std::size_t{1} << 20U;  // for the kernels of a real model
  causeway::sim::world world{world_options};
  const auto hosts = detail::build(world, p, t);
  outcome all;
  for (const auto host : hosts) {
    world.boot(host, [&](causeway::sim::process& process) {
      causeway::environment env;
      env.transport = causeway::net::any_transport{checked(process.make_transport(hosts))};
      env.clock = process.clock();
      small_gpt model = starting_model(*p.text);
      auto trainer = causeway::make_trainer(std::move(model), std::move(env), detail::options_of(p, t, process.host()),
                                            make_policy(), make_inner());
      process.sleep_till({1s});  // all have met
      detail::train_peer(trainer, process, p, t);
      const auto sent = static_cast<double>(trainer.context().transport().stats().bytes_sent);
      all.megabytes += sent / 1e6 / p.peers;
      all.waited = std::max(all.waited, causeway::seconds(process.now().since_start) - 1);
      if (process.host() != 0) return;
      const auto values = trainer.model().parameters().values();
      all.parameters.assign(values.begin(), values.end());
      all.loss = checked(validation_loss(trainer.model(), *p.text));
    });
  }
  if (!world.run()) throw std::runtime_error{"some peer waits for ever"};
  all.waited -= static_cast<double>(p.steps) * causeway::seconds(step_time);
  return all;
}

}  // namespace losses

#endif  // CAUSEWAY_BENCH_E2E_LOSS_TABLE_RUN_HPP
