// SPDX-License-Identifier: Apache-2.0
// Presets that also work where peers come and go: fault::quorum, on the simulator, every event checked.

#include <causeway/presets/compressed.hpp>
#include <causeway/presets/local_updates.hpp>
#include <causeway/presets/overlapped.hpp>

#include <algorithm>
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

/// Five peers; one dies around an exchange and comes back, one is cut off for a while; all end alike.
template <class M = support::quadratic, class Inner = optim::sgd, class MakePolicy>
void comes_and_goes(MakePolicy policy, std::int64_t size = 200) {
  for (const auto* point : {"before_ready", "entered", "exchanged", "voted"}) {
    INFO("killed at " << point);
    int passed = 0;
    bool died = false;
    sim::world* world = nullptr;
    support::elastic_options o{.peers = 5, .rounds = 60, .size = size};
    o.dies_at = [&](std::uint32_t host, std::string_view at) {
      if (host != 2 || died || at != point || ++passed != 3) return false;
      died = true;
      world->after(1s, [&] { world->restart(2); });
      return true;
    };
    support::elastic_cluster<MakePolicy, Inner, M> cluster{policy, o};
    world = &cluster.world();
    cluster.boot();
    cluster.run(2s);
    world->partition({4}, {0, 1, 2, 3});
    cluster.run(4s);
    world->heal({4}, {0, 1, 2, 3});
    cluster.run(10min);
    INFO(cluster.violation().value_or("no violation"));
    REQUIRE(!cluster.violation());
    REQUIRE(cluster.finished() == 5);
    CHECK(died);
    CHECK(world->now() > time_point{6s});  // all of that happened before the end
    CHECK(cluster.checker().samples().done() == cluster.budget());
    for (std::uint32_t i = 1; i < 5; ++i) {
      const bool same = cluster.parameters(i) == cluster.parameters(0);
      CHECK(same);
    }
  }
}

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

/// Without faults a changing set of peers does what a fixed one does with the same samples, bit for bit, up to the last
/// exchange, which is of everything.
template <class M = support::quadratic, class Inner = optim::sgd, class MakePolicy>
void as_if_fixed(MakePolicy policy, std::int64_t size = 37) {
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
      if (!std::equal(here.begin(), here.end(), there.parameters.begin(), there.parameters.end())) {
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

TEST_CASE("presets: which of them tolerate peers that come and go", "[presets][fast]") {
  STATIC_REQUIRE(presets::power_sgd::traits.tolerates == peers::fixed);
  STATIC_REQUIRE(presets::dedloc::traits.tolerates == peers::fixed);
  STATIC_REQUIRE(presets::eager_diloco::traits.tolerates == peers::fixed);
}

TEST_CASE("presets: DiLoCo among peers that come and go", "[presets][fast]") {
  comes_and_goes([] { return make(presets::diloco_options{.local_steps = 3}); });
  comes_and_goes([] { return make(presets::intellect1_options{.local_steps = 3}); });
}

TEST_CASE("presets: sparse and low-bit rows with error feedback among peers that come and go", "[presets][fast]") {
  comes_and_goes([] { return make(presets::sparse_loco_options{.local_steps = 3, .k = 512}); });
  comes_and_goes([] { return make(presets::muloco_options{.local_steps = 3}); });
}

TEST_CASE("presets: fragments that overlap with training among peers that come and go", "[presets][fast]") {
  const auto streaming = [] {
    return make(presets::streaming_diloco_options{.local_steps = 6, .blocks_in_fragment = 2, .overlap_steps = 1});
  };
  comes_and_goes<support::blocky>(streaming, 4);
  const auto far = [] {
    return make(presets::streaming_diloco_options{.local_steps = 6, .blocks_in_fragment = 2, .overlap_steps = 5});
  };
  comes_and_goes<support::blocky>(far, 4);  // the next fragment is due before the last one has landed
  const auto chosen = [] {
    return make(presets::cocodc_options{.local_steps = 6, .blocks_in_fragment = 2, .overlap_steps = 2});
  };
  comes_and_goes<support::blocky>(chosen, 4);
}

TEST_CASE("presets: rounds that grow, and peers that are drawn, among peers that come and go", "[presets][fast]") {
  comes_and_goes([] {
    return make(presets::co_learning_options{.rounds = {.local_steps = 2, .most = 3, .factor = 2, .tolerance = 0.05}});
  });
  comes_and_goes([] { return make(presets::fedavg_options{.local_steps = 3, .share = 0.5}); });
  comes_and_goes([] { return make(presets::photon_options{.local_steps = 3, .share = 0.5, .outer_momentum = 0.5F}); });
}

TEST_CASE("presets: gradients with momentum of their own among peers that come and go", "[presets][fast]") {
  comes_and_goes([] { return make(presets::demo_options{.k = 32, .momentum = 0.9F}); });
}

TEST_CASE("presets: means of parameters among peers that come and go", "[presets][fast]") {
  comes_and_goes([] { return make(presets::sparta_options{.share = 0.1}); });
  const auto des_loc = [] {
    return make(presets::des_loc_options{.parameters_every = 2, .first_moment_every = 4, .second_moment_every = 6});
  };
  comes_and_goes<support::quadratic, optim::adamw>(des_loc);
}

TEST_CASE("presets: without faults peers that may come and go do what fixed ones do, bit for bit", "[presets][fast]") {
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
  as_if_fixed([] { return make(presets::sparta_options{.share = 0.1}); });
  const auto des_loc = [] {
    return make(presets::des_loc_options{.parameters_every = 2, .first_moment_every = 4, .second_moment_every = 6});
  };
  as_if_fixed<support::quadratic, optim::adamw>(des_loc);
}
