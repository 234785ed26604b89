// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_PARALLEL_SWARM_SWARM_GRADIENT_CASES_HPP
#define CAUSEWAY_TESTS_PARALLEL_SWARM_SWARM_GRADIENT_CASES_HPP

// What every policy of gradients must do in a swarm; and what whole models and pipelines come to by the same policy.

#include <causeway/optim/adamw.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/parallel/data_parallel.hpp>
#include <causeway/parallel/pipeline.hpp>
#include <causeway/parallel/swarm.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "parallel/swarm/local_swarm_cases.hpp"
#include "support/catch.hpp"
#include "support/cluster.hpp"
#include "support/local_seat.hpp"
#include "support/swarm_gpt.hpp"

namespace support::gradients {

using namespace causeway;

/// Policies by what makes them, and whether they keep something of a peer's own.
struct exact_steps {
  static constexpr bool keeps = false;
  static constexpr double learned = 0.9;  ///< at least, of what a run without losses learns
};
struct steps_with_residual : exact_steps {
  static constexpr bool keeps = true;
};
/// For swarm_world.
template <class Policy, class Inner = optim::sgd>
struct gradient_steps {
  static inline support::step_checkpoints* checkpoints = nullptr;

  template <class Codec, class Router, class Model, class Body>
  static result<void> take(support::swarm_seat seat, Router router, Model model, const support::swarm_schedule& s,
                           Body&& body) {
    const std::uint64_t id = seat.swarm->id();
    const auto make = [&](std::shared_ptr<parallel::swarm_peer> round, environment env, const trainer_options& to,
                          const auto& fault) {
      auto trainer = make_trainer(std::move(model), std::move(env), to, Policy::make(), Inner{}, fault,
                                  parallel::swarm<Codec>{std::move(round)});
      if (checkpoints != nullptr && checkpoints->by_peer.contains(id)) support::load(trainer, checkpoints->by_peer[id]);
      return trainer;
    };
    const auto watched = [&](auto& trainer, auto& peer) {
      trainer.observe([&trainer, id](const step_report& r) {
        if (checkpoints != nullptr && r.step == checkpoints->after) checkpoints->by_peer[id] = support::save(trainer);
      });
      return body(trainer, peer);
    };
    return support::take_seat_with(std::move(seat), std::move(router), s, make, watched);
  }
};
template <class Policy, class Router = stage::routing::least_load, class Job = support::gpt_job>
using gradient_swarm = support::swarm_world<Router, Job, stage::plain, gradient_steps<Policy>>;
template <class Policy>
using in_pairs = gradient_swarm<Policy, support::in_pairs<>>;
template <class Policy>
using learning_swarm =
    support::swarm_world<stage::routing::least_load, support::gpt_job, stage::plain, gradient_steps<Policy, optim::adamw>>;

/// Two micro-batches for each of two peers in each of two stages.
inline swarm_world_options two_pairs() {
  return {.speeds = {{1, 1}, {1, 1}}, .steps = 6, .micro_batches = 4, .blocks_per_stage = 1, .rate = 0.2F};
}
inline swarm_world_options of_three() {
  auto o = two_pairs();
  o.speeds = {{1, 1, 1}, {1, 1, 1}};
  return o;
}

inline swarm_world_options to_learn() {
  auto o = of_three();
  o.steps = 16, o.rate = 0.02F;
  return o;
}

inline named_parameters beginning() {
  auto model = support::gpt_job{2}.make(nn::model_part{});
  return support::parameters_of(model.parameters());
}

/// All have finished, and those of a stage alike: the parameters of both stages.
template <class World>
named_parameters made_by(World& swarm, std::uint32_t except = support::nobody) {
  const std::uint32_t each = swarm.hosts() / 2;
  named_parameters all;
  for (std::uint32_t h = 0; h < swarm.hosts(); ++h) {
    if (h == except) continue;
    INFO("host " << h << ": " << swarm.at(h).error);
    REQUIRE(swarm.at(h).finished);
    const std::uint32_t first = h / each * each == except ? except + 1 : h / each * each;
    CHECK(swarm.at(h).parameters == swarm.at(first).parameters);
    for (const auto& [name, values] : swarm.at(h).parameters) all[name] = values;
  }
  return all;
}

/// A run in which nobody is killed.
struct quiet_run {
  named_parameters parameters;
  std::vector<std::uint32_t> idle;  ///< by stage: the peer that computed least
};
template <class World>
quiet_run quietly(const swarm_world_options& o) {
  World swarm{o};
  swarm.boot();
  swarm.run(2min);
  quiet_run quiet{made_by(swarm), {}};
  for (std::uint32_t s = 0; s < 2; ++s) {
    std::uint32_t least = swarm.first(s);
    for (std::uint32_t h = swarm.first(s); h < swarm.first(s) + swarm.at_stage(s); ++h) {
      if (swarm.at(h).bytes < swarm.at(least).bytes) least = h;
    }
    quiet.idle.push_back(least);
  }
  return quiet;
}

/// Of the whole model with these, over a batch that nobody trains on.
inline double loss_of(const named_parameters& held) {
  const support::gpt_job job{2};
  auto model = job.make(nn::model_part{});
  auto& store = model.parameters();
  for (std::size_t i = 0; i < store.segments().size(); ++i) {
    const auto& values = held.at(store.segments()[i].name);
    std::copy(values.begin(), values.end(), store.value(i));
  }
  store.touch();
  const auto b = job.batch({.micro_batches = 8, .seed = 1}, support::evaluation_step(0));
  return model.evaluate(b.tokens, b.tokens, b.sequences).value() / static_cast<double>(b.tokens.size());
}

inline double learned(const named_parameters& held) { return loss_of(beginning()) - loss_of(held); }

/// How far a run is off another one, in parts of how far that went.
inline double off(const named_parameters& is, const named_parameters& was) { return support::off(is, was, beginning()); }

/// The micro-batches of a pair.
inline support::swarm_batch batch_of(std::uint32_t pair, const swarm_world_options& o, std::uint64_t step) {
  const auto b = support::gpt_job{2}.batch({.micro_batches = o.micro_batches, .seed = o.seed}, step);
  support::swarm_batch own{{}, 4};
  for (const std::uint32_t m : {pair, pair + 2}) {
    const auto piece = b.view().slice(2 * m, 2).inputs;
    own.tokens.insert(own.tokens.end(), piece.begin(), piece.end());
  }
  return own;
}

/// A fixed set of peers, with `part` of the model and that parallelism, takes the steps of pair `pair`.
template <class Policy, class Parallel>
named_parameters fixed_peer(const swarm_world_options& o, environment env, std::uint32_t pair, nn::model_part part,
                            Parallel parallel) {
  trainer_options to;
  to.learning_rate = optim::constant{o.rate};
  to.clip_norm = 0;
  auto t = make_trainer(support::gpt_job{2}.make(std::move(part)), std::move(env), to, Policy::make(), optim::sgd{},
                        std::move(parallel));
  if (!t.start()) throw std::runtime_error{"start"};  // Catch counts in one thread only
  for (std::uint64_t step = 0; step < o.steps; ++step) (void)t.step(batch_of(pair, o, step).view()).value();
  return support::parameters_of(t.model().parameters());
}

/// Two whole models, each on the micro-batches of a pair, whose gradients the policy averages.
template <class Policy>
named_parameters of_two_models(const swarm_world_options& o) {
  named_parameters all;
  support::run_cluster(2, [&](std::uint32_t p, environment env) {
    auto own = fixed_peer<Policy>(o, std::move(env), p, {}, parallel::data_parallel{{.micro_batches = 2}});
    if (p == 0) all = std::move(own);
  });
  return all;
}

/// The same with two pipelines of two stages.
template <class Policy>
named_parameters of_two_pipelines(const swarm_world_options& o) {
  named_parameters all;
  std::mutex mutex;
  const parallel::pipeline_options po{.micro_batches = 2, .ranks = 2};
  support::run_cluster(4, [&](std::uint32_t p, environment env) {
    const auto place = parallel::place_in(po, p, 4).value();
    auto part = parallel::part_of(po, place, 2).value();
    const auto own = fixed_peer<Policy>(o, std::move(env), place.replica, std::move(part), parallel::pipeline<>{po});
    const std::lock_guard lock{mutex};
    if (place.replica == 0) all.insert(own.begin(), own.end());
  });
  return all;
}

/// Calls `judge(parameters, killed for good)` for each run of `with` in which a host of `victims` is killed, at every
/// `every`th of its network calls from the first committed state on.
template <class World, class Judge>
void killed_all_along(const swarm_world_options& with, const std::vector<std::uint32_t>& victims, std::uint64_t every,
                      causeway::duration back, Judge&& judge) {
  for (const std::uint32_t victim : victims) {
    auto o = with;
    o.victim = victim, o.back_after = back, o.once_committed = true;
    const auto calls = support::calls_of_victim<World>(o);
    std::uint64_t n = victim % every;
    for (;; n = calls.after(n, every)) {
      INFO("host " << victim << " is killed at its network call " << n);
      o.dies_at = n;
      World swarm{o};
      if (back == 0s) swarm.wanted = swarm.hosts() - 1;
      swarm.boot();
      swarm.run(2min);
      if (swarm.at(victim).calls <= n) break;  // it has outlived the run
      judge(made_by(swarm, back == 0s ? victim : support::nobody));
    }
    CHECK(n > 200);
  }
}

}  // namespace support::gradients

#endif  // CAUSEWAY_TESTS_PARALLEL_SWARM_SWARM_GRADIENT_CASES_HPP
