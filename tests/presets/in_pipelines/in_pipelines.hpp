// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_PRESETS_IN_PIPELINES_IN_PIPELINES_HPP
#define CAUSEWAY_TESTS_PRESETS_IN_PIPELINES_IN_PIPELINES_HPP

// Communication presets among the replicas of pipelines of a fixed set of peers: what is asked of each of them when a peer
// is lost.

#include <causeway/optim/adamw.hpp>
#include <causeway/parallel/async_pipeline.hpp>
#include <causeway/parallel/data_parallel.hpp>
#include <causeway/parallel/pipeline.hpp>

#include <cstdint>
#include <utility>

#include "support/catch.hpp"
#include "support/pipeline_runs.hpp"
#include "support/pipelines.hpp"

namespace support {

inline constexpr pipeline_case two_by_two{.ranks = 2, .replicas = 2, .micro_batches = 2, .sequences = 4, .steps = 5};

struct in_pipeline {
  static auto make(const causeway::parallel::pipeline_options& cut) { return causeway::parallel::pipeline<>{cut}; }
};
struct in_async_pipeline {
  static auto make(const causeway::parallel::pipeline_options& cut) {
    return causeway::parallel::async_pipeline<>{{.cut = cut}};
  }
};

struct whole {
  static auto make(const causeway::parallel::pipeline_options& cut) {
    return causeway::parallel::data_parallel{{.micro_batches = cut.micro_batches}};
  }
};

/// Runs of two pipelines of two stages, or of peers that hold the whole model, under the policy that `comm()` makes.
template <class Place, class Inner, class MakeComm>
pipeline_runs runs_in(MakeComm comm, const pipeline_case& shape, bool by_rounds = false) {
  const auto make = [comm, shape](causeway::environment env) {
    const causeway::parallel::pipeline_options cut{.micro_batches = shape.micro_batches, .ranks = shape.ranks};
    const auto place = detail::valued(causeway::parallel::place_in(cut, env.transport.self(), env.transport.size()));
    auto part = detail::valued(causeway::parallel::part_of(cut, *place, 2));
    auto model =
        detail::valued(causeway::nn::gpt::create(small_gpt(2), causeway::kernels::cpu_backend{1}, std::move(*part)));
    return causeway::make_trainer(std::move(*model), std::move(env), trainer_options_for(shape), comm(), Place::make(cut),
                                  Inner{});
  };
  return {make, shape, by_rounds};
}

/// At each network operation of a run one peer or another is lost: all come back, and go on from a common step with the
/// bits of a run in which nobody was; asynchronous pipelines without what was in flight.
template <class Inner = causeway::optim::adamw, class MakeComm>
void check_in_pipelines(MakeComm comm, const pipeline_case& shape = two_by_two) {
  const auto in_step = runs_in<in_pipeline, Inner>(comm, shape);
  const auto in_flight = runs_in<in_async_pipeline, Inner>(comm, shape);
  for (std::uint32_t victim = 0; victim < in_step.peers(); ++victim) {
    in_step.check_losses(victim, in_step.peers(), victim);
    in_flight.check_losses_in_flight(victim, in_step.peers(), victim);
  }
}

/// The same for policies whose peers do not keep step, also with peers that hold the whole model.
template <class Place, class Inner = causeway::optim::adamw, class MakeComm>
void check_out_of_step(MakeComm comm, const pipeline_case& shape = two_by_two, bool by_rounds = false) {
  const auto runs = runs_in<Place, Inner>(comm, shape, by_rounds);
  for (std::uint32_t victim = 0; victim < runs.peers(); ++victim) {
    runs.check_losses_out_of_step(victim, runs.peers(), victim);
  }
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_PRESETS_IN_PIPELINES_IN_PIPELINES_HPP
