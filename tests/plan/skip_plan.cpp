// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/skip_plan.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "plan/skip_cases.hpp"
#include "support/catch.hpp"
#include "support/traced_runs.hpp"

using namespace causeway;
using namespace causeway::plan;

namespace {

/// `stages` of `replicas` peers, all alike: forwards of 1 s, backwards of 2 s, ways of `way`.
skip_task equal_task(std::size_t stages, std::size_t replicas, std::size_t passes, std::size_t groups_of_peer, double way) {
  skip_task task;
  std::uint32_t peers = 0;
  for (std::size_t s = 0; s < stages; ++s) {
    auto& stage = task.stages.emplace_back();
    for (std::size_t r = 0; r < replicas; ++r) stage.push_back(peers++);
  }
  task.passes = passes;
  task.groups_of_peer = task.room = groups_of_peer;
  task.peers.assign(peers, {1, 1, 1, 0});
  task.ways.assign(peers, std::vector<double>(peers, way));
  return task;
}

void check_paths(const skip_task& task, const skip_plan& plan, std::size_t most_in_stage) {
  REQUIRE(plan.paths.size() == task.groups());
  std::map<std::uint32_t, std::size_t> at_peer;
  std::vector<std::size_t> at_stage(task.stages.size(), 0);
  for (std::size_t g = 0; g < plan.paths.size(); ++g) {
    const auto& path = plan.paths[g];
    REQUIRE(path.size() == task.stages.size());
    CHECK(path[0] == task.first_peer(g));
    CHECK(path.back() != left_out);
    for (std::size_t s = 0; s < path.size(); ++s) {
      if (path[s] == left_out) continue;
      const auto& peers = task.stages[s];
      CHECK(std::count(peers.begin(), peers.end(), path[s]) == 1);
      ++at_peer[path[s]];
      ++at_stage[s];
    }
    CHECK(static_cast<std::size_t>(std::count(path.begin(), path.end(), left_out)) == path.size() - task.passes);
  }
  for (std::size_t s = 1; s + 1 < at_stage.size(); ++s) CHECK(at_stage[s] <= most_in_stage);
  for (const auto& [peer, groups] : at_peer) CHECK(groups <= task.room);
}

}  // namespace

TEST_CASE("traces: SkipPipe's plans have the least slowest group", "[plan][trace][fast]") {
  const support::trace t{"skippipe_paths"};
  int cases = 0;
  for (const std::string kind : {"plan", "ring"}) {
    for (int c = 0; t.has("sizes " + kind + " " + std::to_string(c)); ++c, ++cases) {
      const std::string name = kind + " " + std::to_string(c);
      INFO(name);
      const skip_task task = support::skip_case(t, name);
      for (const auto& [minded, key] :
           {std::pair{skip_conflicts::stages, "stages "}, std::pair{skip_conflicts::peers, "peers "},
            std::pair{skip_conflicts::times, "times "}}) {
        const auto plan = least_slowest(task, minded, 100000);
        REQUIRE(plan);
        CHECK(plan->slowest == Approx(t.numbers(key + name)[0]).epsilon(1e-6));
      }
    }
  }
  CHECK(cases == 7);
}

TEST_CASE("a plan of skips leaves every middle stage out equally often, within the room of its peers", "[plan][fast]") {
  // 6 stages of 3 peers, each micro-batch leaves 2 out: 9 groups x 2 of 4 middle stages.
  skip_task task = equal_task(6, 3, 4, 3, 0.25);
  for (std::uint32_t p = 0; p < task.peers.size(); ++p) task.peers[p].forward = 1 + 0.1 * (p % 5);
  const auto plan = plan_skips(task, {.looks = 400});
  REQUIRE(plan);
  check_paths(task, *plan, 5);
  CHECK(plan->seconds == Approx(seconds_of(task, plan->paths, 9)));
}

TEST_CASE("leaving a third of the stages out makes a step shorter by about as much", "[plan][fast]") {
  const skip_task all = equal_task(6, 2, 6, 4, 0), some = equal_task(6, 2, 4, 4, 0);
  const auto whole = plan_skips(all, {.micro_batches = 32, .looks = 200});
  const auto skips = plan_skips(some, {.micro_batches = 32, .looks = 200});
  REQUIRE(whole);
  REQUIRE(skips);
  check_paths(all, *whole, 8);
  // The first and the last stage have all 16 micro-batches of each of their peers: nothing is shorter than that.
  CHECK(skips->seconds >= 16 * 3);
  CHECK(skips->seconds < whole->seconds);
}

TEST_CASE("paths keep clear of a slow link", "[plan][fast]") {
  // Two peers a stage; what is near has ways of 0.1 s, the others take 5 s.
  skip_task task = equal_task(4, 2, 3, 2, 5);
  for (std::uint32_t a = 0; a < 8; ++a) {
    for (std::uint32_t b = 0; b < 8; ++b) {
      if (a % 2 == b % 2) task.ways[a][b] = 0.1;
    }
  }
  const auto plan = plan_skips(task, {.looks = 500});
  REQUIRE(plan);
  for (const auto& path : plan->paths) {
    for (const std::uint32_t p : path) CHECK((p == left_out || p % 2 == path[0] % 2));
  }
  CHECK(plan->free_of_conflicts > 0);
}

TEST_CASE("the same task gives the same plan; one that cannot be is refused", "[plan][fast]") {
  const skip_task task = equal_task(5, 2, 4, 2, 0.3);
  const auto one = plan_skips(task, {.looks = 100}), two = plan_skips(task, {.looks = 100});
  REQUIRE(one);
  CHECK(one->paths == two->paths);
  CHECK(one->seconds == two->seconds);
  skip_task full = task;
  full.most_in_stage = 1;  // 4 groups pass 2 of 3 middle stages
  const auto refused = plan_skips(full);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::not_found);
}
