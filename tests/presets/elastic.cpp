// SPDX-License-Identifier: Apache-2.0
// Presets that also work where peers come and go: fault::quorum, on the simulator, every event checked.

#include <causeway/presets/compressed.hpp>
#include <causeway/presets/local_updates.hpp>

#include "support/catch.hpp"
#include "support/elastic.hpp"

using namespace causeway;
using namespace std::chrono_literals;
using presets::make;

namespace {

/// Five peers; one dies around an exchange and comes back, one is cut off for a while; all end alike.
template <class MakePolicy>
void comes_and_goes(MakePolicy policy) {
  for (const auto* point : {"before_ready", "entered", "exchanged", "voted"}) {
    INFO("killed at " << point);
    int passed = 0;
    bool died = false;
    sim::world* world = nullptr;
    support::elastic_options o{.peers = 5, .rounds = 60, .size = 200};
    o.dies_at = [&](std::uint32_t host, std::string_view at) {
      if (host != 2 || died || at != point || ++passed != 3) return false;
      died = true;
      world->after(1s, [&] { world->restart(2); });
      return true;
    };
    support::elastic_cluster cluster{policy, o};
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
  STATIC_REQUIRE(presets::diloco::traits.tolerates == peers::elastic);
  STATIC_REQUIRE(presets::open_diloco::traits.tolerates == peers::elastic);
  STATIC_REQUIRE(presets::intellect1::traits.tolerates == peers::elastic);
  STATIC_REQUIRE(presets::muloco::traits.tolerates == peers::elastic);
  STATIC_REQUIRE(presets::sparse_loco::traits.tolerates == peers::elastic);
  STATIC_REQUIRE(presets::local_sgd::traits.tolerates == peers::elastic);
  STATIC_REQUIRE(presets::power_sgd::traits.tolerates == peers::fixed);
  STATIC_REQUIRE(presets::dedloc::traits.tolerates == peers::fixed);
}

TEST_CASE("presets: DiLoCo among peers that come and go", "[presets][fast]") {
  comes_and_goes([] { return make(presets::diloco_options{.local_steps = 3}); });
  comes_and_goes([] { return make(presets::intellect1_options{.local_steps = 3}); });
}

TEST_CASE("presets: sparse and low-bit rows with error feedback among peers that come and go", "[presets][fast]") {
  comes_and_goes([] { return make(presets::sparse_loco_options{.local_steps = 3, .k = 512}); });
  comes_and_goes([] { return make(presets::muloco_options{.local_steps = 3}); });
}
