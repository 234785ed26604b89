// SPDX-License-Identifier: Apache-2.0
// Which ranges of blocks are exchanged among whom, and who gets what they came to besides.
#include <causeway/parallel/elastic/block_segments.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using namespace causeway::parallel;
using blocks = nn::block_range;
using peers = std::vector<std::uint64_t>;

TEST_CASE("block segments: of pipelines that are cut alike they are the stages", "[parallel][elastic][fast]") {
  const stage::layout l{{{{{1, {0, 2}}, {2, {2, 6}}}, 3}, {{{3, {0, 2}}, {4, {2, 6}}}, 1}}};
  const auto all = segments_of(l, 6);
  REQUIRE(all.size() == 2);
  CHECK(all[0].blocks == blocks{0, 2});
  CHECK(all[0].computers.peers == peers{1, 3});
  CHECK(all[0].computers.shares == std::vector<double>{0.75, 0.25});
  CHECK(all[1].blocks == blocks{2, 6});
  CHECK(all[1].computers.peers == peers{2, 4});
  CHECK(all[1].is_computed_by(4));
  CHECK_FALSE(all[1].is_computed_by(1));
  for (std::size_t r = 0; r < 2; ++r) CHECK(kept_runs(l, r, 6, false).empty());
}

TEST_CASE("block segments: pipelines of different cut have those ranges that none of them cuts",
          "[parallel][elastic][fast]") {
  const stage::layout l{{{{{1, {0, 3}}, {2, {3, 6}}}, 1}, {{{3, {0, 2}}, {4, {2, 4}}, {5, {4, 6}}}, 1}}};
  const auto all = segments_of(l, 6);
  const std::vector<std::pair<blocks, peers>> wanted{
      {{0, 2}, {1, 3}}, {{2, 3}, {1, 4}}, {{3, 4}, {2, 4}}, {{4, 6}, {2, 5}}};
  REQUIRE(all.size() == wanted.size());
  for (std::size_t s = 0; s < all.size(); ++s) {
    CAPTURE(s);
    CHECK(all[s].blocks == wanted[s].first);
    CHECK(all[s].computers.peers == wanted[s].second);
  }
}

TEST_CASE("block segments: who keeps another's stage gets it, and computes it where nobody is in that place",
          "[parallel][elastic][fast]") {
  stage::replica r{{{1, {0, 2}, {{0, 4}}}, {2, {2, 4}, {{2, 6}}}, {3, {4, 6}, {{0, 2}, {4, 6}}}}, 1};
  const auto kept = kept_runs({{r}}, 0, 6, true);
  REQUIRE(kept.size() == 4);
  CHECK(kept[0].table);
  CHECK(kept[0].peers == peers{1, 3, 2});
  CHECK(kept[1].blocks == blocks{0, 2});
  CHECK(kept[1].peers == peers{1, 3});
  CHECK(kept[2].blocks == blocks{2, 4});
  CHECK(kept[2].peers == peers{2, 1});
  CHECK(kept[3].blocks == blocks{4, 6});
  CHECK(kept[3].peers == peers{3, 2});

  r.assignments[0].peer = stage::nobody;
  const auto all = segments_of({{r}}, 6);
  REQUIRE(all.size() == 3);
  CHECK(all[0].computers.peers == peers{3});
  CHECK(all[1].computers.peers == peers{2});
  CHECK(all[2].computers.peers == peers{3});
  const auto left = kept_runs({{r}}, 0, 6, true);
  REQUIRE(left.size() == 2);
  CHECK(left[0].table);
  CHECK(left[0].peers == peers{3, 2});
  CHECK(left[1].blocks == blocks{4, 6});
}

TEST_CASE("block segments: of a tied table each first stage sends the last one's part of as many micro-batches as its own",
          "[parallel][elastic][fast]") {
  using stage::nobody;
  const auto of = [](std::vector<std::vector<std::uint64_t>> held_by, std::uint32_t micro_batches) {
    stage::layout l;
    const auto shares = stage::even_shares(micro_batches, held_by.size());
    for (std::size_t r = 0; r < held_by.size(); ++r)
      l.replicas.push_back({{{held_by[r][0], {0, 1}}, {held_by[r][1], {1, 2}}, {held_by[r][2], {2, 3}}}, shares[r]});
    REQUIRE(l.check(3, micro_batches));
    return l;
  };
  const auto check = [](const stage::layout& l, std::size_t most) {
    const auto parts = table_parts(l, 3);
    CHECK(parts.size() <= most);
    std::map<std::uint64_t, double> sent, received;
    for (const auto& part : parts) {
      stage::layout::place last;
      REQUIRE(l.find(part.last, &last) != nullptr);
      CHECK(last.rank == 2);
      sent[part.last] += part.share;
      received[part.first] += double{part.share} * l.micro_batches_at(2)[last.replica];
    }
    const auto firsts = l.micro_batches_at(0), lasts = l.micro_batches_at(2);
    for (std::size_t r = 0; r < l.replicas.size(); ++r) {
      const auto& row = l.replicas[r].assignments;
      if (row.front().peer != nobody) CHECK(received.at(row.front().peer) == Approx(firsts[r]));
      if (row.back().peer != nobody) CHECK(sent.at(row.back().peer) == Approx(1));
      CHECK((lasts[r] == 0) == (row.back().peer == nobody));
    }
    CHECK(received.count(nobody) + sent.count(nobody) == 0);
  };
  check(of({{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}, 7), 3);                 // each pipeline for itself
  check(of({{1, 2, nobody}, {4, 5, 6}, {7, 8, 9}}, 7), 4);            // a first stage without a last one
  check(of({{1, 2, 3}, {nobody, 5, 6}, {7, 8, 9}}, 7), 5);            // a last one without a first
  check(of({{1, 2, nobody}, {nobody, 5, 6}, {7, 8, 9}}, 7), 4);       // both
  check(of({{1, nobody, 3}, {4, 5, 6}, {7, 8, 9}}, 8), 3);            // in the middle
  check(of({{1, 2, nobody}, {4, 5, nobody}, {nobody, 8, 9}}, 5), 3);  // all through one
  const stage::layout whole{{{{{1, {0, 3}}}, 2}, {{{2, {0, 3}}}, 1}}};
  CHECK(table_parts(whole, 3).empty());
}

TEST_CASE("block segments: where micro-batches take detours, a segment is of those who are there",
          "[parallel][elastic][fast]") {
  const stage::layout l{
      {{{{1, {0, 1}}, {2, {1, 2}}, {3, {2, 3}}}, 3}, {{{stage::nobody, {0, 1}}, {5, {1, 2}}, {6, {2, 3}}}, 3}}};
  const auto all = segments_of(l, 3);
  REQUIRE(all.size() == 3);
  CHECK(all[0].computers.peers == peers{1});
  CHECK(all[1].computers.peers == peers{2, 5});
  CHECK(all[1].computers.shares == std::vector<double>{0.5, 0.5});
  CHECK(kept_runs(l, 1, 3, false).empty());
  const auto kept = kept_runs(l, 1, 3, true);  // peer 6 gets the table from the other pipeline
  REQUIRE(kept.size() == 2);
  CHECK(kept[0].peers == peers{1, 3});
  CHECK(kept[1].peers == peers{1, 6});
}
