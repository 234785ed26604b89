// SPDX-License-Identifier: Apache-2.0
// Presets that also work where peers come and go: fault::quorum, on the simulator, every event checked.

#include <causeway/presets/compressed.hpp>
#include <causeway/presets/gossip.hpp>
#include <causeway/presets/local_updates.hpp>
#include <causeway/presets/modular.hpp>
#include <causeway/presets/overlapped.hpp>

#include "support/blocky.hpp"
#include "support/catch.hpp"
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

}  // namespace

TEST_CASE("presets: which of them tolerate peers that come and go", "[presets][fast]") {
  STATIC_REQUIRE(presets::dedloc::traits.tolerates == peers::fixed);
  STATIC_REQUIRE(presets::cocktail_sgd::traits.tolerates == peers::fixed);
  STATIC_REQUIRE(presets::dipaco::traits.tolerates == peers::fixed);
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
  comes_and_goes<support::blocky>([] { return make(presets::power_sgd_options{.rank = 2}); }, 4);
}

TEST_CASE("presets: means of parameters among peers that come and go", "[presets][fast]") {
  comes_and_goes([] { return make(presets::sparta_options{.share = 0.1}); });
  const auto des_loc = [] {
    return make(presets::des_loc_options{.parameters_every = 2, .first_moment_every = 4, .second_moment_every = 6});
  };
  comes_and_goes<support::quadratic, optim::adamw>(des_loc);
}

TEST_CASE("presets: results that come a round late among peers that come and go", "[presets][fast]") {
  comes_and_goes([] { return make(presets::eager_diloco_options{.local_steps = 3, .outer_momentum = 0.5F}); });
  comes_and_goes([] {
    presets::distro_options o;
    o.momentum = 0.9F;
    return make(o);
  });
}

TEST_CASE("presets: gossip among peers that come and go", "[presets][fast]") {
  comes_and_goes([] { return make(presets::noloco_options{.local_steps = 3}); });
  comes_and_goes([] { return make(presets::moshpit_sgd_options{.local_steps = 3, .side = 3, .dimensions = 2}); });
  comes_and_goes<support::blocky>([] { return make(presets::bacombo_options{.local_steps = 3, .segments = 2}); }, 4);
}
