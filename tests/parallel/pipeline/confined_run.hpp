// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_PARALLEL_PIPELINE_CONFINED_RUN_HPP
#define CAUSEWAY_TESTS_PARALLEL_PIPELINE_CONFINED_RUN_HPP

// Small models confined to a subspace, trained in pipelines whose boundaries carry coordinates (Protocol Models).

#include <causeway/comm/every_step.hpp>
#include <causeway/stage/subspace.hpp>
#include <causeway/stage/subspace_pieces.hpp>

#include "support/catch.hpp"
#include "support/pipelines.hpp"

#include <algorithm>
#include <cmath>

namespace confined_run {

using namespace causeway;
using namespace causeway::parallel;
using support::detail::valued;

constexpr std::int64_t width = 16;

struct subspace_run {
  std::uint32_t ranks = 2;
  std::int64_t rank = 4;
  std::uint64_t steps = 10;
  bool confined = true;  ///< the optimizer keeps weights in the subspace
};

struct outcome {
  std::vector<double> losses;
  double evaluated = 0;
  std::uint64_t bytes = 0;  ///< that all ranks sent
  std::string error;
  std::mutex mutex;
};

// No clipping: the norm of what lies outside of the subspace differs, and is thrown away later.
template <class Model>
void train(const typename Model::options_type& o, const subspace_run& r, outcome& out) {
  support::run_cluster(r.ranks, [&](std::uint32_t peer, environment env) {
    const pipeline_options po{.micro_batches = 2, .ranks = r.ranks};
    const auto place = valued(place_in(po, peer, r.ranks));
    auto model = valued(Model::create(o, kernels::cpu_backend{1}, std::move(*valued(part_of(po, *place, o.layers, 1)))));
    const auto basis = valued(stage::subspace_basis::random(7, width, r.rank));
    const auto pieces = stage::residual_writers();
    stage::confine(model->backend().pool(), model->parameters(), *basis, pieces);
    trainer_options options;
    options.learning_rate = optim::constant{0.01F};
    options.clip_norm = 0;
    auto t = make_trainer(
        std::move(*model), std::move(env), options, comm::every_step<>{},
        pipeline<stage::one_f_one_b, stage::subspace<>>{po, {}, stage::subspace<>{{.rank = r.rank, .seed = 7}}},
        stage::subspace_adamw{*basis, r.confined ? pieces : std::vector<stage::confined_pieces>{}});
    const auto started = t.start();
    const auto note = [&] { return std::scoped_lock{out.mutex}; };
    if (!started) {
      const auto lock = note();
      out.error = started.error().text();
      return;
    }
    std::vector<double> losses;
    for (std::uint64_t s = 0; s < r.steps; ++s) {
      losses.push_back(valued(t.step(support::token_batch{0, s % 2, 8}.view()))->loss);
    }
    const double evaluated = *valued(t.evaluate(support::token_batch{0, 1000, 8}.view()));
    const auto lock = note();
    out.bytes += t.context().world().stats().bytes_sent;
    if (peer == 0) out.losses = std::move(losses), out.evaluated = evaluated;
  });
}

template <class Model>
double apart(const typename Model::options_type& o, const subspace_run& a, const subspace_run& b) {
  outcome one, other;
  train<Model>(o, a, one);
  train<Model>(o, b, other);
  REQUIRE(one.losses.size() == a.steps);
  CHECK(one.losses.back() < one.losses.front() - 0.1);
  double most = std::abs(one.evaluated - other.evaluated);
  for (std::size_t i = 0; i < a.steps; ++i) most = std::max(most, std::abs(one.losses[i] - other.losses[i]));
  return most;
}

}  // namespace confined_run

#endif  // CAUSEWAY_TESTS_PARALLEL_PIPELINE_CONFINED_RUN_HPP
