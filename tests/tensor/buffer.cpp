// SPDX-License-Identifier: Apache-2.0
#include <causeway/tensor/buffer.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <type_traits>
#include <utility>

#include "support/catch.hpp"

using namespace causeway;

TEST_CASE("aligned buffer: zeroed, and aligned to a cache line or a huge page", "[tensor][fast]") {
  for (const std::size_t count : {std::size_t{1}, std::size_t{17}, std::size_t{1} << 20U}) {
    const aligned_buffer<float> buffer{count};
    const std::size_t alignment = count * sizeof(float) >= (std::size_t{2} << 20U) ? std::size_t{2} << 20U : 64;
    CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % alignment == 0);
    CHECK(buffer.size() == count);
    CHECK(std::all_of(buffer.span().begin(), buffer.span().end(), [](float x) { return x == 0.0F; }));
  }
}

TEST_CASE("aligned buffer: an empty one can be made, moved and destroyed", "[tensor][fast]") {
  aligned_buffer<int> none;
  aligned_buffer<int> zero{0};
  none = std::move(zero);
  CHECK(none.size() == 0);
  CHECK(none.span().empty());
}

TEST_CASE("aligned buffer: moving hands the memory over", "[tensor][fast]") {
  static_assert(!std::is_copy_constructible_v<aligned_buffer<int>>);
  aligned_buffer<int> first{4};
  first[2] = 7;
  const int* memory = first.data();
  aligned_buffer<int> second{std::move(first)};
  CHECK(second.data() == memory);
  CHECK(second[2] == 7);
  aligned_buffer<int> third{9};
  third = std::move(second);
  CHECK(third.data() == memory);
  CHECK(third.size() == 4);
}
