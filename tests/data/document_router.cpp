// SPDX-License-Identifier: Apache-2.0
#include <causeway/data/document_router.hpp>

#include <causeway/io/archive.hpp>

#include <vector>

#include "nn/golden.hpp"
#include "support/catch.hpp"

using namespace causeway;
namespace data = causeway::data;

namespace {

/// Of each row and path, less the first path's.
std::vector<float> scores_of(const data::document_router& router, const data::feature_rows& rows, bool from_first) {
  std::vector<float> all, one(router.paths());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    router.scores(rows[i], one);
    for (const float s : one) all.push_back(from_first ? s - one[0] : s);
  }
  return all;
}

std::vector<std::uint32_t> whole(const std::vector<float>& numbers) { return {numbers.begin(), numbers.end()}; }

using shards = std::vector<std::vector<std::uint32_t>>;

}  // namespace

TEST_CASE("document_router: the nearest centre is numpy's", "[data][fast]") {
  const auto g = testing::read_golden("dipaco/routing");
  const data::feature_rows rows{g.numbers.at("rows"), 5};
  const auto router = data::document_router::nearest({g.numbers.at("centres"), 5});
  CHECK(router.paths() == 3);
  CHECK(router.width() == 5);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CHECK(router.best(rows[i]) == static_cast<std::uint32_t>(g.numbers.at("nearest")[i]));
  }
}

TEST_CASE("document_router: what is trained is the minimum that numpy finds", "[data][fast]") {
  const auto g = testing::read_golden("dipaco/routing");
  const data::feature_rows rows{g.numbers.at("rows"), 5};
  const auto best = whole(g.numbers.at("best"));
  const auto router = data::document_router::trained(rows, best, 3, {.rounds = 20000, .tolerance = 1e-12});
  REQUIRE(router);
  CHECK(testing::relative_difference(scores_of(*router, rows, true), g.numbers.at("scores")) < 1e-6);
  // Two rounds are not enough to get there.
  const auto begun = data::document_router::trained(rows, best, 3, {.rounds = 2});
  CHECK(testing::relative_difference(scores_of(*begun, rows, true), g.numbers.at("scores")) > 1e-2);
}

TEST_CASE("document_router: features in other units, and one that says nothing, change nothing", "[data][fast]") {
  const auto g = testing::read_golden("dipaco/routing");
  const data::feature_rows rows{g.numbers.at("rows"), 5};
  std::vector<float> other;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < 5; ++j) other.push_back(1000.0F * rows[i][j] + 50.0F);
    other.push_back(3.0F);
  }
  const auto router = data::document_router::trained({other, 6}, whole(g.numbers.at("best")), 3);
  REQUIRE(router);
  CHECK(testing::relative_difference(scores_of(*router, {other, 6}, true), g.numbers.at("scores")) < 1e-4);
}

TEST_CASE("document_router: shards are the documents of each path, and overlap with a second best", "[data][fast]") {
  const auto g = testing::read_golden("dipaco/routing");
  const data::feature_rows rows{g.numbers.at("rows"), 5};
  const auto router = data::document_router::trained(rows, whole(g.numbers.at("best")), 3);
  const auto scores = scores_of(*router, rows, false);
  shards expected(3);
  const auto& two = g.numbers.at("two");
  for (std::size_t i = 0; i < two.size(); ++i) {
    expected[static_cast<std::size_t>(two[i])].push_back(static_cast<std::uint32_t>(i / 2));
  }
  CHECK(data::shards_of({scores, 3}, {.top = 2}) == expected);

  const auto alone = data::shards_of({scores, 3});
  CHECK(alone[0].size() + alone[1].size() + alone[2].size() == rows.size());
  for (std::uint32_t p = 0; p < 3; ++p) {
    for (const std::uint32_t d : alone[p]) CHECK(router->best(rows[d]) == p);
  }
}

TEST_CASE("document_router: a path without documents of its own gets those that lack least", "[data][fast]") {
  const std::vector<float> scores{9, 0, 1,  //
                                  9, 0, 8,  //
                                  9, 0, 7,  //
                                  1, 9, 0};
  CHECK(data::shards_of({scores, 3}) == shards{{0, 1, 2}, {3}, {1}});
  CHECK(data::shards_of({scores, 3}, {.fewest = 2}) == shards{{0, 1, 2}, {0, 3}, {1, 2}});
  CHECK(data::shards_of({scores, 3}, {.top = 5}) == shards{{0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}});
  CHECK(data::shards_of({scores, 3}, {.fewest = 9}) == shards{{0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}});
  CHECK(data::shards_of({scores, 3}, {.fewest = 0}) == shards{{0, 1, 2}, {3}, {}});
}

TEST_CASE("document_router: comes back from an archive, and refuses paths that are none", "[data][fast]") {
  const std::vector<float> values{1, 2, 3, 4};
  const data::feature_rows rows{values, 2};
  const std::vector<std::uint32_t> best{0, 1}, wrong{0, 2}, few{0};
  const auto router = data::document_router::trained(rows, best, 2);
  REQUIRE(router);
  const auto bytes = io::archiver{}.to_bytes(*router);
  data::document_router back;
  REQUIRE(io::archiver{}.from_bytes(std::span<const std::byte>{*bytes}, back));
  CHECK(back == *router);
  for (const auto& labels : {wrong, few}) {
    CHECK(data::document_router::trained(rows, labels, 2).error().code == errc::invalid_argument);
  }
}
