// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/device/caching_pool.hpp>

#include <causeway/core/rng.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

namespace {

using causeway::errc;
using causeway::cuda::caching_pool;
using causeway::cuda::size_class;

/// A device with so many bytes. Addresses are numbers; giving back what is not out is a failure of the test.
struct fake_device {
  std::size_t room = 1U << 30U;
  std::size_t calls = 0;
  std::uintptr_t next = 512;
  std::map<void*, std::size_t> out{};
};

struct fake_source {
  fake_device* device;

  causeway::result<void*> reserve(std::size_t bytes) const {
    ++device->calls;
    if (bytes > device->room) return causeway::fail(errc::out_of_memory, "fake device", "no room");
    device->room -= bytes;
    void* const piece = reinterpret_cast<void*>(device->next);
    device->next += bytes;
    device->out[piece] = bytes;
    return piece;
  }
  void release(void* piece) const {
    const auto found = device->out.find(piece);
    REQUIRE(found != device->out.end());
    device->room += found->second;
    device->out.erase(found);
  }
};

}  // namespace

TEST_CASE("cuda pool: sizes are few, aligned, and waste at most a fifth", "[cuda][fast]") {
  CHECK(size_class(0) == 512);
  CHECK(size_class(512) == 512);
  CHECK(size_class(513) == 1024);
  std::size_t classes = 0, last = 0;
  for (std::size_t bytes = 1; bytes <= (std::size_t{1} << 22U); bytes += 61) {
    const std::size_t size = size_class(bytes);
    REQUIRE(size >= bytes);
    REQUIRE(size % 256 == 0);
    REQUIRE(size >= last);
    if (bytes > 4096) REQUIRE((size - bytes) * 5 <= size);
    REQUIRE(size_class(size) == size);
    classes += size == last ? 0U : 1U;
    last = size;
  }
  CHECK(classes <= 8 + 4 * 10 + 1);
}

TEST_CASE("cuda pool: the second of two equal steps reserves nothing", "[cuda][fast]") {
  fake_device device;
  caching_pool<fake_source> pool{fake_source{&device}};
  const auto step = [&](std::uint64_t seed) {
    causeway::rng draw{seed};
    std::vector<std::pair<void*, std::size_t>> held;
    for (int i = 0; i < 200; ++i) {
      if (!held.empty() && draw.below(3) == 0) {
        const std::size_t at = draw.below(held.size());
        pool.give(held[at].first, held[at].second);
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(at));
      } else {
        const std::size_t bytes = draw.below(100'000);
        const auto piece = pool.take(bytes);
        REQUIRE(piece);
        // nobody else holds it
        REQUIRE(std::none_of(held.begin(), held.end(), [&](const auto& h) { return h.first == piece.value(); }));
        held.emplace_back(piece.value(), bytes);
      }
    }
    for (const auto& [piece, bytes] : held) pool.give(piece, bytes);
    CHECK(pool.taken() == 0);
  };
  step(1);
  const std::size_t reserved = pool.reservations();
  CHECK(reserved > 20);
  CHECK(device.calls == reserved);
  step(1);
  CHECK(pool.reservations() == reserved);
  CHECK(device.calls == reserved);
}

TEST_CASE("cuda pool: what waits is given back when memory is short, and then the request is met", "[cuda][fast]") {
  fake_device device{.room = 1U << 20U};
  caching_pool<fake_source> pool{fake_source{&device}};
  const auto half = pool.take(512 * 1024);
  const auto quarter = pool.take(256 * 1024);
  REQUIRE(half);
  REQUIRE(quarter);
  pool.give(half.value(), 512 * 1024);
  const auto larger = pool.take(700 * 1024);  // fits only in place of the half that waits
  REQUIRE(larger);
  CHECK(pool.held() == size_class(700 * 1024) + 256 * 1024);
  CHECK(device.out.size() == 2);

  const auto none = pool.take(1U << 21U);
  REQUIRE_FALSE(none);
  CHECK(none.error().code == errc::out_of_memory);
  CHECK(pool.taken() == pool.held());
}

TEST_CASE("cuda pool: everything goes back to the device at the end, from wherever the pool was moved", "[cuda][fast]") {
  fake_device device;
  {
    caching_pool<fake_source> first{fake_source{&device}};
    for (const std::size_t bytes : {1U, 5000U, 70000U}) {
      const auto piece = first.take(bytes);
      REQUIRE(piece);
      first.give(piece.value(), bytes);
    }
    CHECK(device.out.size() == 3);
    const caching_pool<fake_source> second{std::move(first)};
    CHECK(second.held() == 512 + size_class(5000) + size_class(70000));
  }
  CHECK(device.out.empty());
  CHECK(device.room == (1U << 30U));
}
