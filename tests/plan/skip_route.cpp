// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/skip_route.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "plan/skip_cases.hpp"
#include "support/catch.hpp"
#include "support/traced_runs.hpp"

using namespace causeway;
using namespace causeway::plan;

namespace {

/// Peer 0, then one or two in each middle stage, then the last: forwards of 1 s, backwards of 2 s, ways of `way`.
skip_task small(std::vector<std::size_t> sizes, std::size_t passes, double way = 0) {
  skip_task task;
  std::uint32_t peers = 0;
  for (const std::size_t size : sizes) {
    auto& stage = task.stages.emplace_back();
    for (std::size_t i = 0; i < size; ++i) stage.push_back(peers++);
  }
  task.passes = passes;
  task.peers.assign(peers, {1, 1, 1, 0});
  task.ways.assign(peers, std::vector<double>(peers, way));
  return task;
}

skip_limits none_of(const skip_task& task) { return {std::vector<char>(task.peers.size(), 0), {}}; }

}  // namespace

TEST_CASE("a route past nobody takes its passes and its ways", "[plan][fast]") {
  skip_task task = small({1, 1, 1, 1}, 3, 0.5);
  task.peers[2].forward = 4;  // the other one is quicker
  const auto route = quickest_route(task, 0, none_of(task));
  REQUIRE(route);
  CHECK(route->peers == std::vector<std::uint32_t>{0, 1, 3});
  CHECK(route->seconds == Approx(3 * 3 + 4 * 0.5));
  CHECK(route->visits.size() == 6);
}

TEST_CASE("a route waits for who occupies a peer, if no other is quicker than waiting", "[plan][fast]") {
  const skip_task task = small({1, 2, 1}, 3);
  skip_limits limits = none_of(task);
  limits.occupied = {{1, 0, 1.25}, {2, 1.5, 5}};  // peer 1 is free 0.25 s after the group is there
  const auto route = quickest_route(task, 0, limits);
  REQUIRE(route);
  CHECK(route->peers[1] == 1);
  CHECK(route->visits[1].start == Approx(1.25));
  CHECK(route->seconds == Approx(9.25));
  limits.occupied.push_back({1, 5, 7});  // its backward would be there from 5.25
  const auto later = quickest_route(task, 0, limits);
  REQUIRE(later);
  CHECK(later->seconds == Approx(11));
  limits.banned[1] = 1;
  const auto other = quickest_route(task, 0, limits);
  REQUIRE(other);
  CHECK(other->peers[1] == 2);
  CHECK(other->seconds == Approx(13));
  limits.banned[2] = 1;
  CHECK_FALSE(quickest_route(task, 0, limits));
}

TEST_CASE("groups of a peer begin one after another", "[plan][fast]") {
  skip_task task = small({2, 1, 1}, 3);
  task.groups_of_peer = task.room = 3;
  task.peers[1].forward = 2;
  CHECK(task.groups() == 6);
  CHECK(task.begins(2) == 2.0);
  CHECK(task.begins(5) == 4.0);
  CHECK(task.first_peer(5) == 1);
}

TEST_CASE("a task that is none says why", "[plan][fast]") {
  const skip_task good = small({1, 1, 1, 1}, 3);
  REQUIRE(check(good));
  const auto refuses = [&](auto&& spoil, const char* what) {
    skip_task bad = good;
    spoil(bad);
    const auto checked = check(bad);
    REQUIRE_FALSE(checked);
    CHECK(checked.error().code == errc::invalid_argument);
    CHECK(checked.error().message.find(what) != std::string::npos);
  };
  refuses([](skip_task& t) { t.stages.resize(2); }, "three or more");
  refuses([](skip_task& t) { t.passes = 2; }, "3 to 4");
  refuses([](skip_task& t) { t.passes = 5; }, "3 to 4");
  refuses([](skip_task& t) { t.groups_of_peer = 2; }, "room for");
  refuses([](skip_task& t) { t.stages[1] = {}; }, "needs a peer");
  refuses([](skip_task& t) { t.stages[1] = {3}; }, "serves one stage");
  refuses([](skip_task& t) { t.peers[1].forward = -1; }, "finite");
  refuses([](skip_task& t) { t.ways[2][1] = std::numeric_limits<double>::infinity(); }, "every row");
  refuses([](skip_task& t) { t.ways.pop_back(); }, "has a row");
  refuses(
      [](skip_task& t) {
        t.stages[0] = {0, 1}, t.stages[1] = {2}, t.stages[2] = {3}, t.stages.pop_back();
      },
      "cannot hold all groups");
}

TEST_CASE("traces: SkipPipe's quickest routes past what is occupied", "[plan][trace][fast]") {
  const support::trace t{"skippipe_paths"};
  int cases = 0;
  for (; t.has("sizes route " + std::to_string(cases)); ++cases) {
    const std::string name = "route " + std::to_string(cases);
    const skip_task task = support::skip_case(t, name);
    skip_limits limits = none_of(task);
    const auto& banned = t.numbers("banned " + name);
    for (std::size_t p = 0; p < banned.size(); ++p) limits.banned[p] = banned[p] != 0 ? 1 : 0;
    const auto& occupied = t.numbers("occupied " + name);
    for (std::size_t i = 0; i < occupied.size(); i += 3)
      limits.occupied.push_back(
          {static_cast<std::uint32_t>(occupied[i]), double{occupied[i + 1]}, double{occupied[i + 2]}});
    const auto route = quickest_route(task, 0, limits);
    REQUIRE(route);
    CHECK(route->seconds == Approx(t.numbers("seconds " + name)[0]).epsilon(1e-6));
  }
  CHECK(cases == 6);
}
