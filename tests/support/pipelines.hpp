// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_PIPELINES_HPP
#define CAUSEWAY_TESTS_SUPPORT_PIPELINES_HPP

// Small models trained whole and in pipelines, to compare: what a run leaves, parameter by parameter and by name.

#include <causeway/optim/adamw.hpp>
#include <causeway/parallel/pipeline.hpp>
#include <causeway/train/trainer.hpp>

#include <cmath>
#include <cstdint>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/cluster.hpp"
#include "support/models.hpp"
#include "support/named_paths.hpp"

namespace support {

inline causeway::nn::gpt_options small_gpt(std::int64_t layers = 4) {
  causeway::nn::gpt_options o;
  o.layers = layers, o.heads = 2, o.width = 16, o.context = 8, o.vocabulary = 29;
  o.tie = false;
  return o;
}

/// `sequences` sequences of 8 tokens: a function of (replica, step).
struct token_batch {
  token_batch(std::uint64_t replica, std::uint64_t step, std::int64_t sequences)
      : inputs(static_cast<std::size_t>(8 * sequences)), targets(inputs.size()) {
    causeway::rng random{5, causeway::mix(replica, step)};
    for (auto& t : inputs) t = static_cast<std::int32_t>(random.below(29));
    for (auto& t : targets) t = static_cast<std::int32_t>(random.below(29));
    for (std::int64_t i = 0; i < sequences; ++i) samples.push_back(replica * 100 + static_cast<std::uint64_t>(i));
  }
  [[nodiscard]] causeway::batch view() const {
    return {inputs, targets, static_cast<std::int64_t>(samples.size()), samples};
  }
  std::vector<std::int32_t> inputs;
  std::vector<std::int32_t> targets;
  std::vector<std::uint64_t> samples;
};

/// What a run leaves.
struct trained_model {
  std::vector<double> losses;  ///< of replica 0, by step
  double evaluated = 0;  ///< its loss on another batch at the end: sums of micro-batches round otherwise than of a batch
  std::map<std::string, std::vector<float>> parameters;  ///< of replica 0
  std::map<std::string, std::vector<float>> last_rank;   ///< what the last rank of replica 0 has
  std::uint64_t bytes_sent = 0;                          ///< by all peers

  bool operator==(const trained_model& other) const {
    return losses == other.losses && parameters == other.parameters && std::abs(evaluated - other.evaluated) < 1e-12;
  }
};

struct pipeline_case {
  std::uint32_t ranks = 2;
  std::uint32_t replicas = 1;
  std::int64_t micro_batches = 4;
  std::int64_t sequences = 8;  ///< of a replica's batch
  std::uint64_t steps = 3;
  float clip_norm = 0;
  std::uint32_t idle = 0;  ///< replicas, the first ones, that have nothing to train on
};

inline causeway::trainer_options trainer_options_for(const pipeline_case& c) {
  causeway::trainer_options o;
  o.learning_rate = causeway::optim::constant{0.01F};
  o.clip_norm = c.clip_norm;
  return o;
}

namespace detail {

inline void check(const causeway::result<void>& outcome) {
  if (!outcome) throw std::runtime_error{outcome.error().text()};
}
template <class Outcome>
auto valued(Outcome&& outcome) {
  if (!outcome) throw std::runtime_error{outcome.error().text()};
  return std::forward<Outcome>(outcome);
}

template <class Trainer>
void train_and_note(Trainer& t, const pipeline_case& c, std::uint64_t replica, bool notes, trained_model& out) {
  check(t.start());
  for (std::uint64_t s = 0; s < (replica < c.idle ? 0 : c.steps); ++s) {
    const token_batch b{replica, s, c.sequences};
    const auto report = valued(t.step(b.view()));
    if (notes) out.losses.push_back(report->loss);
  }
  check(t.finish());
  const token_batch last{replica, 1000, c.sequences};
  const auto loss = valued(t.evaluate(last.view()));
  if (notes) out.evaluated = *loss;
}

}  // namespace detail

/// Replicas of the whole model, over the same micro-batches.
template <class Model = causeway::nn::gpt, class MakeComm>
trained_model train_whole(const typename Model::options_type& o, const pipeline_case& c, MakeComm comm) {
  trained_model out;
  run_cluster(c.replicas, [&](std::uint32_t replica, causeway::environment env) {
    auto model = detail::valued(Model::create(o, causeway::kernels::cpu_backend{1}));
    auto t =
        causeway::make_trainer(std::move(*model), std::move(env), trainer_options_for(c), comm(), causeway::optim::adamw{},
                               causeway::parallel::data_parallel{{.micro_batches = c.micro_batches}});
    detail::train_and_note(t, c, replica, replica == 0, out);
    if (replica == 0) detail::collect(t.model().parameters(), out.parameters);
  });
  return out;
}

/// The trainer of a peer of a run of pipelines; `make(options)` gives the policy.
template <class Model = causeway::nn::gpt, class Comm, class MakePipeline>
auto stage_trainer(const typename Model::options_type& o, const pipeline_case& c, causeway::environment env, Comm comm,
                   MakePipeline make, std::uint32_t chunks = 1,
                   causeway::plan::stage_path path = causeway::plan::stage_path::round) {
  const causeway::parallel::pipeline_options po{.micro_batches = c.micro_batches, .ranks = c.ranks};
  const auto place = detail::valued(causeway::parallel::place_in(po, env.transport.self(), env.transport.size()));
  auto part = detail::valued(causeway::parallel::part_of(po, *place, o.layers, chunks, path));
  auto model = detail::valued(Model::create(o, causeway::kernels::cpu_backend{1}, std::move(*part)));
  return causeway::make_trainer(std::move(*model), std::move(env), trainer_options_for(c), std::move(comm), make(po),
                                causeway::optim::adamw{});
}

/// Such a peer, from its first step to its last.
template <class Model = causeway::nn::gpt, class MakeComm, class MakePipeline>
void train_stage(const typename Model::options_type& o, const pipeline_case& c, causeway::environment env, MakeComm comm,
                 MakePipeline make, std::uint32_t chunks, causeway::plan::stage_path path, std::mutex& mutex,
                 trained_model& out) {
  auto t = stage_trainer<Model>(o, c, std::move(env), comm(), make, chunks, path);
  const auto place = detail::valued(
      causeway::parallel::place_in({.ranks = c.ranks}, t.context().world().self(), t.context().world().size()));
  const bool notes = place->replica == 0;
  trained_model own;
  detail::train_and_note(t, c, place->replica, notes, own);
  const std::lock_guard lock{mutex};
  out.bytes_sent += t.context().world().stats().bytes_sent;
  if (!notes) return;
  if (place->rank == 0) {
    out.losses = own.losses;
    out.evaluated = own.evaluated;
  }
  if (place->rank + 1 == c.ranks) detail::collect(t.model().parameters(), out.last_rank);
  std::map<std::string, std::vector<float>> held;
  detail::collect(t.model().parameters(), held);
  for (auto& [name, values] : held) {
    if (place->rank == 0 || !out.parameters.contains(name)) out.parameters[name] = std::move(values);
  }
}

/// Pipelines on the in-process network.
template <class Model = causeway::nn::gpt, class MakeComm, class MakePipeline>
trained_model train_pipelines(const typename Model::options_type& o, const pipeline_case& c, MakeComm comm,
                              MakePipeline make, std::uint32_t chunks = 1,
                              causeway::plan::stage_path path = causeway::plan::stage_path::round) {
  trained_model out;
  std::mutex mutex;
  run_cluster(c.ranks * c.replicas, [&](std::uint32_t, causeway::environment env) {
    train_stage<Model>(o, c, std::move(env), comm, make, chunks, path, mutex, out);
  });
  return out;
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_PIPELINES_HPP
