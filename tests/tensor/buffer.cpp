// SPDX-License-Identifier: Apache-2.0
#include <causeway/tensor/buffer.hpp>

#include <causeway/tensor/buffer_pool.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>
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

TEST_CASE("aligned buffer: a size that no memory can hold is refused, also where its bytes would wrap", "[tensor][fast]") {
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  CHECK_THROWS_AS(aligned_buffer<float>{most / sizeof(float) + 1}, std::bad_alloc);  // bytes wrap to 0
  CHECK_THROWS_AS(aligned_buffer<double>{most / sizeof(double) + 5}, std::bad_alloc);
  CHECK_THROWS_AS(aligned_buffer<float>{static_cast<std::size_t>(-1)}, std::bad_alloc);  // a negative count
  CHECK_THROWS_AS(aligned_buffer<std::byte>{most}, std::bad_alloc);                      // rounding up wraps
  CHECK_THROWS_AS(allocate_aligned(most - 1), std::bad_alloc);
}

TEST_CASE("aligned buffer: memory used before comes back zeroed", "[tensor][fast]") {
  for (int round = 0; round < 20; ++round) {
    aligned_buffer<std::uint32_t> buffer{3000};
    REQUIRE(std::count(buffer.span().begin(), buffer.span().end(), 0U) == 3000);
    std::fill(buffer.span().begin(), buffer.span().end(), 0xDEADBEEFU);
  }
}

TEST_CASE("aligned buffer: what was moved from is empty or holds what the other had, and frees it once", "[tensor][fast]") {
  aligned_buffer<int> first{4};
  const aligned_buffer<int> second{std::move(first)};
  CHECK(first.data() == nullptr);  // NOLINT: moved from on purpose
  CHECK(first.size() == 0);
  CHECK(first.span().empty());
  aligned_buffer<int> third{5};
  third[4] = 9;
  auto& same = third;
  third = std::move(same);
  CHECK(third.size() == 5);
  CHECK(third[4] == 9);
}

namespace {

/// Counts what it lends.
struct counting_source {
  int lent = 0, given_back = 0;

  [[nodiscard]] memory_source source() {
    return {this,
            [](void* self, std::size_t bytes) {
              ++static_cast<counting_source*>(self)->lent;
              return allocate_aligned(bytes);
            },
            [](void* self, void* piece) {
              ++static_cast<counting_source*>(self)->given_back;
              std::free(piece);
            }};
  }
};

}  // namespace

TEST_CASE("buffers give memory back to where it came from, moved or not", "[tensor][fast]") {
  counting_source device;
  {
    aligned_buffer<float> a{100, device.source()};
    CHECK(std::all_of(a.data(), a.data() + 100, [](float v) { return v == 0.0F; }));
    aligned_buffer<float> b{50};
    std::swap(a, b);
    const aligned_buffer<float> c{std::move(b)};
    CHECK(c.size() == 100);
    CHECK(device.lent == 1);
    CHECK(device.given_back == 0);
  }
  CHECK(device.given_back == 1);
  {
    buffer_pool pool{device.source()};
    (void)pool.acquire(1000);
    (void)pool.acquire(1000);  // the same block again
    CHECK(device.lent == 2);
  }
  CHECK(device.given_back == 2);
}

TEST_CASE("vectors of a source give memory back to where it came from, copied, moved or assigned", "[tensor][fast]") {
  using row = std::vector<float, source_allocator<float>>;
  counting_source device;
  {
    row a(100, 1.0F, source_allocator<float>{device.source()}), host(10, 2.0F);
    row b{a};
    CHECK(device.lent == 2);
    a = std::move(host);  // its memory comes along
    CHECK(a == row(10, 2.0F));
    CHECK(device.given_back == 1);
    std::swap(a, b);
    a.assign(1000, 3.0F);
    CHECK(device.lent == 3);
    CHECK(a.get_allocator() == source_allocator<float>{device.source()});
    CHECK_FALSE(b.get_allocator() == a.get_allocator());
  }
  CHECK(device.given_back == 3);
}
