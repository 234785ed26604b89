// SPDX-License-Identifier: Apache-2.0
// Who comes to a run late, or is so slow that it ends late.
#include <causeway/train/member.hpp>

#include <causeway/comm/every_step.hpp>
#include <causeway/comm/periodic.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

#include "support/catch.hpp"
#include "support/elastic.hpp"
#include "support/elastic_end.hpp"
#include "support/quadratic.hpp"

using namespace causeway;
using namespace std::chrono_literals;
using support::all_ended_alike;

namespace {

const auto diloco = [] { return comm::periodic<>{{.local_steps = 3}}; };
const auto every_step = [] { return comm::every_step<>{}; };

}  // namespace

TEST_CASE("member: a newcomer takes part with nothing, and holds what all hold at its first commit", "[train][fast]") {
  support::elastic_options o{.peers = 5, .rounds = 30};
  o.expected = 4;
  support::elastic_cluster cluster{diloco, o};
  for (std::uint32_t i = 0; i < 4; ++i) cluster.boot(i);
  cluster.run(5s);
  cluster.boot(4);
  REQUIRE(cluster.run(10min));
  all_ended_alike(cluster, 5);
  CHECK(cluster.first_contribution(4) > cluster.first_round_as_member(4));
}

TEST_CASE("member: who comes when all is done takes the result from whoever is left", "[train][fast]") {
  for (const std::uint32_t gone : {0U, 1U}) {
    support::elastic_options o{.peers = 3, .rounds = 5};
    o.expected = 2;
    support::elastic_cluster cluster{diloco, o};
    cluster.boot(0);
    cluster.boot(1);
    cluster.run(10min);
    REQUIRE(cluster.finished() == 2);
    cluster.world().kill(gone);
    cluster.boot(2);
    cluster.run(20min);
    REQUIRE(cluster.finished() == 3);
    CHECK(cluster.parameters(2) == cluster.parameters(0));
    CHECK(cluster.steps_of(2) == 0);
  }
}

namespace {

/// What reads its parameters when it is gone reads something else.
struct spoilt_at_its_end : support::quadratic {
  using support::quadratic::quadratic;
  spoilt_at_its_end(spoilt_at_its_end&&) = default;
  spoilt_at_its_end& operator=(spoilt_at_its_end&&) = default;
  ~spoilt_at_its_end() { std::ranges::fill(parameters().values(), -1.0F); }
};

}  // namespace

TEST_CASE("member: whenever a newcomer comes, before or after the others' trainers are gone, it ends as they did",
          "[train][fast]") {
  std::uint32_t late = 0;
  for (duration comes = 500ms; comes < 4500ms; comes += 100ms) {
    INFO("comes after " << seconds(comes) << " s");
    support::elastic_options o{.peers = 3, .rounds = 3, .size = 10'000, .trainer_ends = true};
    o.expected = 2;
    support::elastic_cluster<decltype(every_step), optim::sgd, spoilt_at_its_end> cluster{every_step, o};
    cluster.boot(0);
    cluster.boot(1);
    cluster.run(comes);
    late += cluster.finished() == 2 ? 1 : 0;
    cluster.boot(2);
    REQUIRE(cluster.run(comes + 20s));
    all_ended_alike(cluster, 3);
  }
  CHECK(late > 5);
  CHECK(late < 35);
}

TEST_CASE("member: who missed the last rounds does not wait for time that nobody gives any more", "[train][fast]") {
  support::elastic_options o{.peers = 3, .rounds = 20, .step_time = 1ms, .size = 10'000};
  o.expected = 2;
  const auto ends = [&](std::optional<duration> comes) {
    support::elastic_cluster cluster{every_step, o};
    cluster.boot(0);
    cluster.boot(1);
    if (comes) cluster.run(*comes);
    if (comes) cluster.boot(2);
    REQUIRE(cluster.run(1min) == comes.has_value());
    if (comes) all_ended_alike(cluster, 3);
    return (comes ? cluster.world().now() : cluster.last_commit()).since_start;
  };
  const duration without = ends(std::nullopt);
  for (duration comes = without - 60ms; comes < without; comes += 2ms) {  // rounds are over before a state is fetched
    INFO("comes " << seconds(without - comes) << " s before the end");
    CHECK(ends(comes) < without + 1s);
  }
}

TEST_CASE("member: at the end of a run the others take over what a very slow peer holds, and it ends with their state",
          "[train][fast]") {
  for (const bool local : {true, false}) {
    support::elastic_options o{.peers = 6, .rounds = 5, .step_time = 1s};
    const auto outcome = [&](auto make) {
      support::elastic_cluster cluster{make, o};
      cluster.world().set_speed(4, 0.02);  // 50 s for a step: its first round would take longer than the whole run
      cluster.boot();
      REQUIRE(cluster.run(100s));
      all_ended_alike(cluster, 6);
      CHECK(cluster.steps_of(4) <= 1);
    };
    if (local) outcome(diloco);
    if (!local) outcome(every_step);
  }
}

TEST_CASE("member: of many peers a newcomer has met a few, and fetches the state from others all the same",
          "[train][fast]") {
  support::elastic_options o{.peers = 102, .rounds = 2};
  o.expected = 96;
  support::elastic_cluster cluster{diloco, o};
  for (std::uint32_t i = 0; i < 96; ++i) cluster.boot(i);
  cluster.run(1min);
  REQUIRE(cluster.finished() == 96);
  for (std::uint32_t i = 96; i < 102; ++i) cluster.boot(i);
  cluster.run(2min);
  CHECK(cluster.finished() == 102);
}
