// SPDX-License-Identifier: Apache-2.0
// Pipelines whose batches follow speed, and rows that are of several rounds: results that are taken later, and two policies
// with rounds of their own. A row counts by the samples behind it, whatever part its slot has when it is exchanged.
#include <causeway/comm/stacked.hpp>
#include <causeway/parallel/local_async_pipeline.hpp>
#include <causeway/presets/asynchronous.hpp>
#include <causeway/presets/compressed.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "parallel/elastic/divided_batches.hpp"
#include "parallel/elastic/local_pipeline_world.hpp"
#include "parallel/elastic/newcomers.hpp"
#include "support/catch.hpp"
#include "support/late_rows_by_hand.hpp"

using namespace causeway;

namespace {

using models = std::array<std::span<float>, 2>;
using samples = std::array<float, 2>;
constexpr std::uint64_t H = support::steps_of_round;
constexpr float rate = 0.7F, usual_momentum = 0.3F;

auto by_speed(std::uint32_t parts) { return axis::batch_by_speed{{.local_steps = H, .sequences = parts}}; }
auto outer(float of = usual_momentum) { return axis::outer<optim::nesterov>{rate, optim::nesterov{{.momentum = of}}}; }

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

void add(samples& all, const samples& more) {
  for (std::size_t m = 0; m < 2; ++m) all[m] += more[m];
}
float mean_of(const samples& weights, float one, float other) {
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
support::parameters replayed(const support::elastic_world_options& o, const divided_run& run, weights by) {
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

}  // namespace

TEMPLATE_TEST_CASE("local pipeline: with parts by speed a row that is a round late counts by the round that it is of",
                   "[parallel][elastic][fast]", late<>, late_unsent) {
  const auto o = support::twelve_parts(GENERATE(8U, 9U, 13U));
  CAPTURE(o.steps);
  const divided_run run = run_of<TestType>(o);
  CHECK(support::off(run.is, a_round_late<TestType>(o, run, weights::behind), o.layers) < 1e-4);
  CHECK(support::off(run.is, a_round_late<TestType>(o, run, weights::in_force), o.layers) > 1e-3);
}

TEST_CASE("local pipeline: with parts by speed a row that is a step late counts by the steps that it is of",
          "[parallel][elastic][fast]") {
  const auto o = support::twelve_parts(GENERATE(8U, 9U, 10U));
  CAPTURE(o.steps);
  const divided_run run = run_of<a_step_late<>>(o);
  CHECK(support::off(run.is, replayed(o, run, weights::behind), o.layers) < 1e-4);
  CHECK(support::off(run.is, replayed(o, run, weights::in_force), o.layers) > 1e-3);
}

TEMPLATE_TEST_CASE("local pipeline: beside a policy that divides batches another one's rows count by their own steps",
                   "[parallel][elastic][fast]", means_beside<>, summed_means_beside, means_divide<>) {
  const auto o = support::twelve_parts(GENERATE(7U, 9U));
  CAPTURE(o.steps);
  const divided_run run = run_of<TestType>(o);
  CHECK(support::off(run.is, stacked<TestType>(o, run, weights::behind), o.layers) < 1e-4);
  CHECK(support::off(run.is, stacked<TestType>(o, run, weights::in_force), o.layers) > 1e-3);
}

TEMPLATE_TEST_CASE("local pipeline: parts by speed with rows of several rounds go on whoever is lost, and let others in",
                   "[parallel][elastic]", late<4>, (late<4, parallel::streamed_steps>), a_step_late<4>, means_beside<4>,
                   means_divide<4>, sparta_beside) {
  support::goes_on_whoever_is_killed<TestType>(29, 0.03);
  support::lets_newcomers_in<TestType>();
}

TEMPLATE_TEST_CASE("local pipeline: parts by speed with rows of several rounds go on from checkpoints with the same bits",
                   "[parallel][elastic][fast]", late<4>, a_step_late<4>, means_beside<4>, means_divide<4>) {
  support::goes_on_from_checkpoints<TestType>();
}

TEMPLATE_TEST_CASE("local pipeline: spare peers take up parts by speed with rows of several rounds", "[parallel][elastic]",
                   late<4>, a_step_late<4>, means_beside<4>, means_divide<4>) {
  auto o = support::two_pipelines();
  o.steps = 12;
  support::spare_peers_take_over<TestType>(o, 700, 97, [&](const auto& all, const auto& quiet) {
    CHECK(std::abs(support::held_out_loss(all, o.layers) / support::held_out_loss(quiet, o.layers) - 1) < 0.03);
  });
}

TEMPLATE_TEST_CASE("local pipeline: parts by speed with rows of several rounds, whoever is lost at every network call",
                   "[parallel][elastic][local_pipeline][slow][every_call]", late<4>, a_step_late<4>, means_beside<4>,
                   means_divide<4>, sparta_beside) {
  support::goes_on_whoever_is_killed<TestType>(1, 0.03);
}
