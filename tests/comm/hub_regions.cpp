// SPDX-License-Identifier: Apache-2.0
// Hubs of hubs among peers that come and go: comm/hub_record.hpp with two levels, on the simulator.
#include <causeway/comm/async_parameter_server.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/presets/asynchronous.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "support/catch.hpp"
#include "support/elastic.hpp"
#include "support/regional_run.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t unknown = collective::region_label::any;
using rate = axis::outer<optim::sgd>;

/// Peers in regions, of which some can be killed. What reaches the hub of hubs is a sum: outer SGD with rate 1.
struct regional_run : support::regional_run {
  std::uint32_t pushes = 1000;  ///< more than there are: then regions push in records alone, and nothing stays in one
  float share = 0.25F;

  [[nodiscard]] auto policy() const {
    return [this](std::uint32_t region) {
      return comm::async_parameter_server{axis::every{2}, rate{1.0F},
                                          axis::regions<rate>{.pushes = pushes,
                                                              .upper_share = share,
                                                              .upper = rate{1.0F},
                                                              .label = label(region),
                                                              .record_samples = record_samples}};
    };
  }
  void run() { support::regional_run::run(policy()); }
};

}  // namespace

TEST_CASE("hub regions: every sample counts once", "[comm][fast]") {
  for (const float share : {0.0F, 0.25F, 1.0F}) {
    CAPTURE(share);
    regional_run r;
    r.share = share;
    r.run();
    CHECK(r.all_count(1, 1));
    CHECK(r.records > 5);
    CHECK(r.said("this peer is the hub of region 0") == 1);
    CHECK(r.said("this peer is the hub of region 1") == 1);
    CHECK(r.said("this peer is the hub of all regions") == 1);
  }
}

TEST_CASE("hub regions: peers that do not know their region are divided", "[comm][fast]") {
  regional_run r;
  r.regions = {unknown, unknown, unknown, 2};
  r.fewest = 3;
  r.run();
  CHECK(r.all_count(1, 1));
  for (const auto* region : {"0", "1", "2"}) {
    CHECK(r.said(std::string{"this peer is the hub of region "} + region) == 1);
  }
}

TEST_CASE("hub regions: between records regions push, and nothing counts twice", "[comm][fast]") {
  regional_run often, never;
  often.pushes = 2;
  often.record_samples = 64;
  often.run();
  CHECK(often.all_count(0, 1));  // what a region does while a push of its own is under way stays in it
  CHECK(!often.all_count(1, 1));
  never.record_samples = 64;
  never.run();
  CHECK(never.all_count(1, 1));
}

TEST_CASE("hub regions: newcomers in each record, into a region and into a new one", "[comm][fast]") {
  for (const std::uint32_t region : {1U, 2U, unknown}) {
    for (duration at = 50ms; at < 1500ms; at += 350ms) {
      CAPTURE(region, seconds(at));
      regional_run r;
      r.regions = {0, 0, 1, region};
      r.fewest = 3;
      r.options.expected = 3;
      r.during = [&](support::elastic_run& cluster) {
        cluster.run(at);
        cluster.boot(3);
      };
      r.run();
      CHECK(r.all_count(1, 1));
      CHECK(!r.trained[3].empty());
    }
  }
}

TEST_CASE("hub regions: a whole region is lost, and comes back", "[comm][fast]") {
  for (const bool first : {false, true}) {
    CAPTURE(first);
    const std::vector<std::uint32_t> lost = first ? std::vector<std::uint32_t>{0, 1} : std::vector<std::uint32_t>{3, 4};
    regional_run r;
    r.regions = {0, 0, 1, 2, 2, 1};
    r.fewest = 3;
    r.options.peers = 6;
    r.options.rounds = 6;
    r.during = [&](support::elastic_run& cluster) {
      cluster.run(1020ms);
      for (const std::uint32_t host : lost) cluster.world().kill(host);
      cluster.run(3s);
      for (const std::uint32_t host : lost) cluster.world().restart(host);
    };
    r.run();
    CHECK(r.all_count(1, 1));  // what was pushed in the region died with its hub
    CHECK(r.said("this peer is the hub of region 1") == 1);
    CHECK(r.said(first ? "this peer is the hub of region 0" : "this peer is the hub of region 2") == 2);
    CHECK(r.said("this peer is the hub of all regions") == 2);  // which began anew
  }
}

TEST_CASE("hub regions: the hub of hubs is cut off, and comes back", "[comm][fast]") {
  regional_run r;
  r.options.rounds = 60;
  r.options.steps_per_round = 16;
  r.record_samples = 64;
  r.during = [](support::elastic_run& cluster) {
    cluster.run(1s);
    cluster.world().partition({0}, {1, 2, 3});
    cluster.run(15s);
    cluster.world().heal({0}, {1, 2, 3});
  };
  r.run();
  CHECK(r.all_count(1, 1));
  CHECK(r.said("this peer is the hub of region 0") == 2);
}

TEST_CASE("hub regions: without the hub of hubs regions go on", "[comm][fast]") {
  regional_run r;
  r.pushes = 2;
  r.record_samples = 96;
  r.regions = {0, 1, 1, 1};
  r.options.steps_per_round = 24;
  r.during = [&](support::elastic_run& cluster) {
    cluster.run(2s);
    cluster.world().kill(0);
    cluster.world().after(2s, [&] { cluster.world().restart(0); });
  };
  r.run();
  CHECK(r.said("the hub of all regions is out of reach (peer_lost): this region trains on") == 1);
  CHECK(r.all_count(0, 1));
}

namespace {

/// A hub takes with it what it had; of another what it had pushed stays, and is trained on by somebody else, too.
std::uint64_t dies_at(std::uint32_t victim, std::uint64_t n, std::uint32_t pushes) {
  INFO("peer " << victim << " killed at call " << n << ", pushes up after " << pushes);
  regional_run r;
  r.pushes = pushes;
  r.record_samples = 24;
  r.options.rounds = 3;
  const std::uint64_t calls = r.run_with_death(victim, n, r.policy());
  CHECK(r.all_count(pushes > 2 ? 1 : 0, 2));
  CHECK(r.twice_only({victim}));
  return calls;
}

}  // namespace

TEST_CASE("hub regions: killed at some calls of the network", "[comm][fast]") {
  for (const std::uint32_t victim : {0U, 2U, 3U}) {
    const std::uint64_t calls = dies_at(victim, UINT64_MAX, 1000);
    for (std::uint64_t n = 3; n < calls; n += calls / 5) dies_at(victim, n, n % 2 == 0 ? 2 : 1000);
  }
}

TEST_CASE("hub regions: killed at every call of the network", "[comm][slow][every_call]") {
  for (const std::uint32_t victim : {0U, 2U, 3U}) {
    for (const std::uint32_t pushes : {2U, 1000U}) {
      const std::uint64_t calls = dies_at(victim, UINT64_MAX, pushes);
      for (std::uint64_t n = victim % 2; n < calls; n += 1 + calls / 60) dies_at(victim, n, pushes);
    }
  }
}

TEST_CASE("hub regions: what cannot be is said at start", "[comm][fast]") {
  const auto says = [](presets::halos_options o, std::string_view what) {
    const auto make = [o] { return presets::make(o); };
    support::elastic_cluster<decltype(make)> cluster{make, {.peers = 1}};
    cluster.boot();
    cluster.run(500ms);
    CHECK(cluster.finished() == 0);
    CHECK(cluster.error(0).find(what) != std::string::npos);
  };
  says({}, "`members` name peers by their numbers, but peers come and go");
  says({.regions = {}}, "record_samples is 0, but peers come and go: say how many");
  says({.regions = {}, .label = {.own = 2}, .record_samples = 8}, "says that it is in region 2, but there are 2");
}
