// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/shared_rings.hpp>

#include "support/catch.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

using namespace causeway;
using namespace causeway::net::detail;

namespace {

constexpr std::size_t ring = shared_rings::least_ring;

/// Both sides of one memory, as two processes have them, and the memory itself as a third one would see it.
struct both_sides {
  explicit both_sides(std::size_t ring_bytes = ring) {
    auto made = shared_rings::make(ring_bytes);
    REQUIRE(made);
    length = 4096 + 2 * ring_bytes;
    void* const base = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, made->memory().get(), 0);
    REQUIRE(base != MAP_FAILED);
    raw = static_cast<std::byte*>(base);
    auto joined = shared_rings::join(owned_descriptor{::dup(made->memory().get())});
    REQUIRE(joined);
    a.emplace(std::move(*made));
    b.emplace(std::move(*joined));
  }
  ~both_sides() { ::munmap(raw, length); }
  both_sides(const both_sides&) = delete;
  both_sides& operator=(const both_sides&) = delete;

  /// The head of the ring that `a` writes.
  [[nodiscard]] ring_head& head() const { return *reinterpret_cast<ring_head*>(raw); }

  std::optional<shared_rings> a;
  std::optional<shared_rings> b;
  std::byte* raw = nullptr;
  std::size_t length = 0;
};

/// The byte at a place of an endless stream.
std::byte nth(std::uint64_t i) { return static_cast<std::byte>((i * 31 + i / 251) & 0xFFU); }

std::vector<std::byte> stream_from(std::uint64_t begin, std::size_t length) {
  std::vector<std::byte> bytes(length);
  for (std::size_t i = 0; i < length; ++i) bytes[i] = nth(begin + i);
  return bytes;
}

}  // namespace

TEST_CASE("shared rings: bytes come out as they went in, in pieces of every size, both ways", "[net][fast]") {
  both_sides sides;
  const bool a_writes = GENERATE(true, false);
  shared_rings& from = a_writes ? *sides.a : *sides.b;
  shared_rings& to = a_writes ? *sides.b : *sides.a;
  std::mt19937_64 random{5};
  std::uint64_t written = 0;
  std::uint64_t read = 0;
  bool good = true;
  while (read < 20 * ring) {
    const auto head = stream_from(written, random() % 100);
    const auto body = stream_from(written + head.size(), random() % 3 == 0 ? random() % (2 * ring) : random() % 1000);
    const std::size_t n = from.write(head, body);
    good = good && n == std::min({head.size() + body.size(), ring - static_cast<std::size_t>(written - read)});
    written += n;
    std::vector<std::byte> out(random() % 2 == 0 ? random() % (2 * ring) : random() % 1000);
    const std::size_t m = to.read(out);
    good = good && m == std::min(out.size(), static_cast<std::size_t>(written - read));
    out.resize(m);
    good = good && out == stream_from(read, m);
    read += m;
  }
  CHECK(good);
  CHECK_FALSE(from.broken());
  CHECK_FALSE(to.broken());
}

TEST_CASE("shared rings: two threads, and whoever sleeps is woken", "[net][fast]") {
  both_sides sides;
  constexpr std::uint64_t all = 200 * ring;
  std::array<std::atomic<int>, 2> wakes{};  // of the reader, of the writer
  const auto sleep = [&wakes](std::size_t who) {
    wakes[who].wait(0);
    --wakes[who];
  };
  const auto wake_other = [&wakes](shared_rings& mine, std::size_t who) {
    if (!mine.must_wake()) return;
    ++wakes[who];
    wakes[who].notify_one();
  };
  std::thread writer{[&] {
    for (std::uint64_t written = 0; written < all;) {
      const auto bytes = stream_from(written, static_cast<std::size_t>(std::min<std::uint64_t>(10'007, all - written)));
      const std::size_t n = sides.a->write(bytes);
      written += n;
      wake_other(*sides.a, 0);
      if (n < bytes.size() && sides.a->sleep_until_writable()) sleep(1);
    }
  }};
  bool good = true;
  std::vector<std::byte> out(7'001);
  for (std::uint64_t read = 0; read < all;) {
    const std::size_t n = sides.b->read(out);
    for (std::size_t i = 0; i < n; ++i) good = good && out[i] == nth(read + i);
    read += n;
    wake_other(*sides.b, 1);
    if (n == 0 && sides.b->sleep_until_readable()) sleep(0);
  }
  writer.join();
  CHECK(good);
}

TEST_CASE("shared rings: a sleeper is woken once, a writer when half is free", "[net][fast]") {
  both_sides sides;
  shared_rings& a = *sides.a;
  shared_rings& b = *sides.b;
  const auto bytes = stream_from(0, ring);
  std::vector<std::byte> out(ring);
  REQUIRE(b.sleep_until_readable());
  CHECK_FALSE(a.must_wake());  // nothing was written
  REQUIRE(a.write(std::span{bytes}.first(10)) == 10);
  CHECK(a.must_wake());
  CHECK_FALSE(a.must_wake());
  CHECK_FALSE(b.sleep_until_readable());  // there is something
  REQUIRE(a.write(bytes) == ring - 10);
  CHECK_FALSE(a.must_wake());  // nobody sleeps
  REQUIRE(a.sleep_until_writable());
  REQUIRE(b.read(std::span{out}.first(ring / 2 - 1)) == ring / 2 - 1);
  CHECK_FALSE(b.must_wake());
  REQUIRE(b.read(std::span{out}.first(1)) == 1);
  CHECK(b.must_wake());
  CHECK_FALSE(a.sleep_until_writable());
}

TEST_CASE("shared rings: counters that cannot be end it, and nothing beyond the ring is touched", "[net][fast]") {
  both_sides sides;
  const auto bytes = stream_from(0, 100);
  REQUIRE(sides.a->write(bytes) == 100);
  std::vector<std::byte> out(2 * ring);
  const int what = GENERATE(range(0, 4));
  CAPTURE(what);
  if (what == 0) sides.head().written = ring + 1;
  if (what == 1) sides.head().written = UINT64_MAX;
  if (what == 2) sides.head().read = 101;  // more than there ever was
  if (what == 3) sides.head().read = UINT64_MAX - ring;
  if (what < 2) {
    CHECK_FALSE(sides.b->sleep_until_readable());
    CHECK(sides.b->read(out) == 0);
    CHECK(sides.b->broken());
    CHECK(sides.b->write(bytes) == 0);
  } else {
    CHECK_FALSE(sides.a->sleep_until_writable());
    CHECK(sides.a->write(bytes) == 0);
    CHECK(sides.a->broken());
    CHECK(sides.a->read(out) == 0);
  }
}

TEST_CASE("shared rings: only our own counters are believed", "[net][fast]") {
  both_sides sides;
  const auto bytes = stream_from(0, 100);
  REQUIRE(sides.a->write(bytes) == 100);
  sides.head().written = 0;  // the other side may scribble over it: the writer does not look
  REQUIRE(sides.a->write(stream_from(100, 50)) == 50);
  std::vector<std::byte> out(200);
  REQUIRE(sides.b->read(out) == 150);
  out.resize(150);
  CHECK((out == stream_from(0, 150)));
}

TEST_CASE("shared rings: what could shrink, or has another size, is not mapped", "[net][fast]") {
  const auto join = [](int fd) { return shared_rings::join(owned_descriptor{fd}); };
  const auto memory = [](std::size_t length, int seals) {
    const int fd = ::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    REQUIRE(::ftruncate(fd, static_cast<off_t>(length)) == 0);
    REQUIRE((seals == 0 || ::fcntl(fd, F_ADD_SEALS, seals) == 0));
    return fd;
  };
  CHECK(join(memory(4096 + 2 * ring, F_SEAL_SHRINK)));
  CHECK(join(memory(4096 + 2 * ring, 0)).error().code == errc::protocol);
  CHECK(join(memory(4096 + 2 * ring, F_SEAL_GROW)).error().code == errc::protocol);
  for (const std::size_t length : {std::size_t{0}, std::size_t{4096}, 4096 + 2 * ring - 1, 4096 + 2 * ring + 1, 4096 + ring,
                                   4096 + 3 * ring, 4096 + 4 * shared_rings::most_ring}) {
    CAPTURE(length);
    CHECK(join(memory(length, F_SEAL_SHRINK)).error().code == errc::protocol);
  }
  CHECK(join(::open("/dev/null", O_RDWR)).error().code == errc::protocol);
  CHECK(join(-1).error().code == errc::protocol);
}
