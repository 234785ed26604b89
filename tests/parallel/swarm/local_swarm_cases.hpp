// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_PARALLEL_SWARM_LOCAL_SWARM_CASES_HPP
#define CAUSEWAY_TESTS_PARALLEL_SWARM_LOCAL_SWARM_CASES_HPP

// What every policy of rounds must do in a swarm whose peers take local steps; and what two whole models come to by hand.

#include <causeway/core/rng.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/presets.hpp>
#include <causeway/stage/routing.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "parallel/swarm/swarm_world.hpp"
#include "support/catch.hpp"
#include "support/local_seat.hpp"

namespace support {

/// The policy of `Options`, or the preset with them, but for the length of a round.
template <class Options>
struct preset_rounds {
  static constexpr bool has_moments = std::is_base_of_v<causeway::presets::des_loc_options, Options>;
  static auto make(const swarm_schedule& s) {
    Options o;
    if constexpr (requires { o.local_steps; }) o.local_steps = s.local_steps;
    if constexpr (requires { o.policy(); }) {
      return o.policy();
    } else {
      return causeway::presets::make(o);
    }
  }
};
template <class Rounds>
using inner_type_of = std::conditional_t<Rounds::has_moments, causeway::optim::adamw, causeway::optim::sgd>;
template <class Rounds>
using local_seat_of = local_steps<inner_type_of<Rounds>, Rounds>;
template <class Rounds, class Router = causeway::stage::routing::least_load>
using local_swarm_of = swarm_world<Router, timed_job, causeway::stage::plain, local_seat_of<Rounds>>;

inline swarm_world_options two_stages() {
  return {.speeds = {{1, 1, 1}, {1, 1, 1}}, .steps = 6, .micro_batches = 8, .block_seconds = 0.01, .local_steps = 3};
}

/// How far `is` is from `was`, in parts of how far that is from where the run began. All paths begin alike.
inline double off(const named_parameters& is, const named_parameters& was, const named_parameters& began) {
  double apart = 0, moved = 0;
  for (const auto& [name, values] : was) {
    apart += squares_apart(is.at(name), values);
    moved += squares_apart(values, began.at(name.substr(0, name.find(" of path "))));
  }
  REQUIRE(moved > 0);
  return std::sqrt(apart / moved);
}

inline named_parameters beginning(std::int64_t blocks = 4) {
  auto model = timed_job{blocks}.make(causeway::nn::model_part{});
  return parameters_of(model.parameters());
}

/// Nobody is killed.
template <class Rounds, class Router = causeway::stage::routing::least_load>
std::vector<named_parameters> undisturbed(const swarm_world_options& o) {
  local_swarm_of<Rounds, Router> swarm{o};
  swarm.boot();
  swarm.run(2min);
  std::vector<named_parameters> all;
  for (std::uint32_t h = 0; h < swarm.hosts(); ++h) {
    INFO("host " << h << ": " << swarm.at(h).error);
    REQUIRE(swarm.at(h).finished);
    all.push_back(swarm.at(h).parameters);
    CHECK(all.back() == all[h / o.speeds[0].size() * o.speeds[0].size()]);
  }
  return all;
}

/// A peer of either stage is killed all along its network calls, every `every`th, and comes back or does not. Parameters
/// are less than `most` off those of a run without faults: see `off`.
template <class Rounds>
void trains_through_losses(double most, const swarm_world_options& with = two_stages(), std::uint64_t every = 7) {
  const auto quiet = undisturbed<Rounds>(with);
  const auto began = beginning();
  for (const auto& [victim, back] : {std::pair{1U, causeway::duration{0s}}, std::pair{4U, causeway::duration{1500ms}}}) {
    auto o = with;
    o.victim = victim, o.back_after = back;
    const bool for_good = o.once_committed = back == 0s;
    const auto calls = calls_of_victim<local_swarm_of<Rounds>>(o);
    for (std::uint64_t n = victim;; n = calls.after(n, every)) {
      INFO("host " << victim << " is killed at its network call " << n);
      o.dies_at = n;
      local_swarm_of<Rounds> swarm{o};
      if (for_good) swarm.wanted = swarm.hosts() - 1;
      swarm.boot();
      swarm.run(2min);
      if (swarm.at(victim).calls <= n) break;  // it has outlived the run
      stages_agree(swarm, for_good ? victim : nobody);
      for (const std::uint32_t h : {0U, 5U}) CHECK(off(swarm.at(h).parameters, quiet[h], began) < most);
    }
  }
}

/// A peer of the second stage comes in each step of a run of `steps`.
template <class Rounds>
void lets_newcomers_in(std::uint64_t steps = 12, const swarm_world_options& with = two_stages()) {
  for (std::size_t step = 1; step + 2 < steps; ++step) {
    INFO("it comes after step " << step);
    auto o = with;
    o.steps = steps, o.late = {5};
    local_swarm_of<Rounds> swarm{o};
    swarm.boot();
    while (swarm.at(0).ends.size() < step)
      swarm.world().run_until(causeway::time_point{swarm.world().now().since_start + 10ms});
    swarm.boot(5);
    swarm.run(5min);
    stages_agree(swarm);
  }
}

/// All are stopped after a step, and go on from disks and checkpoints.
template <class Rounds>
void goes_on_from_checkpoints(double most, const swarm_world_options& o = two_stages()) {
  const auto quiet = undisturbed<Rounds>(o);
  const auto began = beginning();
  for (const std::uint64_t step : {3U, 5U}) {
    INFO("all are stopped after step " << step);
    step_checkpoints saved{.after = step, .by_peer = {}};
    local_seat_of<Rounds>::checkpoints = &saved;
    local_swarm_of<Rounds> swarm{o};
    swarm.boot();
    while (saved.by_peer.size() < 6) swarm.world().run_until(causeway::time_point{swarm.world().now().since_start + 1ms});
    for (std::uint32_t h = 0; h < 6; ++h) swarm.world().kill(h);
    for (std::uint32_t h = 0; h < 6; ++h) swarm.world().restart(h);
    swarm.run(2min);
    local_seat_of<Rounds>::checkpoints = nullptr;
    stages_agree(swarm);
    for (const std::uint32_t h : {0U, 5U}) CHECK(off(swarm.at(h).parameters, quiet[h], began) < most);
  }
}

// ---- as many peers in each of two stages, as that many whole models -----------------------------------------------------

/// Micro-batches go through the first peer of each stage, the second and so on in turn.
template <std::size_t Models>
struct in_turn_of {
  static constexpr std::size_t models = Models;
  static std::size_t of(std::uint64_t, std::uint32_t m) { return m % Models; }
};
using in_turn = in_turn_of<2>;
/// Through the one that `Who` says.
template <class Who = in_turn>
class in_pairs {
 public:
  static constexpr std::string_view name = "in_pairs";
  void begin(const causeway::stage::routing::step_size& size, const causeway::stage::routing::roster&) {
    step_ = size.step;
  }
  [[nodiscard]] causeway::net::peer_id choose(const causeway::stage::routing::roster& known, std::uint32_t stage,
                                              std::uint32_t m) {
    const auto all = known.usable(stage);
    return all.size() < Who::models ? causeway::stage::routing::nobody : all[Who::of(step_, m)].id;
  }
  [[nodiscard]] static bool runs(const causeway::stage::routing::step_size&, std::uint32_t, std::uint32_t) { return true; }

 private:
  std::uint64_t step_ = 0;
};

inline swarm_world_options two_pairs() {
  return {.speeds = {{1, 1}, {1, 1}}, .steps = 13, .micro_batches = 8, .block_seconds = 0.01, .local_steps = 6};
}

/// What whole models come to with the parts of each batch that `Who` gives them. `exchange(steps, shared, models)` is
/// called after every step, with how many there were, the shared parameters and those of all.
template <class Who = in_turn, class Exchange>
named_parameters models_by_hand(const swarm_world_options& o, Exchange&& exchange) {
  using namespace causeway;
  constexpr std::size_t count = Who::models;
  const timed_job job{o.blocks_per_stage * static_cast<std::int64_t>(o.speeds.size())};
  auto shared = job.make(nn::model_part{});
  std::vector<std::remove_cvref_t<decltype(shared)>> models;
  models.reserve(count);
  std::array<optim::sgd, count> inner;
  thread_pool pool{1};
  std::array<std::span<float>, count> live;
  for (std::size_t k = 0; k < count; ++k) {
    models.push_back(job.make(nn::model_part{}));
    inner[k].reset(models[k].parameters().length());
    live[k] = models[k].parameters().values();
  }
  for (std::uint64_t step = 0; step < o.steps; ++step) {
    const auto b = job.batch({.micro_batches = o.micro_batches, .seed = o.seed}, step);
    for (std::size_t k = 0; k < count; ++k) {
      const auto g = models[k].parameters().gradients();
      std::fill(g.begin(), g.end(), 0.0F);
      float own = 0;
      for (std::uint32_t m = 0; m < o.micro_batches; ++m) {
        if (Who::of(step, m) != k) continue;
        const batch piece = b.view().slice(m, 1);
        (void)models[k]
            .forward_backward(piece.inputs, piece.targets, 1, 1.0F / static_cast<float>(piece.tokens()), 0)
            .value();
        own += 1;
      }
      for (float& v : g) v /= own;
      inner[k].step(pool, models[k].parameters().view(), {.learning_rate = o.rate});
    }
    exchange(step + 1, shared.parameters(), live);
    for (auto& model : models) model.parameters().touch();
  }
  return parameters_of(shared.parameters());
}

/// How far the stages of such a swarm are off those models.
template <class Rounds, class Who = in_turn>
double off_by_hand(const swarm_world_options& o, const named_parameters& by_hand) {
  double worst = 0;
  for (const auto& held : undisturbed<Rounds, in_pairs<Who>>(o)) worst = std::max(worst, off(by_hand, held, beginning()));
  return worst;
}

/// As in_pairs, until one pair is lost: then through the other one.
class in_pairs_that_are_there {
 public:
  static constexpr std::string_view name = "in_pairs_that_are_there";
  void begin(const causeway::stage::routing::step_size& size, const causeway::stage::routing::roster&) {
    is_first_ = size.step == 0;
  }
  [[nodiscard]] causeway::net::peer_id choose(const causeway::stage::routing::roster& known, std::uint32_t stage,
                                              std::uint32_t m) const {
    const auto all = known.usable(stage);
    if (all.empty() || (is_first_ && all.size() < 2)) return causeway::stage::routing::nobody;
    return all[m % all.size()].id;
  }
  [[nodiscard]] static bool runs(const causeway::stage::routing::step_size&, std::uint32_t, std::uint32_t) { return true; }

 private:
  bool is_first_ = true;
};

/// The whole model, of which a pair of peers computes gradients at any parameters.
class whole_model {
 public:
  explicit whole_model(swarm_world_options o) : o_{std::move(o)} {}
  [[nodiscard]] causeway::parameter_store& parameters() { return model_.parameters(); }
  /// sum ← sum + the learning rate times the mean gradient of those micro-batches of these steps, of which every second one
  /// begins at `first`; `each` 1: of all.
  void add(const std::vector<std::uint64_t>& steps, std::uint32_t first, std::uint32_t each, std::vector<float>& sum) {
    const auto g = model_.parameters().gradients();
    std::fill(g.begin(), g.end(), 0.0F);
    float count = 0;
    for (const std::uint64_t step : steps) {
      const auto b = job_.batch({.micro_batches = o_.micro_batches, .seed = o_.seed}, step);
      for (std::uint32_t m = first; m < o_.micro_batches; m += each, count += 1) {
        const causeway::batch piece = b.view().slice(m, 1);
        (void)model_.forward_backward(piece.inputs, piece.targets, 1, 1.0F / static_cast<float>(piece.tokens()), 0).value();
      }
    }
    for (std::size_t i = 0; i < g.size(); ++i) sum[i] += o_.rate * g[i] / count;
  }
  void begin_at(const std::vector<float>& from, const std::vector<float>& moved) {
    const auto values = model_.parameters().values();
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = from[i] - moved[i];
    model_.parameters().touch();
  }

 private:
  swarm_world_options o_;
  timed_job job_{o_.blocks_per_stage * static_cast<std::int64_t>(o_.speeds.size())};
  decltype(job_.make(causeway::nn::model_part{})) model_ = job_.make(causeway::nn::model_part{});
};

/// Which of the two peers of its stage a host is, in the order of their ids.
inline std::uint32_t place_in_stage(const swarm_world_options& o, std::uint32_t host) {
  const auto id = [&](std::uint32_t h) { return causeway::mix(o.seed, h + 1 + 1000 * (h / 2), 1) | 1U; };
  return id(host) < id(host ^ 1U) ? 0 : 1;
}

/// One of two pairs is lost once all have made three steps, and does not come back: the other comes to what
/// `by_hand(o, place in its stage of who is lost)` does.
template <class Rounds, class ByHand>
void loses_one_pair(const swarm_world_options& o, const ByHand& by_hand) {
  using namespace std::chrono_literals;
  const std::uint32_t lost = 1, other = place_in_stage(o, 2) == place_in_stage(o, 1) ? 2 : 3;
  local_swarm_of<Rounds, in_pairs_that_are_there> swarm{o};
  swarm.wanted = 2;
  swarm.boot();
  for (std::uint32_t h = 0; h < 4; ++h) {
    while (swarm.at(h).ends.size() < 3)
      swarm.world().run_until(causeway::time_point{swarm.world().now().since_start + 1ms});
  }
  for (const std::uint32_t h : {lost, other}) swarm.world().kill(h);
  swarm.run(2min);
  const auto want = by_hand(o, place_in_stage(o, lost));
  for (const std::uint32_t h : {0U, 5U - other}) {
    INFO("host " << h << ": " << swarm.at(h).error);
    REQUIRE(swarm.at(h).finished);
    CHECK(off(want, swarm.at(h).parameters, beginning()) < 1e-4);
  }
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_PARALLEL_SWARM_LOCAL_SWARM_CASES_HPP
