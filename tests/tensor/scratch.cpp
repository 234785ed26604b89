// SPDX-License-Identifier: Apache-2.0
#include <causeway/tensor/scratch.hpp>

#include <cstddef>
#include <cstdint>

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
