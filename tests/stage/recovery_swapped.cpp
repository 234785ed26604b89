// SPDX-License-Identifier: Apache-2.0
#include <causeway/stage/recovery_swapped.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "stage/cluster_snapshots.hpp"
#include "support/catch.hpp"

namespace causeway {

using stage::recovery::swapped_neighbours;

namespace {

// The ends, and `stages` stages of two blocks, each on a peer of its own: peer s + 1 has stage s. Those of `lost` are gone.
stage::cluster_snapshot without(std::int64_t stages, const std::vector<std::int64_t>& lost) {
  const std::int64_t layers = 2 * stages + 1;
  std::vector<stage::present_peer> peers;
  for (std::int64_t s = 0; s <= stages; ++s) {
    if (std::find(lost.begin(), lost.end(), s) != lost.end()) continue;
    const nn::block_range r = s == 0 ? nn::block_range{0, 1} : nn::block_range{2 * s - 1, 2 * s + 1};
    peers.push_back({static_cast<std::uint64_t>(s) + 1, {r}, 0, r});
  }
  return snapshot_of(layers, 4, std::move(peers));
}

using origins = std::vector<std::pair<std::int64_t, std::int64_t>>;  // of each block that is made up

origins made(const stage::cluster_snapshot& g, std::int64_t stages) {
  origins all;
  std::int64_t block = -1;
  for (const auto& m : swapped_neighbours{{.stages = stages}}.made_up(g)) {
    CHECK(m.block > block);
    CHECK_FALSE(g.somebody_holds(m.block));
    block = m.block;
    all.emplace_back(m.before, m.behind);
  }
  return all;
}

bool waits(const stage::cluster_snapshot& g, std::int64_t stages) {
  return stage::lost_for_good(g, swapped_neighbours{{.stages = stages}}.made_up(g)).size() > 0;
}

}  // namespace

TEST_CASE("swapped_neighbours: pipelines of the ends and even stages, as many as there are peers for", "[stage][fast]") {
  const auto l = swapped_neighbours{}.arrange(newcomers(9, 5, 11));
  REQUIRE(l);
  REQUIRE(l->check(9, 5));
  REQUIRE(l->replicas.size() == 2);
  for (const auto& r : l->replicas) {
    CHECK(r.ring);
    std::vector<nn::block_range> row;
    for (const auto& a : r.assignments) row.push_back(a.computes);
    CHECK((row == std::vector<nn::block_range>{{0, 1}, {1, 3}, {3, 5}, {5, 7}, {7, 9}}));
  }
  CHECK(l->replicas[0].micro_batches == 3);
  CHECK(swapped_neighbours{}.arrange(newcomers(9, 5, 4)).error().code == errc::out_of_memory);
  CHECK(swapped_neighbours{{.stages = 3}}.arrange(newcomers(9, 5, 11)).error().code == errc::invalid_argument);
  CHECK(swapped_neighbours{{.stages = 9}}.arrange(newcomers(9, 5, 11)).error().code == errc::invalid_argument);
  CHECK(swapped_neighbours{{.stages = 8}}.arrange(newcomers(9, 5, 9)));
}

TEST_CASE("swapped_neighbours: a spare peer takes the stage that was lost, the others stay", "[stage][fast]") {
  auto before = without(4, {});
  const auto l = swapped_neighbours{}.arrange(before);
  REQUIRE(l);
  for (std::uint64_t s = 0; s < 5; ++s) CHECK(l->replicas[0].assignments[s].peer == s + 1);
  auto g = without(4, {4});
  g.peers.push_back({.id = 9, .holds = {}});
  const auto after = swapped_neighbours{}.arrange(g);
  REQUIRE(after);
  for (std::uint64_t s = 0; s < 5; ++s) CHECK(after->replicas[0].assignments[s].peer == (s < 4 ? s + 1 : 9));
}

TEST_CASE("swapped_neighbours: stages that swap are made up from each other", "[stage][fast]") {
  CHECK((made(without(6, {1}), 6) == origins{{3, 3}, {4, 4}}));
  CHECK((made(without(6, {2}), 6) == origins{{1, 1}, {2, 2}}));
  CHECK((made(without(6, {6}), 6) == origins{{9, 9}, {10, 10}}));
  CHECK((made(without(6, {5}), 6) == origins{{11, 11}, {12, 12}}));
  CHECK((made(without(4, {2, 3}), 4) == origins{{1, 1}, {2, 2}, {7, 7}, {8, 8}}));  // one of each pair
  for (const auto& m : swapped_neighbours{}.made_up(without(4, {1}))) CHECK(m.share == 1);
  for (std::int64_t s = 1; s <= 6; ++s) CHECK_FALSE(waits(without(6, {s}), 6));
}

TEST_CASE("swapped_neighbours: those between are the mean of those beside, by their gradients", "[stage][fast]") {
  auto g = without(6, {3});
  g.peers[2].squares = {1, 2};  // of stage 2
  g.peers[3].squares = {8, 1};  // of stage 4
  const auto all = swapped_neighbours{{.stages = 6}}.made_up(g);
  REQUIRE(all.size() == 2);
  CHECK(all[0].share == 0.25F);
  CHECK((made(g, 6) == origins{{3, 7}, {4, 8}}));
  CHECK((made(without(6, {3, 4}), 6) == origins{{3, 9}, {4, 10}, {3, 9}, {4, 10}}));
  CHECK((made(without(6, {2, 3}), 6) == origins{{1, 1}, {2, 2}, {1, 7}, {2, 8}}));
  auto clipped = swapped_neighbours{{.stages = 6, .weights = stage::neighbour_weights::clipped_norms}}.made_up(g);
  CHECK(clipped[0].share == 0.5F);  // both are above 1
}

TEST_CASE("swapped_neighbours: both of a pair, or the ends, cannot be made up", "[stage][fast]") {
  CHECK(waits(without(6, {1, 2}), 6));
  CHECK(waits(without(6, {5, 6}), 6));
  CHECK(waits(without(6, {0}), 6));
  CHECK(waits(without(6, {1, 2, 3}), 6));
  CHECK(waits(without(5, {2, 3, 4, 5}), 5));  // the first of these could be made up, the others not
  CHECK_FALSE(waits(without(6, {}), 6));
}

TEST_CASE("swapped_neighbours: peers that make up alike agree, others do not", "[stage][fast]") {
  const auto of = [](const stage::neighbour_options& o) { return swapped_neighbours{o}.agreement(); };
  CHECK(of({.stages = 4}) == swapped_neighbours{}.agreement());
  CHECK(of({.stages = 5}) != of({.stages = 4}));
  CHECK(of({.stages = 4, .rate_factor = 1.2F}) != of({.stages = 4}));
  CHECK(of({.stages = 4, .weights = stage::neighbour_weights::clipped_norms}) != of({.stages = 4}));
}

}  // namespace causeway
