// SPDX-License-Identifier: Apache-2.0
// Presets of pipelines, against references of their papers and authors' code (tests/golden/traces/make_traces_pipelines.py):
// parameters after every step, and orders of work.

#include <causeway/comm/every_step.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/presets/pipelines.hpp>
#include <causeway/train/trainer.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "support/cluster.hpp"
#include "support/traced_pipelines.hpp"

using namespace causeway;
using presets::make;

namespace {

/// All peers train as the trace says; the largest relative error of any of them in any step. `make_policy()` gives a peer's
/// pipeline, `shape` its ranks and cuts.
double replay(const support::trace& t, const parallel::pipeline_options& shape, auto make_policy) {
  const auto numbers = support::numbers_of(t);
  const auto peers = static_cast<std::uint32_t>(t.numbers("replicas")[0]) * shape.ranks;
  std::vector<double> worst(peers);
  support::run_cluster(peers, [&](std::uint32_t peer, environment env) {
    const auto place = parallel::place_in(shape, peer, peers).value();
    support::linear_stages model{numbers, parallel::part_of(shape, place, numbers->blocks()).value()};
    trainer_options o;
    o.learning_rate = optim::constant{t.learning_rate()};
    o.clip_norm = 0;
    auto trainer = make_trainer(std::move(model), std::move(env), o, comm::every_step<>{}, make_policy(),
                                optim::sgd{{.momentum = t.numbers("momentum")[0]}});
    if (!trainer.start()) throw std::runtime_error{"start"};
    for (std::uint64_t s = 0; s < static_cast<std::uint64_t>(t.numbers("steps")[0]); ++s) {
      const support::token_batch b{place.replica, support::batch_of(t, s),
                                   static_cast<std::int64_t>(t.numbers("sequences")[0])};
      if (const auto report = trainer.step(b.view()); !report) throw std::runtime_error{report.error().text()};
      worst[peer] = std::max(worst[peer], support::distance(t, trainer.model().parameters(), s + 1));
    }
  });
  return *std::max_element(worst.begin(), worst.end());
}

parallel::pipeline_options shape_of(const auto& options) {
  return {.micro_batches = options.micro_batches, .ranks = options.ranks};
}

}  // namespace

TEST_CASE("traces: Varuna", "[presets][trace][fast]") {
  const support::trace t{"varuna"};
  const presets::varuna_options o{.micro_batches = 4, .ranks = 3};
  CHECK(replay(t, shape_of(o), [&] { return make(o); }) < 1e-5);
  CHECK(support::orders(stage::varuna{}.make(4, 8).value()) == support::orders(t));
}
