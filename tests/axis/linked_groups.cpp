// SPDX-License-Identifier: Apache-2.0
#include <causeway/axis/linked_groups.hpp>

#include <causeway/axis/content.hpp>
#include <causeway/axis/exchange.hpp>
#include <causeway/comm/rounds.hpp>
#include <causeway/optim/sgd.hpp>

#include <cmath>
#include <limits>
#include <vector>

#include "support/simulated_runs.hpp"

using namespace causeway;

namespace {

using group = std::vector<net::peer_index>;

group of(const auto& groups, std::uint64_t number, net::peer_index self, std::uint32_t peers) {
  return groups.members({.seed = 5, .number = number, .self = self, .peers = peers});
}

/// Peers below half of them are near each other, and so are the others; between the two halves it is far.
std::vector<double> two_places(std::uint32_t peers) {
  std::vector<double> costs;
  for (std::uint32_t i = 0; i < peers; ++i) {
    for (std::uint32_t j = 0; j < peers; ++j) costs.push_back((i < peers / 2) == (j < peers / 2) ? 1 : 100);
  }
  return costs;
}

}  // namespace

TEST_CASE("linked groups: all peers agree on who is in which", "[axis][fast]") {
  const axis::linked_groups groups{.size = 3, .costs = two_places(10), .explore = 0.3};
  for (std::uint64_t number = 0; number < 50; ++number) {
    std::size_t members = 0;
    for (net::peer_index p = 0; p < 10; ++p) {
      const group mine = of(groups, number, p, 10);
      CHECK((mine.size() == 3 || mine.size() == 4));
      CHECK(std::is_sorted(mine.begin(), mine.end()));
      REQUIRE(std::find(mine.begin(), mine.end(), p) != mine.end());
      for (const net::peer_index q : mine) CHECK(of(groups, number, q, 10) == mine);
      members += mine.front() == p ? mine.size() : 0;
    }
    CHECK(members == 10);
  }
}

TEST_CASE("linked groups: without costs, and with equal ones, they are random groups", "[axis][fast]") {
  for (std::uint64_t number = 0; number < 20; ++number) {
    const group random = of(axis::random_groups{2}, number, 4, 9);
    CHECK(of(axis::linked_groups{}, number, 4, 9) == random);
    CHECK(of(axis::linked_groups{.costs = std::vector<double>(81, 2.0)}, number, 4, 9).size() == random.size());
  }
}

TEST_CASE("linked groups: what was measured counts in place of what was given", "[axis][fast]") {
  const std::vector<double> measured = two_places(8), alike(64, 1.0);
  const axis::linked_groups given{.costs = measured, .explore = 0.1}, none{.explore = 0.1},
      other{.costs = alike, .explore = 0.1};
  for (std::uint64_t number = 0; number < 50; ++number) {
    for (net::peer_index p = 0; p < 8; ++p) {
      axis::group_question q{.seed = 5, .number = number, .self = p, .peers = 8};
      const group by_given = given.members(q);
      q.link_costs = measured;
      CHECK(none.members(q) == by_given);
      CHECK(other.members(q) == by_given);
    }
  }
}

TEST_CASE("linked groups: far links are used as often as exploring says, and all values mix", "[axis][fast]") {
  const axis::linked_groups groups{.costs = two_places(8), .explore = 0.1};
  constexpr std::uint64_t exchanges = 400;
  std::vector<double> x{8, 7, 6, 5, 4, 3, 2, 1};
  int far = 0, all = 0;
  for (std::uint64_t number = 0; number < exchanges; ++number) {
    for (net::peer_index p = 0; p < 8; ++p) {
      const group pair = of(groups, number, p, 8);
      if (pair[0] != p) continue;
      ++all;
      far += pair[0] < 4 && pair[1] >= 4 ? 1 : 0;
      x[pair[0]] = x[pair[1]] = (x[pair[0]] + x[pair[1]]) / 2;
    }
  }
  // Random pairs would be far in 4 of 7 cases.
  CHECK(far > 0.02 * all);
  CHECK(far < 0.15 * all);
  for (const double v : x) CHECK(v == Approx(4.5).margin(1e-3));
}

TEST_CASE("linked groups: the worst link of a group counts, in either direction", "[axis][fast]") {
  // 0 reaches 1 cheaply, but not the other way round; 2 is between.
  constexpr double no = std::numeric_limits<double>::infinity();
  std::vector<double> costs(16, 5.0);
  costs[0 * 4 + 1] = 1, costs[1 * 4 + 0] = no;
  costs[2 * 4 + 3] = costs[3 * 4 + 2] = no;
  const axis::linked_groups groups{.costs = costs, .explore = 1e-9};
  for (std::uint64_t number = 0; number < 20; ++number) CHECK(of(groups, number, 0, 4) != group{0, 1});
}

TEST_CASE("linked groups: options that cannot work are refused", "[axis][fast]") {
  CHECK(axis::linked_groups{}.check(5));
  CHECK(axis::linked_groups{.costs = two_places(4)}.check(4));
  CHECK_FALSE(axis::linked_groups{.costs = two_places(4)}.check(5));
  CHECK_FALSE(axis::linked_groups{.costs = {0, -1, 1, 0}}.check(2));
  CHECK_FALSE(axis::linked_groups{.costs = {0, std::nan(""), 1, 0}}.check(2));
  CHECK_FALSE(axis::linked_groups{.explore = 0}.check(4));
  CHECK_FALSE(axis::linked_groups{.size = 1}.check(4));
}

TEST_CASE("linked groups: peers in two places wait less than in random pairs", "[axis][fast]") {
  // 400 ms lie between the places.
  const auto trained = [](std::vector<double> costs) {
    const auto make = [costs] {
      return comm::rounds{axis::every{1}, axis::linked_groups{.costs = costs, .explore = 0.05}, axis::parameters{},
                          axis::gather_mean<>{}};
    };
    support::simulated_runs<optim::sgd, support::blocky, decltype(make)> runs{
        make, {.peers = 4, .steps = 20, .latency = std::chrono::milliseconds{1}, .regions = {0, 0, 1, 1}}};
    const auto run = runs.run();
    support::all_alike(run);
    return seconds(run.peers[0].trained - run.peers[0].began);
  };
  CHECK(trained(two_places(4)) < 0.5 * trained({}));
}
