// SPDX-License-Identifier: Apache-2.0
#include <causeway/compress/group_map.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using namespace causeway::compress;

namespace {

using numbers = std::vector<std::uint32_t>;

numbers choose(group_threshold& t, const std::vector<float>& sums, std::size_t count, std::uint32_t first = 0) {
  numbers chosen;
  t.choose(sums, count, first, chosen);
  return chosen;
}

}  // namespace

TEST_CASE("group map: tensors by 16, the last group shorter, nothing between tensors", "[compress][fast]") {
  const std::vector<matrix_range> tensors{{.offset = 0, .rows = 2, .columns = 20}, {.offset = 48, .rows = 1, .columns = 5}};
  const group_map map{tensors, 64};
  REQUIRE(map.size() == 4);
  const auto places = map.places(numbers{0, 2, 3});
  REQUIRE(places.size() == 3);
  CHECK((places[0].begin == 0 && places[0].end == 16));
  CHECK((places[1].begin == 32 && places[1].end == 40));
  CHECK((places[2].begin == 48 && places[2].end == 53));
  CHECK(group_map{{}, 33}.size() == 3);  // a row without tensors is one
  CHECK(group_map{{}, 0}.size() == 0);
}

TEST_CASE("group map: sums are of magnitudes, a short group's as if it were full, and what is not finite is large",
          "[compress][fast]") {
  std::vector<float> row(40, 1.0F);
  for (std::size_t i = 0; i < 16; i += 2) row[i] = -3.0F;
  row[20] = std::numeric_limits<float>::quiet_NaN();
  for (const unsigned threads : {1U, 3U}) {
    thread_pool pool{threads};
    const auto sums = group_sums(pool, row, 0, 3);
    CHECK(sums[0] == 32.0F);
    CHECK(std::isinf(sums[1]));
    CHECK(sums[2] == 16.0F);
    CHECK(group_sums(pool, row, 2, 3) == std::vector<float>{16.0F});
  }
}

TEST_CASE("group threshold: it begins at the sum that is just too many, and remembers", "[compress][fast]") {
  group_threshold t;
  CHECK(choose(t, {5, 1, 4, 2, 3}, 2, 10) == numbers{10, 12});  // 5 and 4; 3 would be the third
  CHECK(t.value == Approx(3.03F));                              // two reached 3: higher
  CHECK(t.rise == Approx(0.03F));

  CHECK(choose(t, {3.1F, 9, 8, 7, 1}, 2) == numbers{0, 1});  // the first that reach it, not the largest
  CHECK(t.value == Approx(3.06F));

  CHECK(choose(t, {1, 2, 4, 1.5F, 1}, 3) == numbers{1, 2, 3});  // one reaches it; then the largest of the rest
  CHECK(t.value == Approx(0.99F * 3.06F));
  CHECK(t.rise == Approx(0.03F));  // of its first value still

  CHECK(choose(t, {1, 1, 1}, 2) == numbers{0, 1});  // equal ones by place
}

TEST_CASE("group threshold: as many as there are, none, and zeros", "[compress][fast]") {
  group_threshold t;
  CHECK(choose(t, {2, 1}, 2) == numbers{0, 1});
  CHECK(choose(t, {}, 0).empty());
  t = {};
  CHECK(choose(t, {0, 0, 7}, 1) == numbers{0});  // a threshold of 0 all reach
  CHECK(t.value == 0);
  CHECK(choose(t, {1, 2, 7}, 1) == numbers{1});  // so it is found anew
  CHECK(t.value == Approx(2.02F));
}

TEST_CASE("group threshold: what is not finite is sent, so that it is refused, and is nothing to remember",
          "[compress][fast]") {
  const float infinity = std::numeric_limits<float>::infinity();
  group_threshold t;
  CHECK(choose(t, {9, 8, infinity, 7}, 1) == numbers{2});
  CHECK(t.value == 0);
  choose(t, {3, 2, 1}, 1);
  const float was = t.value;
  CHECK(choose(t, {9, infinity, 8, infinity}, 3) == numbers{0, 1, 3});
  CHECK(t.value == was);
}
