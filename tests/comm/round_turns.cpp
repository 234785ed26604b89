// SPDX-License-Identifier: Apache-2.0
// Turns without faults; with faults: tests/presets/elastic.cpp, tests/hunt.

#include <causeway/comm/round_turns.hpp>

#include <causeway/optim/adamw.hpp>
#include <causeway/presets/compressed.hpp>
#include <causeway/presets/local_updates.hpp>
#include <causeway/presets/overlapped.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include "support/blocky.hpp"
#include "support/catch.hpp"
#include "support/cluster.hpp"
#include "support/elastic.hpp"

using namespace causeway;
using namespace std::chrono_literals;
using presets::make;

namespace {

struct step_of_a_peer {
  std::vector<std::int32_t> tokens;
  std::vector<float> parameters;  ///< before it
};
using life = std::vector<step_of_a_peer>;

/// Three peers without faults, in the order in which they joined: that of sums.
template <class M, class Inner, class MakePolicy>
std::vector<life> quiet_run(MakePolicy policy, std::int64_t size) {
  support::elastic_options o{.peers = 3, .steps_per_round = 20, .rounds = 3, .size = size};
  std::vector<life> lives(o.peers);
  o.watches = [&](std::uint32_t host, std::span<const std::int32_t> tokens, std::span<const float> parameters) {
    lives[host].push_back({{tokens.begin(), tokens.end()}, {parameters.begin(), parameters.end()}});
  };
  support::elastic_cluster<MakePolicy, Inner, M> cluster{policy, o};
  cluster.boot();
  REQUIRE(cluster.run(10min));
  REQUIRE(!cluster.violation());
  return lives;
}

float farthest(std::span<const float> a, std::span<const float> b) {
  float most = a.size() == b.size() ? 0.0F : 1e9F;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

/// Without faults a changing set of peers does what a fixed one does with the same samples, bit for bit, up to the last
/// exchange, which is of everything.
template <class M = support::quadratic, class Inner = optim::sgd, class MakePolicy>
void as_if_fixed(MakePolicy policy, std::int64_t size = 37, float tolerance = 0) {
  const std::vector<life> lives = quiet_run<M, Inner>(policy, size);
  const std::size_t steps = lives[0].size() - 12;
  REQUIRE(steps > 40);
  std::vector<std::string> problems(3);
  support::run_cluster(3, [&](std::uint32_t peer, environment env) {
    trainer_options options;
    options.learning_rate = optim::constant{0.05F};
    M model{static_cast<std::conditional_t<std::is_same_v<M, support::blocky>, int, std::int64_t>>(size)};
    auto t = make_trainer(std::move(model), std::move(env), options, policy(), Inner{});
    if (const auto started = t.start(); !started) problems[peer] = started.error().text();
    for (std::size_t i = 0; i < steps && problems[peer].empty(); ++i) {
      const step_of_a_peer& there = lives[peer][i];
      const auto here = t.context().parameters();
      if (farthest(here, there.parameters) > tolerance) {
        problems[peer] = "differs before step " + std::to_string(i);
      }
      const auto report = t.step({there.tokens, there.tokens, static_cast<std::int64_t>(there.tokens.size())});
      if (!report) problems[peer] = report.error().text();
    }
  });
  INFO("of " << lives[0].size() << " steps");
  for (const std::string& problem : problems) CHECK(problem == "");
}

}  // namespace

TEST_CASE("round turns: without faults peers that may come and go do what fixed ones do, bit for bit", "[comm][fast]") {
  as_if_fixed([] { return make(presets::diloco_options{.local_steps = 3}); });
  const auto streaming = [] {
    return make(presets::streaming_diloco_options{.local_steps = 9, .blocks_in_fragment = 2, .overlap_steps = 2});
  };
  as_if_fixed<support::blocky>(streaming, 4);
  const auto chosen = [] {
    return make(presets::cocodc_options{.local_steps = 9, .blocks_in_fragment = 2, .overlap_steps = 2});
  };
  as_if_fixed<support::blocky>(chosen, 4);
  as_if_fixed([] { return make(presets::fedavg_options{.local_steps = 3, .share = 0.5}); });
  as_if_fixed([] { return make(presets::photon_options{.local_steps = 3, .share = 0.5, .outer_momentum = 0.5F}); });
  as_if_fixed([] {
    return make(presets::co_learning_options{.rounds = {.local_steps = 2, .most = 6, .factor = 2, .tolerance = 0.5}});
  });
  as_if_fixed([] { return make(presets::sparse_loco_options{.local_steps = 3, .k = 512}); });
  as_if_fixed([] { return make(presets::demo_options{.k = 32, .momentum = 0.9F}); });
  as_if_fixed<support::blocky>([] { return make(presets::power_sgd_options{.rank = 2}); }, 4);
  as_if_fixed([] { return make(presets::sparta_options{.share = 0.1}); });
  const auto des_loc = [] {
    return make(presets::des_loc_options{.parameters_every = 2, .first_moment_every = 4, .second_moment_every = 6});
  };
  as_if_fixed<support::quadratic, optim::adamw>(des_loc);
}

TEST_CASE("round turns: rows that land a round late do so with a changing set of peers, too", "[comm][fast]") {
  as_if_fixed([] { return comm::rounds{axis::every{3}, axis::one_round_late{}, axis::gather_mean<>{}}; });
  as_if_fixed([] {
    presets::distro_options o;
    o.momentum = 0.9F;
    return make(o);
  });
  // The early part goes another way: equal up to rounding.
  as_if_fixed([] { return make(presets::eager_diloco_options{.local_steps = 3, .outer_momentum = 0.5F}); }, 37, 1e-4F);
}
