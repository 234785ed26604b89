// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/elastic/cohort_rows.hpp>

#include <causeway/parallel/elastic/cohorts.hpp>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using parallel::cohort_member;

namespace {

constexpr std::uint64_t state = 7, cohort = 100;

/// Peers 1, 2, 3 of a pipeline of three stages, two blocks each, of which each keeps the next one's, and the second the
/// first one's.
struct three_stages {
  three_stages() {
    g.layers = 6;
    g.micro_batches = 4;
    add(1, {0, 2}, {0, 4});
    add(2, {2, 4}, {0, 6});
    add(3, {4, 6}, {4, 6});
  }
  void add(std::uint64_t id, nn::block_range computes, nn::block_range keeps) {
    stage::present_peer p;
    p.id = id;
    p.computes = computes;
    p.holds = {keeps};
    g.peers.push_back(p);
    members.push_back({.state = state, .cohort = cohort, .steps = 2, .slots = 1, .share = 4, .taken_in = 50});
    members.back().keeps = parallel::as_kept(p.holds);
  }
  std::vector<stage::assignment> row_of(const std::vector<std::size_t>& places, bool keeps_work = false) const {
    return parallel::whole_row(g, members, places, keeps_work);
  }

  stage::cluster_snapshot g;
  std::vector<cohort_member> members;
};

std::vector<std::uint64_t> peers_of(const std::vector<stage::assignment>& row) {
  std::vector<std::uint64_t> peers;
  for (const stage::assignment& s : row) peers.push_back(s.peer);
  return peers;
}

}  // namespace

TEST_CASE("cohort rows: all of a replica's peers go on with their stages", "[parallel]") {
  const three_stages all;
  const auto row = all.row_of({2, 0, 1});
  CHECK(peers_of(row) == std::vector<std::uint64_t>{1, 2, 3});
  CHECK(row[1].computes == nn::block_range{2, 4});
  CHECK(row[1].keeps == std::vector{nn::block_range{0, 6}});
  CHECK(row[2].keeps.empty());  // nothing but its own
}

TEST_CASE("cohort rows: who keeps a lost peer's stage computes it, too", "[parallel]") {
  const three_stages all;
  auto row = all.row_of({1, 2});
  REQUIRE(peers_of(row) == std::vector<std::uint64_t>{2, 3});
  CHECK(row[0].computes == nn::block_range{0, 4});
  row = all.row_of({0, 2});
  REQUIRE(peers_of(row) == std::vector<std::uint64_t>{1, 3});
  CHECK(row[0].computes == nn::block_range{0, 4});
  row = all.row_of({1});
  REQUIRE(peers_of(row) == std::vector<std::uint64_t>{2});
  CHECK(row[0].computes == nn::block_range{0, 6});
  CHECK(all.row_of({0}).empty());  // the third stage is gone with the second
  CHECK(all.row_of({2}).empty());
}

TEST_CASE("cohort rows: who comes back is left out of steps that were made without it", "[parallel]") {
  three_stages all;
  all.g.peers[0].computes = {0, 4};  // since the second was lost
  CHECK(peers_of(all.row_of({0, 1, 2})) == std::vector<std::uint64_t>{1, 3});
  for (const std::size_t p : {0U, 2U}) all.members[p].steps = 3, all.members[p].taken_in = 51;
  CHECK(peers_of(all.row_of({0, 1, 2})) == std::vector<std::uint64_t>{1, 3});
  all.members[1].complete_in = 52;  // of an attempt that came to nothing
  CHECK(peers_of(all.row_of({0, 1, 2})) == std::vector<std::uint64_t>{1, 3});
  all.members[1].steps = 4;  // it alone took that step
  CHECK(peers_of(all.row_of({0, 1, 2})) == std::vector<std::uint64_t>{2});
  all.members[1].keeps = {nn::block_range{2, 6}};
  CHECK(peers_of(all.row_of({0, 1, 2})) == std::vector<std::uint64_t>{1, 3});
}

TEST_CASE("cohort rows: who has the gradient of a step that others took goes on with them", "[parallel]") {
  three_stages all;
  all.g.peers[0].computes = {0, 4};
  all.members[2].steps = 3, all.members[2].taken_in = 60;
  CHECK(all.row_of({0, 2}).empty() == false);  // as they are: their stages are all there
  all.members[0].complete_in = 60;
  CHECK(peers_of(all.row_of({0, 1, 2})) == std::vector<std::uint64_t>{1, 3});
}

TEST_CASE("cohort rows: where work is kept a lost peer's stage stays one, and has nobody", "[parallel]") {
  three_stages all;
  all.g.peers[1].holds = {{2, 6}};
  all.g.peers[2].holds = {{0, 2}, {4, 6}};  // the last keeps the first's
  for (const std::size_t p : {1U, 2U}) all.members[p].keeps = parallel::as_kept(all.g.peers[p].holds);
  CHECK(peers_of(all.row_of({0, 1, 2}, true)) == std::vector<std::uint64_t>{1, 2, 3});
  const std::vector<std::uint64_t> without[] = {{0, 2, 3}, {1, 0, 3}, {1, 2, 0}};
  for (std::size_t lost = 0; lost < 3; ++lost) {
    CAPTURE(lost);
    const auto row = all.row_of({(lost + 1) % 3, (lost + 2) % 3}, true);
    REQUIRE(peers_of(row) == without[lost]);
    for (std::size_t s = 0; s < 3; ++s) CHECK(row[s].computes == all.g.peers[s].computes);
    CHECK(row[(lost + 1) % 3].keeps == all.g.peers[(lost + 1) % 3].holds);
    CHECK(all.row_of({lost}, true).empty());
  }
  all.members[1].steps = 1;  // it missed a step that the others made without it
  CHECK(peers_of(all.row_of({0, 1, 2}, true)) == without[1]);
  all.members[1].complete_in = 50;
  CHECK(peers_of(all.row_of({0, 1, 2}, true)) == std::vector<std::uint64_t>{1, 2, 3});

  stage::layout l;
  l.replicas.push_back({{{1, {0, 2}, {{0, 4}}}, {stage::nobody, {2, 4}}}, 4});
  CHECK(parallel::all_holders(l).peers == std::vector<std::uint64_t>{1});
  for (const auto& block : parallel::holders_of_blocks(l)) {
    CHECK(block.members == std::vector<net::peer_index>{0});
    CHECK(block.shares == std::vector<double>{1.0});  // its shadow's row counts
  }
}

TEST_CASE("cohort rows: rows of single blocks go to and from their holders", "[parallel]") {
  stage::layout l;
  l.replicas.push_back({{{1, {0, 2}, {{0, 4}}}, {2, {2, 4}, {{0, 4}}}}, 3});
  l.replicas.push_back({{{3, {0, 3}}, {4, {3, 4}}}, 1});
  l.replicas.push_back({{}, 2});  // nobody is in that slot
  const auto all = parallel::all_holders(l);
  CHECK(all.peers == std::vector<std::uint64_t>{1, 2, 3, 4});
  CHECK(all.shares == std::vector<double>{0.75, 0.75, 0.25, 0.25});
  CHECK(parallel::replicas_of_holders(l) == std::vector<std::uint32_t>{0, 0, 1, 1});
  const auto blocks = parallel::holders_of_blocks(l);
  REQUIRE(blocks.size() == 4);
  for (std::size_t b = 0; b < 4; ++b) {
    CAPTURE(b);
    CHECK(blocks[b].members == std::vector<net::peer_index>{0, 1, b < 3 ? 2U : 3U});
    CHECK(std::accumulate(blocks[b].shares.begin(), blocks[b].shares.end(), 0.0) == 1);
    CHECK(blocks[b].weight_of(b < 2 ? 0 : 1) == 2.25F);
    CHECK(blocks[b].weight_of(b < 2 ? 1 : 0) == 0);  // it keeps the block, and only takes the mean
    CHECK(blocks[b].weight_of(b < 3 ? 3 : 2) == 0);  // it has nothing of it
  }
}

TEST_CASE("cohort rows: a table of both ends is one more, which the first puts in", "[parallel]") {
  stage::layout l;
  l.replicas.push_back({{{1, {0, 2}}, {2, {2, 4}, {{2, 6}}}, {3, {4, 6}}}, 3});
  l.replicas.push_back({{{4, {0, 3}}, {5, {3, 6}}}, 1});
  const auto rows = parallel::holders_of_blocks(l, true);
  REQUIRE(rows.size() == 7);
  const auto blocks = parallel::holders_of_blocks(l);
  for (std::size_t b = 0; b < 6; ++b) CHECK(rows[b].members == blocks[b].members);
  CHECK(rows[6].members == std::vector<net::peer_index>{0, 1, 2, 3, 4});  // also who keeps an end
  CHECK(rows[6].shares == std::vector<double>{0.75, 0, 0, 0.25, 0});
}
