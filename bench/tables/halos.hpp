// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_BENCH_TABLES_HALOS_HPP
#define CAUSEWAY_BENCH_TABLES_HALOS_HPP

// S8: how many local steps a second peers in several regions get done, by DiLoCo, asynchronous local SGD and HALoS (arXiv
// 2506.04531). Timing rules, link table, speeds and settings are those of the authors' simulator
// (github.com/utnslab/halos, examples/): a transfer takes bytes over bandwidth, whatever else is under way; a peer with a
// server alternates between computing and two transfers; a round of DiLoCo takes the slowest peer and a ring over the
// slowest link of the best ring. With these rules nothing queues, so that rates need no events. What a step is worth, that
// is convergence, is not in here: the published figures are times to equal loss, ours are steps.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "regions.hpp"
#include "report.hpp"

namespace tables {

struct geo_run {
  region_network net;
  std::vector<std::vector<double>> speeds;  // of each region's peers; the fastest computes a step in step_s
  double step_s = 0.238391;                 // Pythia-70M, batch 64
  double gbit = 70'426'624 * 32e-9;         // its parameters, f32

  [[nodiscard]] double fastest() const {
    double most = 0;
    for (const auto& region : speeds) most = std::max(most, *std::max_element(region.begin(), region.end()));
    return most;
  }
};

/// One peer of a run: its region, and its speed relative to the fastest.
template <class F>
void for_each_peer(const geo_run& run, F&& f) {
  for (std::size_t r = 0; r < run.speeds.size(); ++r) {
    for (const double s : run.speeds[r]) f(r, s / run.fastest());
  }
}

/// Steps between two exchanges of a peer: fewer for slow ones, so that all take about as long.
inline double rescaled(double steps, double speed) { return std::max(1.0, std::ceil(steps * speed)); }

inline double diloco_steps_per_s(const geo_run& run, double steps, bool rescale) {
  double slowest = 0, done = 0, peers = 0;
  for_each_peer(run, [&](std::size_t, double speed) {
    const double own = rescale ? rescaled(steps, speed) : steps;
    slowest = std::max(slowest, own * run.step_s / speed);
    done += own;
    ++peers;
  });
  const double exchange = 2 * (peers - 1) / peers * run.gbit / run.net.ring_gbit_s();
  return done / (slowest + exchange);
}

/// Every peer with a server of its own choice: `server(region)` is the region where it is.
template <class Server>
double server_steps_per_s(const geo_run& run, double steps, const Server& server) {
  double rate = 0;
  for_each_peer(run, [&](std::size_t region, double speed) {
    const double own = rescaled(steps, speed);
    const double transfer = run.gbit / run.net.between(region, server(region));
    rate += own / (own * run.step_s / speed + 2 * transfer);
  });
  return rate;
}

inline double async_steps_per_s(const geo_run& run, double steps) {
  return server_steps_per_s(run, steps, [](std::size_t) { return std::size_t{0}; });
}
inline double halos_steps_per_s(const geo_run& run, double steps) {
  return server_steps_per_s(run, steps, [](std::size_t region) { return region; });
}

struct halos_ratios {
  double over_sync;
  double over_async;
};

inline halos_ratios print_geo_run(const geo_run& run) {
  const double sync = diloco_steps_per_s(run, 32, false);
  const double adapted = diloco_steps_per_s(run, 32, true);
  const double async = async_steps_per_s(run, 32);
  const double halos = halos_steps_per_s(run, 8);
  std::printf("    local steps/s: DiLoCo %.2f, DiLoCo with steps by speed %.2f, async %.2f, HALoS %.2f\n", sync, adapted,
              async, halos);
  return {halos / sync, halos / async};
}

inline void halos(report& out, const causeway::sim::link_table& world) {
  geo_run paper{
      {4, {100, 0.537, 0.935, 0.202, 0.537, 100, 0.386, 0.117, 0.935, 0.386, 100, 0.127, 0.202, 0.117, 0.127, 100}},
      {{0.232, 0.907, 0.828, 0.347},
       {0.574, 0.531, 0.722, 0.194},
       {0.852, 0.132, 0.896, 0.107},
       {0.827, 0.515, 0.527, 0.788}}};
  geo_run ten{network_of(world), {}};
  for (std::size_t r = 0; r < ten.net.regions; ++r) ten.speeds.push_back(paper.speeds[r % 4]);

  out.section("S8", "HALoS (arXiv 2506.04531): local steps a second, HALoS over the others");
  out.heading("the authors' 4 regions, 16 peers; published: time to equal loss, at most");
  const halos_ratios r = print_geo_run(paper);
  out.compare("over DiLoCo", 7.5, r.over_sync, 0.05, "x");
  out.compare("over asynchronous local SGD", 2.1, r.over_async, 0.05, "x");
  out.heading("the ten regions of world.csv, 40 peers, the authors' speeds (derived)");
  const halos_ratios w = print_geo_run(ten);
  out.compare("over DiLoCo", 7.5, w.over_sync, 0.05, "x");
  out.compare("over asynchronous local SGD", 2.1, w.over_async, 0.05, "x");
  out.claim(r.over_sync > 7.0 && r.over_sync < 8.5, "steps alone give 7 to 8.5x over DiLoCo on the authors' links");
  out.claim(r.over_async > 1.6 && r.over_async < 2.1, "steps alone give 1.6 to 2.1x over asynchronous local SGD");
}

}  // namespace tables

#endif  // CAUSEWAY_BENCH_TABLES_HALOS_HPP
