// SPDX-License-Identifier: Apache-2.0
#include <causeway/tensor/buffer_pool.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "support/catch.hpp"

using causeway::buffer_pool;
using causeway::pooled_buffer;

TEST_CASE("buffer pool: a size class holds what was asked and wastes at most an eighth", "[tensor][fast]") {
  for (std::size_t bytes = 1; bytes < 3'000'000; bytes += 1 + bytes / 17) {
    const std::size_t given = buffer_pool::rounded(bytes);
    REQUIRE(given >= bytes);
    REQUIRE(given % 64 == 0);
    if (bytes >= 4096) REQUIRE(static_cast<double>(given) <= 1.126 * static_cast<double>(bytes) + 64);
    REQUIRE(buffer_pool::rounded(given) == given);
  }
}

TEST_CASE("buffer pool: a block comes back, most recent first, and no memory is asked again", "[tensor][fast]") {
  buffer_pool pool;
  const void* first = nullptr;
  const void* second = nullptr;
  {
    const pooled_buffer a = pool.acquire(10'000);
    const pooled_buffer b = pool.acquire(10'000);
    first = a.data();
    second = b.data();
    CHECK(first != second);
    CHECK(reinterpret_cast<std::uintptr_t>(first) % 64 == 0);
  }
  CHECK(pool.allocations() == 2);
  CHECK(pool.in_use() == 0);
  {
    const pooled_buffer a = pool.acquire(9'999);  // released last was `a`: destructors run in reverse
    CHECK(a.data() == first);
    const pooled_buffer b = pool.acquire(10'001);
    CHECK(b.data() == second);
  }
  CHECK(pool.allocations() == 2);
}

TEST_CASE("buffer pool: a block stays while anybody holds it", "[tensor][fast]") {
  buffer_pool pool;
  pooled_buffer a = pool.acquire(100);
  CHECK(a.unique());
  pooled_buffer b = a;
  CHECK_FALSE(a.unique());
  a = pooled_buffer{};
  CHECK(b.unique());
  CHECK(pool.in_use() == b.bytes());
  const pooled_buffer c = std::move(b);
  CHECK(b.data() == nullptr);  // NOLINT: moved from on purpose
  CHECK(c.unique());
}

TEST_CASE("buffer pool: statistics follow use, peak and what is held", "[tensor][fast]") {
  buffer_pool pool;
  const std::size_t each = buffer_pool::rounded(1 << 20);
  {
    const pooled_buffer a = pool.acquire(1 << 20);
    const pooled_buffer b = pool.acquire(1 << 20);
    CHECK(pool.in_use() == 2 * each);
  }
  const pooled_buffer c = pool.acquire(1 << 20);
  CHECK(pool.in_use() == each);
  CHECK(pool.peak_in_use() == 2 * each);
  CHECK(pool.held() == 2 * each);
  pool.trim();
  CHECK(pool.held() == each);
  CHECK(pool.peak_held() == 2 * each);
}

TEST_CASE("buffer pool: poison makes what was never written visible", "[tensor][fast]") {
  buffer_pool pool;
  pool.poison(true);
  const pooled_buffer a = pool.acquire(64);
  CHECK(std::isnan(*static_cast<const float*>(a.data())));
}
