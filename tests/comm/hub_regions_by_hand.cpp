// SPDX-License-Identifier: Apache-2.0
// Records of hubs of hubs, worked out on paper: comm/hub_record.hpp with two levels, on the simulator.
#include <causeway/optim/sgd.hpp>
#include <causeway/presets/asynchronous.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/counting.hpp"
#include "support/elastic.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

/// One peer in each of two regions, which trains alone from record to record: what both ends of an exchange come to, by
/// hand. Delayed Nesterov on both levels.
struct by_hand {
  presets::halos_options o{.regions = {},
                           .local_steps = 1000,  // but in a record
                           .region_learning_rate = 0.5F,
                           .region_momentum = 0.5F,
                           .region_period = 1,
                           .global_learning_rate = 0.25F,
                           .global_momentum = 0.75F,
                           .global_period = 2,
                           .global_share = 0.25F,
                           .record_samples = 16};
  std::size_t size = 128;
  std::vector<double> global = std::vector<double>(size), momentum = global, block = global;
  std::vector<std::vector<double>> region{global, global}, region_momentum{global, global};
  int in_block = 0;

  /// A record of what each has trained on since the last one, as parameters that it has moved.
  void record(const std::vector<std::vector<std::int32_t>>& samples) {
    std::vector<std::vector<double>> before = region;
    for (std::size_t r = 0; r < 2; ++r) {
      if (samples[r].empty()) continue;
      std::vector<double> delta(size);
      for (const std::int32_t t : samples[r]) delta[static_cast<std::size_t>(t)] += 0.05 / 2;
      for (std::size_t i = 0; i < size; ++i) {  // each push is a block
        region_momentum[r][i] = 0.5 * region_momentum[r][i] + delta[i];
        region[r][i] -= 0.5 * (delta[i] + 0.5 * region_momentum[r][i]);
      }
    }
    for (std::size_t r = 0; r < 2; ++r) {
      if (!samples[r].empty()) push_up(before[r], region[r]);
    }
    for (auto& x : region) {
      for (std::size_t i = 0; i < size; ++i) x[i] += 0.25 * (global[i] - x[i]);
    }
  }

 private:
  void push_up(const std::vector<double>& from, const std::vector<double>& to) {
    const bool ends_block = ++in_block == 2;
    if (ends_block) in_block = 0;
    for (std::size_t i = 0; i < size; ++i) {
      const double delta = from[i] - to[i];
      block[i] += delta;
      global[i] -= 0.25 * delta;
      if (!ends_block) continue;
      momentum[i] = 0.75 * momentum[i] + block[i] / 2;
      global[i] -= 0.25 * 2 * 0.75 * momentum[i];
      block[i] = 0;
    }
  }
};

double farthest(std::span<const float> a, const std::vector<double>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < b.size(); ++i) worst = std::max(worst, std::abs(double{a[i]} - b[i]));
  return worst;
}

}  // namespace

TEST_CASE("hub regions: records of HALoS, by hand", "[comm][fast]") {
  by_hand hand;
  struct reign {
    std::vector<std::vector<std::int32_t>> samples{2};
    std::vector<std::vector<float>> begin{2};
  };
  std::map<std::uint64_t, reign> reigns;
  std::vector<std::vector<std::int32_t>> drawn(2);
  support::elastic_options options{.peers = 2, .steps_per_round = 8, .rounds = 4, .size = 128};
  options.watches = [&](std::uint32_t host, std::span<const std::int32_t> tokens, auto) {
    drawn[host].assign(tokens.begin(), tokens.end());
  };
  options.spoils = [&](std::uint32_t host, std::uint64_t round, std::span<const float> parameters) {
    reign& now = reigns[round];
    if (now.samples[host].empty()) now.begin[host].assign(parameters.begin(), parameters.end());
    now.samples[host].insert(now.samples[host].end(), drawn[host].begin(), drawn[host].end());
  };
  support::elastic_run* all = nullptr;
  const auto make = [&](environment env, trainer_options to, std::int64_t size) {
    presets::halos_options o = hand.o;
    o.label.own = all->id(0) == env.group->identity() ? 0 : 1;
    return support::elastic_trainers<optim::sgd, support::counting>([o] { return presets::make(o); })(std::move(env), to,
                                                                                                      size);
  };
  support::elastic_run cluster{make, options};
  all = &cluster;
  cluster.boot();
  REQUIRE(cluster.run(10min));
  for (const auto& [round, r] : reigns) {
    CAPTURE(round);
    for (std::size_t host = 0; host < 2; ++host) {
      if (!r.samples[host].empty()) CHECK(farthest(r.begin[host], hand.region[host]) < 1e-6);
    }
    hand.record(r.samples);
  }
  CHECK(reigns.size() > 5);
  CHECK(farthest(cluster.parameters(0), hand.global) < 1e-6);
  CHECK(cluster.parameters(1) == cluster.parameters(0));
}
