// SPDX-License-Identifier: Apache-2.0
#include <causeway/nn/model_part.hpp>

#include "support/catch.hpp"

namespace causeway::nn {

TEST_CASE("model part: by default it is the whole model", "[nn][fast]") {
  const model_part all;
  CHECK(all.is_whole(4));
  CHECK(all.holds(3));
  CHECK(all.holds(block_range{1, 3}));
  CHECK(all.ranges(4) == std::vector<block_range>{{0, 4}});
  CHECK(model_part{{0, 4}}.is_whole(4));
  CHECK_FALSE(model_part{{0, 4}}.is_whole(5));
}

TEST_CASE("model part: several ranges hold their blocks and nothing between", "[nn][fast]") {
  const model_part chunks{std::vector<block_range>{{0, 2}, {4, 6}}};
  REQUIRE(chunks.check(8));
  CHECK(chunks.holds(1));
  CHECK_FALSE(chunks.holds(2));
  CHECK(chunks.holds(block_range{4, 6}));
  CHECK_FALSE(chunks.holds(block_range{1, 5}));
  CHECK_FALSE(chunks.is_whole(8));
}

TEST_CASE("model part: ranges that are empty, touch, fall or leave the model are refused by name", "[nn][fast]") {
  const auto refused = [](std::vector<block_range> ranges) {
    const auto outcome = model_part{std::move(ranges)}.check(8);
    return outcome ? std::string{} : outcome.error().text();
  };
  CHECK(refused({{0, 2}, {3, 8}}).empty());
  CHECK_THAT(refused({{2, 2}}), Catch::Matchers::Contains("[2, 2)"));
  CHECK_THAT(refused({{0, 2}, {2, 4}}), Catch::Matchers::Contains("[2, 4)"));
  CHECK_THAT(refused({{4, 6}, {0, 2}}), Catch::Matchers::Contains("[0, 2)"));
  CHECK_THAT(refused({{-1, 2}}), Catch::Matchers::Contains("[-1, 2)"));
  CHECK_THAT(refused({{6, 9}}), Catch::Matchers::Contains("8"));
}

}  // namespace causeway::nn
