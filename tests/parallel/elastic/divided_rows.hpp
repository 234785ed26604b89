// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_PARALLEL_ELASTIC_DIVIDED_ROWS_HPP
#define CAUSEWAY_TESTS_PARALLEL_ELASTIC_DIVIDED_ROWS_HPP

// Batches that follow speed, and rows that are of several rounds: policies, and what whole models by hand come to.

#include <causeway/comm/stacked.hpp>
#include <causeway/presets/asynchronous.hpp>
#include <causeway/presets/compressed.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "parallel/elastic/divided_batches.hpp"
#include "parallel/elastic/local_pipeline_world.hpp"
#include "support/catch.hpp"
#include "support/late_rows_by_hand.hpp"

namespace support::divided {

using namespace causeway;

using models = std::array<std::span<float>, 2>;
using samples = std::array<float, 2>;
inline constexpr std::uint64_t H = support::steps_of_round;
inline constexpr float rate = 0.7F, usual_momentum = 0.3F;

inline auto by_speed(std::uint32_t parts) { return axis::batch_by_speed{{.local_steps = H, .sequences = parts}}; }
inline auto outer(float of = usual_momentum) {
  return axis::outer<optim::nesterov>{rate, optim::nesterov{{.momentum = of}}};
}

/// Everything a round late; with what was not sent in the live parameters, which is nothing here; or a step late.
template <std::uint32_t Parts = 12, class Order = stage::one_f_one_b>
struct late : support::divided_batches<Parts, Order> {
  static constexpr float momentum = usual_momentum;
  static constexpr bool own_is_fresh = false, keeps_unsent = false;
  static auto policy() { return comm::rounds{by_speed(Parts), axis::one_round_late{}, axis::split_mean<>{}, outer()}; }
};
struct late_unsent : support::divided_batches<> {
  static constexpr float momentum = 0;
  static constexpr bool own_is_fresh = false, keeps_unsent = true;
  static auto policy() {
    return comm::rounds{by_speed(12), axis::implicit_residual{}, axis::one_round_late{}, axis::split_mean<>{}, outer(0)};
  }
};
template <std::uint32_t Parts = 12>
struct a_step_late : support::divided_batches<Parts> {
  static auto policy() { return comm::rounds{by_speed(Parts), axis::replayed{1}, axis::gather_mean<>{}, outer()}; }
};

/// Means of all parameters every two steps, and pseudo-gradients every three: turns after 2, 3, 4, 6, 8 and 9 steps.
template <std::uint32_t Parts = 12>
struct means_beside : support::divided_batches<Parts> {
  static constexpr std::uint64_t of_means = 2, of_rows = H;  // steps
  static auto policy() {
    return comm::stacked{comm::rounds{axis::every{2}, axis::parameters{}, axis::gather_mean<>{}},
                         comm::rounds{by_speed(Parts), axis::gather_mean<>{}, outer()}};
  }
};
/// By the context's all-reduce, whose rows carry no weights.
struct summed_means_beside : means_beside<> {
  static auto policy() {
    return comm::stacked{comm::rounds{axis::every{2}, axis::parameters{}},
                         comm::rounds{by_speed(12), axis::gather_mean<>{}, outer()}};
  }
};
/// The means divide, every three steps, and the pseudo-gradients are summed by the context, every two.
template <std::uint32_t Parts = 12>
struct means_divide : support::divided_batches<Parts> {
  static constexpr std::uint64_t of_means = H, of_rows = 2;
  static auto policy() {
    return comm::stacked{comm::rounds{by_speed(Parts), axis::parameters{}, axis::split_mean<>{}},
                         comm::rounds{axis::every{2}, outer()}};
  }
};
struct sparta_beside : support::divided_batches<4> {
  static auto policy() {
    return comm::stacked{make(presets::sparta_options{.share = 0.2F}),
                         comm::rounds{by_speed(4), axis::split_mean<>{}, outer()}};
  }
};

/// Of a run, what it came to, and the micro-batches of each slot in each step.
struct divided_run {
  support::parameters is;
  std::vector<std::vector<std::uint32_t>> shares;

  [[nodiscard]] samples at(std::uint64_t step) const {
    const auto& both = shares.at(step);
    return {static_cast<float>(both.at(0)), static_cast<float>(both.at(1))};
  }
};
template <class Options>
divided_run run_of(const support::elastic_world_options& o) {
  support::local_world<Options> w{o};
  w.boot();
  w.run();
  REQUIRE(w.finished() == o.hosts);
  divided_run made{support::holders_agree(w, o.hosts), {}};
  for (std::uint64_t step = 1; step <= o.steps; ++step) made.shares.push_back(support::shares_after(w, step));
  CHECK(made.at(0) == samples{6, 6});
  CHECK(made.at(o.steps - 1) != samples{6, 6});
  return made;
}

inline void add(samples& all, const samples& more) {
  for (std::size_t m = 0; m < 2; ++m) all[m] += more[m];
}
inline float mean_of(const samples& weights, float one, float other) {
  return (weights[0] * one + weights[1] * other) / (weights[0] + weights[1]);
}

/// What pipelines come to whose rows count by the samples `behind` them, or by the parts in force when they are exchanged.
enum class weights { behind, in_force };

/// `exchange(steps, shared, models, in_force)` is called after each step.
template <class Exchange>
support::parameters by_hand(const support::elastic_world_options& o, const divided_run& run, Exchange&& exchange) {
  const auto parts = [&](std::size_t m, std::uint64_t step) {
    const auto first = static_cast<std::int64_t>(run.shares.at(step).at(0));
    return m == 0 ? index_range{0, first} : index_range{first, 12};
  };
  const auto after = [&](std::uint64_t steps, parameter_store& shared, const models& all) {
    exchange(steps, shared.values(), all, run.at(steps - 1));
  };
  return support::models_by_hand<2>(o, after, parts);
}

template <class Options>
support::parameters a_round_late(const support::elastic_world_options& o, const divided_run& run, weights by) {
  support::late_rows_by_hand<Options> with;
  samples since{};
  return by_hand(o, run, [&](std::uint64_t steps, std::span<float> shared, const models& all, const samples& in_force) {
    add(since, in_force);
    if (steps % H != 0 && steps != o.steps) return;
    if (by == weights::in_force) with.behind = in_force, since = {};
    with.exchange(steps == o.steps, shared, all, since);
    since = {};
  });
}

/// Rows made after each third step, and exchanged after the next, or the run's last.
inline support::parameters replayed(const support::elastic_world_options& o, const divided_run& run, weights by) {
  support::outer_by_hand step{usual_momentum};
  std::array<std::vector<float>, 2> sent, at_send;
  samples since{}, behind{};
  bool pending = false;
  return by_hand(o, run, [&](std::uint64_t steps, std::span<float> shared, const models& all, const samples& in_force) {
    add(since, in_force);
    const bool last = steps == o.steps, applies = pending || last;
    if (!pending && (last || steps % H == 0)) {
      for (std::size_t m = 0; m < 2; ++m) {
        at_send[m].assign(all[m].begin(), all[m].end());
        sent[m].resize(shared.size());
        for (std::size_t i = 0; i < shared.size(); ++i) sent[m][i] = shared[i] - all[m][i];
      }
      behind = since;
      since = {};
      pending = true;
    }
    if (!applies) return;
    pending = false;
    std::vector<float> mean(shared.size());
    const samples w = by == weights::behind ? behind : in_force;
    for (std::size_t i = 0; i < shared.size(); ++i) mean[i] = mean_of(w, sent[0][i], sent[1][i]);
    step.step(shared, mean);
    for (std::size_t m = 0; m < 2; ++m)
      for (std::size_t i = 0; i < shared.size(); ++i) all[m][i] = last ? shared[i] : all[m][i] + shared[i] - at_send[m][i];
  });
}

template <class Options>
support::parameters stacked(const support::elastic_world_options& o, const divided_run& run, weights by) {
  support::outer_by_hand outer{usual_momentum};
  samples of_means{}, of_rows{};
  return by_hand(o, run, [&](std::uint64_t steps, std::span<float> shared, const models& all, const samples& in_force) {
    add(of_means, in_force);
    add(of_rows, in_force);
    const bool last = steps == o.steps;
    if (last || steps % Options::of_means == 0) {
      const samples w = by == weights::behind ? of_means : in_force;
      for (std::size_t i = 0; i < shared.size(); ++i) all[0][i] = all[1][i] = mean_of(w, all[0][i], all[1][i]);
      of_means = {};
    }
    if (!last && steps % Options::of_rows != 0) return;
    std::vector<float> mean(shared.size());
    const samples w = by == weights::behind ? of_rows : in_force;
    for (std::size_t i = 0; i < shared.size(); ++i) mean[i] = shared[i] - mean_of(w, all[0][i], all[1][i]);
    outer.step(shared, mean);
    for (const std::span<float> one : all) std::copy(shared.begin(), shared.end(), one.begin());
    of_rows = {};
  });
}

}  // namespace support::divided

#endif  // CAUSEWAY_TESTS_PARALLEL_ELASTIC_DIVIDED_ROWS_HPP
