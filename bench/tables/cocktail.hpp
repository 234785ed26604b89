// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_BENCH_TABLES_COCKTAIL_HPP
#define CAUSEWAY_BENCH_TABLES_COCKTAIL_HPP

// S9: how much longer CocktailSGD's step takes on lines of 500 Mbit/s than on a network that costs nothing. The exchange is
// real: presets::cocktail_sgd among four peers on the simulator, one step late, with its own messages. Its model has half a
// million parameters and stands for one of 1.3 or 6 billion: lines are as much slower as it is smaller. Published: four
// workers of two A100 each (ICML 2023), 16 sequences of 2,048 tokens a worker and step (the authors' scripts). Derived: the
// step itself, from 6 operations a parameter and token at 40 % of 312 Tflop/s; a latency of 1 ms. Nothing here costs what
// selecting and encoding does: at these sizes that is a device's work, and its time is not known to us.

#include <causeway/optim/sgd.hpp>
#include <causeway/presets/compressed.hpp>
#include <causeway/presets/local_updates.hpp>
#include <causeway/sim/world.hpp>
#include <causeway/train/trainer.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <utility>
#include <vector>

#include "report.hpp"
#include "support/shaped.hpp"

namespace tables {

struct fine_tuning {
  const char* model;
  double parameters;
  double bits_per_s = 5e8;  ///< of a worker's line; 0: it costs nothing
  bool computes = true;     ///< else a step is an exchange alone

  [[nodiscard]] double compute_s() const {
    constexpr double tokens = 16 * 2048, devices = 2, peak = 312e12, utilisation = 0.4;
    return 6 * parameters * tokens / (devices * peak * utilisation);
  }
};

/// Seconds of a step in its stride, mean over six; `make()` gives the policy.
template <class MakePolicy>
double simulated_step(const fine_tuning& run, MakePolicy make) {
  using namespace causeway;
  constexpr std::uint32_t peers = 4;
  constexpr std::uint64_t lead = 3, steps = 6;
  const double scale = static_cast<double>(support::shaped{2}.parameters().values().size()) / run.parameters;
  const double bytes_per_s = run.bits_per_s > 0 ? run.bits_per_s / 8 * scale : sim::unlimited;
  const auto compute = duration{run.computes ? static_cast<std::int64_t>(run.compute_s() * 1e9) : 0};
  sim::world_options options;
  options.link.latency = std::chrono::milliseconds{1};
  sim::world world{options};
  std::vector<sim::host_index> hosts;
  for (std::uint32_t p = 0; p < peers; ++p) {
    hosts.push_back(world.add_host({.up_bytes_per_s = bytes_per_s, .down_bytes_per_s = bytes_per_s}));
  }
  double slowest = 0;
  const auto checked = [](const auto& outcome) {
    if (!outcome) throw std::runtime_error{outcome.error().text()};
  };
  for (const auto host : hosts) {
    world.boot(host, [&](sim::process& process) {
      auto transport = process.make_transport(hosts);
      checked(transport);
      environment env;
      env.transport = net::any_transport{std::move(*transport)};
      env.clock = process.clock();
      trainer_options o;
      o.clip_norm = 0;
      o.hash_every = 0;
      auto t = make_trainer(support::test_model{support::shaped{2}}, std::move(env), o, make(), optim::sgd{});
      checked(t.start());
      time_point began{};
      for (std::uint64_t s = 0; s < lead + steps; ++s) {
        if (s == lead) began = process.now();
        process.compute(compute);
        const auto tokens = support::tokens_of(process.host(), s);
        checked(t.step({tokens, tokens, 1}));
      }
      slowest = std::max(slowest, seconds(process.now() - began) / static_cast<double>(steps));
      checked(t.finish());
    });
  }
  if (!world.run()) throw std::runtime_error{"some peer waits for ever"};
  return slowest;
}

inline void cocktail(report& out) {
  out.section("S9", "CocktailSGD (ICML 2023) on lines of 500 Mbit/s, published: about 1.2 times a data centre's step");
  std::printf("    %-10s %10s %22s %22s %22s\n", "", "computing", "exchange alone, step", "the same with 117x",
              "f32 in every step");
  double most = 0;
  for (const auto& [model, parameters] : {std::pair{"OPT-1.3B", 1.3e9}, {"GPT-J-6B", 6e9}}) {
    const auto exchange = [] { return make(causeway::presets::cocktail_sgd_options{}); };
    const fine_tuning free{model, parameters, 0};
    const double base = simulated_step(free, exchange);
    std::printf("    %-10s %8.2f s", model, base);
    for (const double bits_per_s : {5e8, 5e8 * 117 / 201}) {  // the second: as if messages were as long as the paper's
      const double alone = simulated_step({model, parameters, bits_per_s, false}, exchange);
      const double step = simulated_step({model, parameters, bits_per_s}, exchange);
      std::printf(" %6.2f s, %5.2f s %4.2fx", alone, step, step / base);
      most = std::max(most, step / base);
    }
    const double whole = simulated_step({model, parameters}, [] { return causeway::presets::every_step{}; });
    std::printf(" %12.1f s %5.1fx\n", whole, whole / base);
  }
  out.compare("the most", 1.2, most, 0.1, "x");
}

}  // namespace tables

#endif  // CAUSEWAY_BENCH_TABLES_COCKTAIL_HPP
