// SPDX-License-Identifier: Apache-2.0
// Which ranges of blocks are exchanged among whom, and who gets what they came to besides.
#include <causeway/parallel/elastic/block_segments.hpp>

#include <cstdint>
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
  for (const stage::replica& r : l.replicas) CHECK(kept_runs(r, 6, false).empty());
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
  const auto kept = kept_runs(r, 6, true);
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
  const auto left = kept_runs(r, 6, true);
  REQUIRE(left.size() == 2);
  CHECK(left[0].table);
  CHECK(left[0].peers == peers{3, 2});
  CHECK(left[1].blocks == blocks{4, 6});
}
