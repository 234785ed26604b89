// SPDX-License-Identifier: Apache-2.0
// What a step takes after a loss, on virtual time: blocks take exactly what they are said to take.
#include <causeway/parallel/elastic_pipeline.hpp>

#include <causeway/stage/recovery_reroute.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "parallel/elastic/timed_pipelines.hpp"
#include "support/catch.hpp"

namespace causeway {
namespace {

constexpr std::uint32_t hosts = 9;
constexpr std::int64_t stages = 3, micro_batches = 9;
constexpr std::uint64_t steps = 8, lost_after = 3;
constexpr double unit = 0.1;  // seconds of a forward, and of each half of a backward, through a stage

struct timed_step {
  double seconds = 0;
  stage::layout layout;
  std::vector<float> parameters;  // of block 0, where it is held
};

/// Three pipelines of three; one peer of the second stage dies. The last step, as a peer of another stage sees it.
template <class Recovery>
timed_step last_step(const Recovery& recovery) {
  timed_step last;
  bool killed = false;
  const auto live = [&](sim::world& world, sim::process& p, auto& t, net::peer_id id, const double&) {
    const std::vector<std::int32_t> tokens(micro_batches, 1);
    time_point before = p.now();
    while (t.context().step() < steps) {
      const auto* assignment = t.parallel().layout().find(id);
      if (t.context().step() == lost_after && assignment->computes.first == 1 && !std::exchange(killed, true)) {
        world.after(std::chrono::milliseconds{500}, [&world, h = p.host()] { world.kill(h); });
      }
      before = p.now();
      const auto report = t.step({tokens, tokens, micro_batches});
      if (!report) throw std::runtime_error{report.error().text()};
    }
    const auto* assignment = t.parallel().layout().find(id);
    if (assignment != nullptr && assignment->computes.first == 0) {
      const double took = seconds(p.now() - before);
      if (took > last.seconds) last = {took, t.parallel().layout(), {}};
      last.parameters.assign(t.context().parameters().begin(), t.context().parameters().end());
    }
  };
  support::run_timed_pipelines({hosts, hosts - 1, stages, micro_batches, unit}, recovery, live);
  REQUIRE(killed);
  return last;
}

}  // namespace

TEST_CASE("elastic pipelines in time: rerouting takes what its order says, and less than a pipeline less",
          "[parallel][elastic][fast]") {
  const stage::recovery::reroute policy{stages};
  const timed_step rerouted = last_step(policy), dropped = last_step(stage::recovery::regroup{stages});
  REQUIRE(rerouted.layout.assigned().size() == hosts - 1);
  REQUIRE(dropped.layout.assigned().size() == 6);
  const double figure = policy.seconds(rerouted.layout).value() * unit;
  const double two_pipelines = 3 * (5 + stages - 1) * unit;  // of which one has five micro-batches
  INFO("rerouted " << rerouted.seconds << " s, by its order " << figure << " s; two pipelines " << dropped.seconds
                   << " s, by theory " << two_pipelines << " s");
  CHECK(rerouted.seconds >= figure);
  CHECK(rerouted.seconds <= figure * 1.02);
  CHECK(dropped.seconds >= two_pipelines);
  CHECK(dropped.seconds <= two_pipelines * 1.02);
  CHECK(rerouted.seconds < 0.9 * dropped.seconds);
  CHECK(rerouted.parameters.size() == dropped.parameters.size());
  for (std::size_t i = 0; i < rerouted.parameters.size(); ++i) {
    CHECK(rerouted.parameters[i] == Approx(dropped.parameters[i]).margin(1e-6));
  }
}

}  // namespace causeway
