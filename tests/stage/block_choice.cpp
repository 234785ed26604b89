// SPDX-License-Identifier: Apache-2.0
#include <causeway/stage/block_choice.hpp>

#include <causeway/core/rng.hpp>

#include "support/catch.hpp"

namespace causeway::stage {
namespace {

using spans = std::vector<served_span>;

double least_of(const spans& all, std::int64_t layers) {
  const auto sums = block_throughputs(all, layers);
  return *std::min_element(sums.begin(), sums.end());
}

/// Everybody moves where better_place says, one after the other, until nobody does or `most` moves were made.
int moves_until_settled(spans& all, std::int64_t layers, double quality, int most) {
  int moves = 0;
  for (bool anybody = true; anybody && moves < most;) {
    anybody = false;
    for (served_span& s : all) {
      const auto to = better_place(all, s.id, layers, quality);
      if (!to) continue;
      s.blocks = {*to, *to + s.blocks.size()};
      anybody = true;
      ++moves;
    }
  }
  return moves;
}

}  // namespace

TEST_CASE("block_choice: the throughput of a block is the sum over those who hold it", "[stage][fast]") {
  const spans all{{1, {0, 2}, 3}, {2, {1, 4}, 5}};
  CHECK(block_throughputs(all, 5) == std::vector<double>{3, 8, 5, 5, 0});
}

TEST_CASE("block_choice: who comes takes the blocks that are worst off", "[stage][fast]") {
  CHECK(worst_served(std::vector<double>{0, 0, 0, 0}, 2) == 0);
  CHECK(worst_served(std::vector<double>{3, 8, 5, 5, 0}, 2) == 3);
  CHECK(worst_served(std::vector<double>{3, 8, 5, 5, 0}, 5) == 0);
  CHECK(worst_served(std::vector<double>{2, 1, 9, 1, 1}, 2) == 3);  // as bad a worst block, and a worse other one
  CHECK(worst_served(std::vector<double>{4, 1, 1, 4}, 3) == 0);     // equals: the first
}

TEST_CASE("block_choice: servers that come one after another cover the model evenly", "[stage][fast]") {
  spans all;
  for (net::peer_id id = 1; id <= 6; ++id) {
    const std::int64_t at = worst_served(block_throughputs(all, 8), 4);
    all.push_back({id, {at, at + 4}, 1});
  }
  CHECK(least_of(all, 8) == 3);
}

TEST_CASE("block_choice: of three on one half and one on the other, one of the three moves, and the least doubles",
          "[stage][fast]") {
  spans all{{1, {0, 2}, 1}, {2, {0, 2}, 1}, {3, {0, 2}, 1}, {4, {2, 4}, 1}};
  CHECK(better_place(all, 2, 4) == 2);
  CHECK(better_place(all, 4, 4) == std::nullopt);  // it would leave a gap
  all[1].blocks = {2, 4};
  CHECK(least_of(all, 4) == 2);
  for (const auto& s : all) CHECK(better_place(all, s.id, 4) == std::nullopt);
}

TEST_CASE("block_choice: a gain within the margin moves nobody", "[stage][fast]") {
  // Moving 0.2 over makes the least 1.2 of 1.0: 1.0 >= 0.75 * 1.2.
  const spans all{{1, {0, 2}, 1}, {2, {0, 2}, 0.4}, {3, {0, 2}, 0.2}, {4, {2, 4}, 1}};
  CHECK(better_place(all, 3, 4) == std::nullopt);
  CHECK(better_place(all, 3, 4, 0.99) == 2);
}

TEST_CASE("block_choice: while a block is served by nobody, whoever does not make another gap moves there",
          "[stage][fast]") {
  const spans all{{1, {0, 2}, 1}, {2, {0, 2}, 1}, {3, {2, 4}, 1}};
  CHECK(better_place(all, 2, 6) == 4);
  CHECK(better_place(all, 3, 6) == std::nullopt);  // nothing is gained: there would be a gap again
}

TEST_CASE("block_choice: throughputs that waver within the margin make nobody move again and again", "[stage][fast]") {
  rng draw{4};
  for (int world = 0; world < 30; ++world) {
    const std::int64_t layers = 8 + static_cast<std::int64_t>(draw.below(8));
    spans all;
    for (net::peer_id id = 1; id <= 12; ++id) {
      const auto length = 1 + static_cast<std::int64_t>(draw.below(static_cast<std::uint64_t>(layers)));
      const auto at = static_cast<std::int64_t>(draw.below(static_cast<std::uint64_t>(layers - length + 1)));
      all.push_back({id, {at, at + length}, 0.5 + static_cast<double>(draw.uniform())});
    }
    const double before = least_of(all, layers);
    const int moves = moves_until_settled(all, layers, 0.75, 100);
    CHECK(moves < 40);
    CHECK(least_of(all, layers) >= before);
    const double settled = least_of(all, layers);
    for (auto& s : all) s.throughput *= 0.97 + 0.06 * static_cast<double>(draw.uniform());
    if (settled > 0) CHECK(moves_until_settled(all, layers, 0.75, 100) <= 3);
  }
}

}  // namespace causeway::stage
