// SPDX-License-Identifier: Apache-2.0
#include <causeway/axis/fragments.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "support/blocky.hpp"
#include "support/catch.hpp"

using namespace causeway;

namespace {

/// Every value of the buffer is in one fragment, and what is gathered comes back.
void is_a_partition(const std::vector<axis::fragment>& cuts, std::size_t length) {
  std::vector<float> numbers(length);
  for (std::size_t i = 0; i < length; ++i) numbers[i] = static_cast<float>(i + 1);
  std::vector<float> back(length);
  std::size_t total = 0;
  for (const auto& cut : cuts) {
    std::vector<float> row(cut.size);
    axis::gather(cut, numbers, row);
    for (const auto& m : cut.matrices) CHECK(m.offset + m.rows * m.columns <= cut.size);
    axis::scatter(cut, row, back);
    total += cut.size;
  }
  CHECK(total == length);
  CHECK(back == numbers);
}

}  // namespace

TEST_CASE("fragments: every cut holds every value once", "[axis][fast]") {
  support::blocky model{7};
  const auto view = model.parameters().view();
  const std::size_t length = view.values.size();
  is_a_partition(axis::whole{}.cut(view.segments, length).value(), length);
  is_a_partition(axis::strided{3}.cut(view.segments, length).value(), length);
  is_a_partition(axis::consecutive{2}.cut(view.segments, length).value(), length);
  is_a_partition(axis::balanced{5}.cut(view.segments, length).value(), length);
  CHECK(axis::whole{}.cut(view.segments, length).value()[0].is_whole(length));
  CHECK(axis::whole{}.cut({}, 10).value()[0].is_whole(10));
}

TEST_CASE("fragments: strided blocks lie apart, consecutive ones together, the rest is the first fragment",
          "[axis][fast]") {
  support::blocky model{7};
  const auto view = model.parameters().view();
  const auto offset = [&](int block) {
    for (const auto& s : view.segments) {
      if (s.block == block) return s.offset;
    }
    return std::int64_t{-1};
  };
  const auto strided = axis::strided{3}.cut(view.segments, view.values.size()).value();
  REQUIRE(strided.size() == 4);  // the rest, and blocks 0 3 6, 1 4, 2 5
  CHECK(strided[0].ranges.size() == 2);
  REQUIRE(strided[1].ranges.size() == 3);
  CHECK(strided[1].ranges[1].begin == offset(3));
  CHECK(strided[2].ranges[0].begin == offset(1));
  const auto consecutive = axis::consecutive{3}.cut(view.segments, view.values.size()).value();
  REQUIRE(consecutive.size() == 4);  // the rest, and blocks 0-2, 3-5, 6
  CHECK(consecutive[1].ranges.size() == 1);
  CHECK(consecutive[2].ranges[0].begin == offset(3));
  CHECK(consecutive[3].ranges[0].begin == offset(6));
}

TEMPLATE_TEST_CASE("fragments: a stage has its part of the whole model's, and of some nothing", "[axis][fast]",
                   axis::strided, axis::consecutive, axis::balanced) {
  support::blocky model{7};
  const auto view = model.parameters().view();
  const TestType fragments{std::is_same_v<TestType, axis::balanced> ? 12U : 3U};
  const auto of_whole = fragments.cut(view.segments, view.values.size()).value();
  // Two stages: the first blocks with what is in front of them, the others with what is behind.
  const auto is_first = [](const parameter_segment& s) { return s.block < 2; };
  const auto border = std::find_if_not(view.segments.begin(), view.segments.end(), is_first);
  std::vector<parameter_segment> first(view.segments.begin(), border), second(border, view.segments.end());
  const std::int64_t begin = second.front().offset;
  for (parameter_segment& s : second) s.offset -= begin;
  const auto length = static_cast<std::size_t>(begin);
  const axis::whole_model all{view.segments, view.values.size(), 7};
  const auto front = fragments.cut(first, length, all).value();
  const auto behind = fragments.cut(second, view.values.size() - length, all).value();
  is_a_partition(front, length);
  is_a_partition(behind, view.values.size() - length);
  REQUIRE((front.size() == of_whole.size() && behind.size() == of_whole.size()));
  const auto places_of = [](const axis::fragment& f, std::int64_t from) {
    std::vector<std::int64_t> places;
    for (const index_range& r : f.ranges) {
      for (std::int64_t i = r.begin; i < r.end; ++i) places.push_back(from + i);
    }
    return places;
  };
  bool some_empty = false;
  for (std::size_t f = 0; f < of_whole.size(); ++f) {
    auto here = places_of(front[f], 0);
    const auto there = places_of(behind[f], begin);
    here.insert(here.end(), there.begin(), there.end());
    CHECK(here == places_of(of_whole[f], 0));
    some_empty = some_empty || front[f].size == 0;
  }
  CHECK(some_empty);
  const auto of_no_block = fragments.cut({}, 0, all).value();
  REQUIRE(of_no_block.size() == of_whole.size());
  for (const axis::fragment& f : of_no_block) CHECK((f.size == 0 && f.ranges.empty()));
}

TEST_CASE("fragments: a table of both ends is a row beside those of single blocks", "[axis][fast]") {
  support::blocky model{7};
  const auto view = model.parameters().view();
  const std::size_t length = view.values.size();
  axis::whole_model of{view.segments, length, 7};
  const auto one = axis::whole{}.cut(of.segments, length, of).value();
  const auto plain = axis::single_blocks(view.segments, length, of, one);
  of.shares_table = true;
  const auto apart = axis::single_blocks(view.segments, length, of, one);
  is_a_partition(plain, length);
  is_a_partition(apart, length);
  REQUIRE(plain.size() == 7);
  REQUIRE(apart.size() == 8);
  CHECK(apart[7].block == 7);
  CHECK(apart[7].matrices.size() == 1);
  CHECK(apart[7].ranges.front().begin == 0);
  CHECK(apart[0].size + apart[7].size == plain[0].size);
  const auto none_here = axis::single_blocks({}, 0, of, one);
  CHECK(none_here.size() == 8);
  CHECK(none_here[7].size == 0);
}

TEST_CASE("fragments: balanced ones differ by no more than the largest tensor", "[axis][fast]") {
  support::blocky model{12};
  const auto view = model.parameters().view();
  const auto cuts = axis::balanced{4}.cut(view.segments, view.values.size()).value();
  std::size_t least = cuts[0].size, most = cuts[0].size;
  for (const auto& c : cuts) least = std::min(least, c.size), most = std::max(most, c.size);
  CHECK(most - least <= 32);
}

TEST_CASE("fragments: what does not fit the model is refused", "[axis][fast]") {
  support::quadratic flat;
  const auto view = flat.parameters().view();
  CHECK(axis::strided{3}.cut(view.segments, view.values.size()).error().code == errc::invalid_argument);
  CHECK(axis::strided{0}.cut(view.segments, view.values.size()).error().code == errc::invalid_argument);
  CHECK(axis::balanced{2}.cut(view.segments, view.values.size()).error().code == errc::invalid_argument);
  CHECK(axis::balanced{0}.cut(view.segments, view.values.size()).error().code == errc::invalid_argument);
}

TEST_CASE("fragments: block by block each is as many rows as it has blocks, wherever these are", "[axis][fast]") {
  support::blocky model{7};
  const auto view = model.parameters().view();
  const axis::whole_model of{view.segments, view.values.size(), 7};
  const auto strided = axis::strided{3}.cut(of.segments, of.length, of).value();
  const auto all = axis::single_blocks(view.segments, of.length, of, strided);
  is_a_partition(all, of.length);
  // The rest, which lies at both ends, then blocks 0 3 6, 1 4, 2 5.
  const std::vector<std::size_t> numbers{0, 0, 1, 1, 1, 2, 2, 3, 3}, blocks{0, 6, 0, 3, 6, 1, 4, 2, 5};
  REQUIRE(all.size() == numbers.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    CHECK(all[i].number == numbers[i]);
    CHECK(all[i].block == blocks[i]);
  }
  // Of a part with blocks 3 and 4 the same rows, most of which are empty.
  std::vector<parameter_segment> part;
  std::size_t length = 0;
  for (const parameter_segment& s : view.segments) {
    if (s.block != 3 && s.block != 4) continue;
    part.push_back(s);
    part.back().offset = static_cast<std::int64_t>(length);
    length += static_cast<std::size_t>(s.size());
  }
  const auto here = axis::single_blocks(part, length, of, strided);
  is_a_partition(here, length);
  REQUIRE(here.size() == all.size());
  for (std::size_t i = 0; i < here.size(); ++i) {
    CHECK(here[i].block == blocks[i]);
    CHECK((here[i].size > 0) == (blocks[i] == 3 || blocks[i] == 4));
  }
}
