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

TEST_CASE("model part: what a pass through a range computes", "[nn][fast]") {
  const auto is = [](const stage_way& w, const block_range& layers, bool embeds, bool ends) {
    return w.layers == layers && w.embeds == embeds && w.ends == ends;
  };
  for (const bool has_input : {false, true}) {
    CHECK(is(stage_way::of({0, 2}, 8, false, has_input), {0, 2}, true, false));
    CHECK(is(stage_way::of({2, 4}, 8, false, has_input), {2, 4}, false, false));
    CHECK(is(stage_way::of({4, 8}, 8, false, has_input), {4, 8}, false, true));
    CHECK(is(stage_way::of({0, 8}, 8, false, has_input), {0, 8}, true, true));
    CHECK(is(stage_way::of({0, 8}, 8, true, has_input), {0, 7}, true, true));  // the ends and seven layers
    CHECK(is(stage_way::of({1, 3}, 8, true, has_input), {0, 2}, false, false));
    CHECK(is(stage_way::of({6, 8}, 8, true, has_input), {5, 7}, false, false));
    CHECK(is(stage_way::of({0, 1}, 8, true, has_input), {0, 0}, !has_input, has_input));
  }
}

TEST_CASE("model part: the ends have no block, and blocks alone have no end", "[nn][fast]") {
  const auto ends = model_part::ends();
  CHECK(ends.ranges(8).empty());
  CHECK_FALSE(ends.is_whole(8));
  CHECK_FALSE(ends.holds(0));
  CHECK((ends.holds_parameters(-1, 8) && ends.holds_parameters(8, 8) && !ends.holds_parameters(0, 8)));
  const auto blocks = model_part::blocks_alone({0, 8});
  CHECK_FALSE(blocks.is_whole(8));
  CHECK(blocks.holds(block_range{0, 8}));
  CHECK((!blocks.holds_parameters(-1, 8) && !blocks.holds_parameters(8, 8) && blocks.holds_parameters(7, 8)));
  CHECK_FALSE(model_part::blocks_alone({2, 4}).holds_parameters(4, 8));
  const model_part first{{0, 2}}, all;  // with what stands before it
  CHECK((first.holds_parameters(-1, 8) && !first.holds_parameters(8, 8) && first.holds_parameters(1, 8)));
  CHECK((all.holds_parameters(-1, 8) && all.holds_parameters(8, 8) && all.holds_parameters(3, 8)));
}

}  // namespace causeway::nn
