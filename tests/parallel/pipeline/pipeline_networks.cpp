// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/pipeline.hpp>

#include <causeway/comm/every_step.hpp>
#include <causeway/compress/block_int8.hpp>

#include <cstdint>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/other_networks.hpp"
#include "support/pipeline_runs.hpp"

// Two pipelines of two stages on every kind of network, stopped anywhere, and broken anywhere. One type of trainer: it
// takes long to compile.
namespace causeway::parallel {
namespace {

using codec = stage::coded<compress::block_int8>;
using policy = pipeline<stage::opportunistic<stage::one_f_one_b>, codec>;

constexpr support::pipeline_case shape{.ranks = 2, .replicas = 2, .micro_batches = 2, .sequences = 4, .steps = 3};

auto make_peer(environment env) {
  auto o = support::small_gpt(2);
  o.tie = true;
  return support::stage_trainer(o, shape, std::move(env), comm::every_step<>{},
                                [](const pipeline_options& po) { return policy{po}; });
}

const support::pipeline_runs runs{&make_peer, shape};

}  // namespace

TEST_CASE("pipelines: the same bits in memory, over TCP, and on slow, jittery, lossy lines", "[parallel][fast]") {
  const auto memory = runs.run();
  for (const auto& h : memory) REQUIRE(h.finished);

  auto tcp = memory;
  support::run_over_tcp(runs.peers(), [&](std::uint32_t p, environment env) {
    tcp[p] = runs.run_peer(std::move(env), nullptr, shape.steps);
  });
  support::same_end(memory, tcp);

  auto simulated = memory;
  const std::vector<double> speeds(runs.peers(), 1.0);
  support::run_simulated(speeds, 3, [&](std::uint32_t p, environment env, sim::process&) {
    simulated[p] = runs.run_peer(std::move(env), nullptr, shape.steps);
  });
  support::same_end(memory, simulated);
}

TEST_CASE("pipelines: stopped after any step, saved and loaded, they go on with the same bits", "[parallel][fast]") {
  runs.check_stops();
}

TEST_CASE("pipelines: lost at any network operation, all peers come back, and go on from a common step",
          "[parallel][fast]") {
  for (const std::uint32_t victim : {0U, 3U}) runs.check_losses(victim, 3);
}

}  // namespace causeway::parallel
