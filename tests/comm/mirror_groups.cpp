// SPDX-License-Identifier: Apache-2.0
// Groups of mirrors among peers that come and go: comm/elastic_mirrors.hpp with hubs, on the simulator.
#include <causeway/comm/mirrors.hpp>
#include <causeway/optim/sgd.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/elastic.hpp"
#include "support/regional_run.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t unknown = collective::region_label::any;
using codec = compress::sparse<compress::no_transform, compress::significant, compress::none>;
constexpr float everything = 1e-9F, nothing = 1e6F;  // that is told, as thresholds

/// Peers in groups, of which some can be killed.
struct grouped_run : support::regional_run {
  float threshold = everything;
  std::uint32_t most_ahead = 2;

  [[nodiscard]] auto policy() const {
    return [this](std::uint32_t group) {
      return comm::mirrors<codec>{{.most_ahead = most_ahead, .label = label(group), .record_samples = record_samples},
                                  codec{compress::no_transform{}, compress::significant{{.first = threshold}}}};
    };
  }
  void run() { support::regional_run::run(policy()); }
};

}  // namespace

TEST_CASE("mirror groups: every sample counts once, told or not", "[comm][fast]") {
  for (const float threshold : {everything, 0.3F, nothing}) {
    CAPTURE(threshold);
    grouped_run r;
    r.threshold = threshold;
    r.run();
    CHECK(r.all_count(1, 1));
    CHECK(r.records > 5);
    CHECK(r.said("this peer is the hub of a group of 2") == 2);
  }
}

TEST_CASE("mirror groups: less is sent than by everybody to everybody, and the same run is the same", "[comm][fast]") {
  grouped_run grouped, again, whole;
  whole.regions = {unknown, unknown, unknown, unknown};
  whole.fewest = 1;
  for (grouped_run* r : {&grouped, &again, &whole}) r->run();
  CHECK(grouped.bytes < whole.bytes);
  CHECK(whole.said("this peer is the hub") == 0);
  CHECK(grouped.lines == again.lines);
  CHECK(grouped.bytes == again.bytes);
}

TEST_CASE("mirror groups: peers that do not know their group are divided", "[comm][fast]") {
  grouped_run r;
  r.regions = {unknown, unknown, unknown, 2};
  r.fewest = 3;
  r.run();
  CHECK(r.all_count(1, 1));
  CHECK(r.said("this peer is the hub of a group of") == 3);
}

TEST_CASE("mirror groups: newcomers in each record, into a group and into a new one", "[comm][fast]") {
  for (const std::uint32_t group : {1U, 2U, unknown}) {
    for (duration at = 50ms; at < 1500ms; at += 350ms) {
      CAPTURE(group, seconds(at));
      grouped_run r;
      r.regions = {0, 0, 1, group};
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

TEST_CASE("mirror groups: who was cut off moves along what nobody has counted", "[comm][fast]") {
  for (const std::uint32_t host : {1U, 2U, 3U}) {  // the last is a hub
    for (duration at = 1s; at < 1500ms; at += 110ms) {
      CAPTURE(host, seconds(at));
      grouped_run r;
      r.options.steps_per_round = 16;
      r.record_samples = 64;
      std::vector<std::uint32_t> others{0, 1, 2, 3};
      std::erase(others, host);
      r.during = [&](support::elastic_run& cluster) {
        cluster.run(at);
        cluster.world().partition({host}, others);
        cluster.run(at + 1600ms);
        cluster.world().heal({host}, others);
      };
      r.run();
      CHECK(r.all_count(1, 1));
    }
  }
}

TEST_CASE("mirror groups: what a lost hub told its group counts, what it passed on counts for the others", "[comm][fast]") {
  grouped_run r;
  r.options.steps_per_round = 16;
  r.record_samples = 96;
  r.during = [&](support::elastic_run& cluster) {
    cluster.run(1800ms);
    cluster.world().kill(3);
    cluster.world().after(1s, [&] { cluster.world().restart(3); });
  };
  r.run();
  CHECK(r.all_count(1, 2));
  CHECK(r.counted_twice() > 4);  // its samples were drawn by others, too
  CHECK(r.twice_only({3}));
  CHECK(r.said("this peer is the hub of a group of 1") == 1);
}

TEST_CASE("mirror groups: a hub that has no samples passes on what others tell", "[comm][fast]") {
  // It has taken its steps in an eighth of the others' time, and rests until the record.
  grouped_run r;
  r.options.steps_per_round = 16;
  r.record_samples = 120;
  r.most_ahead = 100;
  r.during = [](support::elastic_run& cluster) { cluster.world().set_speed(3, 8); };
  std::ptrdiff_t unknown_to_it = 0;  // samples of the first group, to the other peer of that hub's
  r.options.spoils = [&](std::uint32_t host, std::uint64_t round, std::span<const float> parameters) {
    if (host != 2 || round < 2) return;  // nobody talks before the first record
    std::ptrdiff_t missing = 0;
    for (const std::uint32_t other : {0U, 1U}) {
      const auto& all = r.trained[other];
      missing += std::count_if(all.begin(), all.end(),
                               [&](std::int32_t t) { return parameters[static_cast<std::size_t>(t)] == 0; });
    }
    unknown_to_it = std::max(unknown_to_it, missing);
  };
  r.run();
  CHECK(r.all_count(1, 1));
  CHECK(unknown_to_it <= 12);  // of the last three steps
}

TEST_CASE("mirror groups: a whole group is lost, and comes back", "[comm][fast]") {
  for (const bool first : {false, true}) {
    CAPTURE(first);
    const std::vector<std::uint32_t> lost = first ? std::vector<std::uint32_t>{0, 1} : std::vector<std::uint32_t>{3, 4};
    grouped_run r;
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
    CHECK(r.all_count(1, 1));  // what it computed since the record is gone: who is left has heard it mixed with others'
  }
}

TEST_CASE("mirror groups: all are started again from their disks", "[comm][fast]") {
  grouped_run r;
  r.during = [&](support::elastic_run& cluster) {
    cluster.run(1200ms);
    for (std::uint32_t host = 0; host < 4; ++host) cluster.world().kill(host);
    for (std::uint32_t host = 0; host < 4; ++host) {
      cluster.world().after(1s + host * 10ms, [&cluster, host] { cluster.world().restart(host); });
    }
  };
  r.run();
  CHECK(r.all_count(1, 1));
  CHECK(r.said("this peer is the hub of a group of 2") == 4);
}

namespace {

/// A peer takes with it what nobody of its group had heard; the rest stays, and is trained on by somebody else, too.
std::uint64_t lost_at(std::uint32_t victim, std::uint64_t n, float threshold) {
  INFO("peer " << victim << " killed at call " << n << ", threshold " << threshold);
  grouped_run r;
  r.threshold = threshold;
  r.record_samples = 24;
  r.options.rounds = 3;
  const std::uint64_t calls = r.run_with_death(victim, n, r.policy());
  CHECK(r.all_count(1, threshold == nothing ? 1 : 2));
  CHECK(r.twice_only({victim}));
  return calls;
}

}  // namespace

TEST_CASE("mirror groups: killed at some calls of the network", "[comm][fast]") {
  for (const std::uint32_t victim : {0U, 2U, 3U}) {
    const std::uint64_t calls = lost_at(victim, UINT64_MAX, everything);
    for (std::uint64_t n = 3; n < calls; n += calls / 5) lost_at(victim, n, n % 2 == 0 ? everything : nothing);
  }
}

TEST_CASE("mirror groups: killed at every call of the network", "[comm][slow][every_call]") {
  for (const std::uint32_t victim : {0U, 2U, 3U}) {
    for (const float threshold : {everything, nothing}) {
      const std::uint64_t calls = lost_at(victim, UINT64_MAX, threshold);
      for (std::uint64_t n = victim % 2; n < calls; n += 1 + calls / 120) lost_at(victim, n, threshold);
    }
  }
}
