// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/step_estimate.hpp>

#include <causeway/core/rng.hpp>
#include <causeway/plan/schedules.hpp>
#include <causeway/plan/timeline.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using plan::link_matrix;
using plan::placement;
using plan::step_work;

namespace {

link_matrix random_links(rng& draw, std::size_t n) {
  link_matrix m{n};
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < i; ++j) m.set_both(i, j, {0.3 * double(draw.uniform()), 4 + 20 * double(draw.uniform())});
  }
  return m;
}

step_work random_work(rng& draw, std::size_t stages) {
  step_work w;
  for (std::size_t s = 0; s < stages; ++s) {
    w.forward.push_back(0.2 + double(draw.uniform()));
    w.backward.push_back(0.4 + 2 * double(draw.uniform()));
    w.gradient_bytes.push_back(double(draw.uniform()));
  }
  w.message_bytes = double(draw.uniform());
  w.micro_batches = 1 + draw.below(9);
  return w;
}

std::vector<double> random_speeds(rng& draw, std::size_t n) {
  std::vector<double> speeds(n);
  for (double& s : speeds) s = 0.5 + double(draw.uniform());
  return speeds;
}

/// The same replica in the event simulator.
double simulated(const link_matrix& links, const placement& where, const std::vector<double>& speeds, const step_work& w,
                 std::size_t replica, bool free_links) {
  plan::stage_costs costs;
  for (std::size_t s = 0; s < where.stages(); ++s) {
    const double speed = speeds[where.device(s, replica)];
    costs.stages.push_back({w.forward[s] / speed, w.backward[s] / speed, 0, 0});
    if (s + 1 == where.stages()) break;
    const auto& l = links(where.device(s, replica), where.device(s + 1, replica));
    costs.edges.push_back(free_links ? plan::edge_cost{}
                                     : plan::edge_cost{l.delay, w.message_bytes, w.message_bytes, l.bandwidth / 8});
  }
  const auto order = plan::gpipe(std::uint32_t(where.stages()), std::uint32_t(w.micro_batches));
  REQUIRE(order);
  const auto t = plan::timeline_of(*order, costs);
  REQUIRE(t);
  return t->makespan;
}

}  // namespace

TEST_CASE("a step is what the event simulator makes of the slowest replica, and the slowest average", "[plan][fast]") {
  rng draw{61};
  for (int round = 0; round < 60; ++round) {
    const std::size_t stages = 1 + draw.below(5), replicas = 1 + draw.below(3), n = stages * replicas;
    const link_matrix links = random_links(draw, n);
    const placement where = plan::placed_at_random({replicas, stages}, n, draw);
    const step_work w = random_work(draw, stages);
    const std::vector<double> speeds = random_speeds(draw, n);
    const plan::step_estimate e = plan::estimate_step(links, where, speeds, w);
    double slowest = 0, average = 0;
    for (std::size_t r = 0; r < replicas; ++r) slowest = std::max(slowest, simulated(links, where, speeds, w, r, false));
    for (std::size_t s = 0; s < stages; ++s) {
      average =
          std::max(average, plan::data_parallel_seconds(links, where.group(s), {replicas, stages, w.gradient_bytes[s], 0}));
    }
    REQUIRE(e.averaging == Approx(average));
    REQUIRE(e.total() == Approx(slowest + average));
    REQUIRE(e.compute + e.bubble == Approx(simulated(links, where, speeds, w, e.replica, true)));
    REQUIRE(e.activations >= -1e-12);
    REQUIRE(e.bubble >= -1e-12);
  }
}

TEST_CASE("swaps make the step shorter and keep every device in one place", "[plan][fast]") {
  rng draw{67};
  for (int round = 0; round < 20; ++round) {
    const link_matrix links = random_links(draw, 9);
    const step_work w = random_work(draw, 4);
    const std::vector<double> speeds = random_speeds(draw, 9);
    placement where = plan::placed_at_random({2, 4}, 9, draw);
    const double before = plan::estimate_step(links, where, speeds, w).total();
    const plan::step_estimate after = plan::refine_by_swaps(links, where, speeds, w, 10000);
    REQUIRE(after.total() <= before);
    REQUIRE(after.total() == plan::estimate_step(links, where, speeds, w).total());
    std::vector<std::size_t> sorted = where.devices;
    std::sort(sorted.begin(), sorted.end());
    REQUIRE(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end());
    // No single swap would help further.
    for (std::size_t a = 0; a < 8; ++a) {
      for (std::size_t b = a + 1; b < 8; ++b) {
        placement other = where;
        std::swap(other.devices[a], other.devices[b]);
        REQUIRE(plan::estimate_step(links, other, speeds, w).total() >= after.total() * (1 - 1e-8));
      }
    }
  }
}
