// SPDX-License-Identifier: Apache-2.0
#include <causeway/tensor/scratch.hpp>

#include <causeway/core/rng.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

#include "support/catch.hpp"

using namespace causeway;

TEST_CASE("scratch: pieces of one frame do not overlap and are aligned", "[tensor][fast]") {
  scratch memory;
  auto frame = memory.open();
  float* a = frame.take<float>(100);
  std::byte* b = frame.take<std::byte>(1);
  double* c = frame.take<double>(3);
  for (const void* p : {static_cast<void*>(a), static_cast<void*>(b), static_cast<void*>(c)}) {
    CHECK(reinterpret_cast<std::uintptr_t>(p) % 64 == 0);
  }
  CHECK(static_cast<void*>(a + 100) <= static_cast<void*>(b));
  CHECK(static_cast<void*>(b + 1) <= static_cast<void*>(c));
}

TEST_CASE("scratch: a frame gives back what it took, inner frames first", "[tensor][fast]") {
  scratch memory;
  auto outer = memory.open();
  float* kept = outer.take<float>(16);
  kept[0] = 3.0F;
  void* first = nullptr;
  {
    auto inner = memory.open();
    first = inner.take<float>(1000);
    inner.take<float>(1'000'000)[0] = 1.0F;
  }
  auto inner = memory.open();
  CHECK(static_cast<void*>(inner.take<float>(1000)) == first);
  CHECK(kept[0] == 3.0F);
}

TEST_CASE("scratch: once it has seen the largest need it allocates no more", "[tensor][fast]") {
  scratch memory;
  const auto work = [&] {
    auto frame = memory.open();
    frame.take<float>(300'000)[0] = 1.0F;
    frame.take<float>(10)[0] = 1.0F;
    auto nested = memory.open();
    nested.take<float>(700'000)[0] = 1.0F;
  };
  work();
  const std::size_t needed = memory.capacity();
  CHECK(needed >= 1'000'010 * sizeof(float));
  for (int i = 0; i < 10; ++i) work();
  CHECK(memory.capacity() == needed);
}

TEST_CASE("scratch: growing inside a frame leaves earlier pieces where they are", "[tensor][fast]") {
  scratch memory;
  auto outer = memory.open();
  auto* kept = outer.take<std::uint32_t>(1000);
  for (std::uint32_t i = 0; i < 1000; ++i) kept[i] = i;
  for (int depth = 0; depth < 5; ++depth) {  // each wants a chunk of its own
    auto inner = memory.open();
    auto* large = inner.take<std::uint32_t>(300'000U << depth);
    std::fill_n(large, 300'000U << depth, 0xFFFFFFFFU);
  }
  for (std::uint32_t i = 0; i < 1000; ++i) REQUIRE(kept[i] == i);
}

TEST_CASE("scratch: pieces of nested frames never overlap, wherever chunks end", "[tensor][fast]") {
  scratch memory;
  rng draw{9};
  for (int round = 0; round < 20; ++round) {
    std::map<const std::byte*, std::size_t> live;  // start -> length; disjoint if each ends before the next starts
    auto outer = memory.open();
    for (int i = 0; i < 20; ++i) {
      const std::size_t size = 1 + draw.below(400'000);
      live[outer.take<std::byte>(size)] = size;
      auto inner = memory.open();
      auto mine = live;
      for (int j = 0; j < 3; ++j) {
        const std::size_t n = 1 + draw.below(200'000);
        mine[inner.take<std::byte>(n)] = n;
      }
      REQUIRE(mine.size() == live.size() + 3);
      for (auto at = mine.begin(); std::next(at) != mine.end(); ++at) {
        REQUIRE(at->first + at->second <= std::next(at)->first);
        REQUIRE(reinterpret_cast<std::uintptr_t>(at->first) % 64 == 0);
      }
    }
  }
}

TEST_CASE("scratch: needs that come in any order stop asking for memory", "[tensor][fast]") {
  scratch memory;
  const auto work = [&](std::size_t first, std::size_t second) {
    auto frame = memory.open();
    frame.take<std::byte>(first)[0] = std::byte{1};
    frame.take<std::byte>(second)[0] = std::byte{1};
  };
  constexpr std::size_t small = 10;
  constexpr std::size_t large = 3'000'000;
  const auto all = [&] {
    work(small, large);
    work(large, small);
    work(large, large);
    work(small, small);
  };
  all();
  const std::size_t needed = memory.capacity();
  for (int i = 0; i < 10; ++i) all();
  CHECK(memory.capacity() == needed);
  CHECK(needed < 4 * large);
}

TEST_CASE("scratch: holds nothing until asked, and a piece of no bytes is no trouble", "[tensor][fast]") {
  scratch memory;
  CHECK(memory.capacity() == 0);
  auto frame = memory.open();
  CHECK(memory.capacity() == 0);
  CHECK(frame.take<float>(0) != nullptr);
}
