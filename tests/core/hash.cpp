// SPDX-License-Identifier: Apache-2.0
#include <causeway/core/hash.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;

namespace {

std::vector<std::byte> counting(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7 + 3);
  return bytes;
}

}  // namespace

TEST_CASE("hash: the value is part of our file formats", "[core][fast]") {
  // Changing these makes every checkpoint ever written fail its checksum.
  CHECK(hash_text("") == 0xB1281EF0347C6081U);
  CHECK(hash_text("causeway") == 0x8AA0E0B4B800A82DU);
  CHECK(hash_bytes(counting(1000)) == 0xD4DB7003382F44CDU);
  CHECK(hash_bytes(counting(1000), 42) == 0x7353582087C78022U);
}

TEST_CASE("hash: every single flipped bit is noticed", "[core][fast]") {
  for (const std::size_t count : {1U, 8U, 63U, 64U, 65U, 200U}) {
    auto bytes = counting(count);
    std::set<std::uint64_t> seen{hash_bytes(bytes)};
    for (std::size_t bit = 0; bit < 8 * count; ++bit) {
      bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
      seen.insert(hash_bytes(bytes));
      bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    }
    CHECK(seen.size() == 8 * count + 1);
  }
}

TEST_CASE("hash: length counts, also where only zeros are added", "[core][fast]") {
  std::set<std::uint64_t> seen;
  for (std::size_t count = 0; count < 300; ++count) seen.insert(hash_bytes(std::vector<std::byte>(count)));
  CHECK(seen.size() == 300);
}

TEST_CASE("hash: swapped blocks are noticed", "[core][fast]") {
  const auto bytes = counting(256);
  auto swapped = bytes;
  for (std::size_t i = 0; i < 64; ++i) std::swap(swapped[i], swapped[128 + i]);
  CHECK(hash_bytes(bytes) != hash_bytes(swapped));
}

TEST_CASE("hasher: pieces of whole blocks give what one piece gives", "[core][fast]") {
  const auto bytes = counting(64 * 5 + 13);
  const std::span<const std::byte> all{bytes};
  hasher pieces;
  pieces.add(all.subspan(0, 64)).add(all.subspan(64, 192)).add(all.subspan(256));
  CHECK(pieces.finish() == hash_bytes(bytes));
  CHECK(hasher{}.add_value(std::uint32_t{1}).finish() != hasher{}.add_value(std::uint64_t{1}).finish());
}

TEST_CASE("hash: bytes hash alike wherever they lie in memory", "[core][fast]") {
  const auto bytes = counting(200);
  const std::uint64_t expected = hash_bytes(bytes);
  std::vector<std::byte> room(264, std::byte{0xEE});
  for (std::size_t shift = 0; shift < 64; ++shift) {
    std::copy(bytes.begin(), bytes.end(), room.begin() + static_cast<std::ptrdiff_t>(shift));
    REQUIRE(hash_bytes(std::span{room}.subspan(shift, 200)) == expected);
  }
}

TEST_CASE("hash: another seed gives another value, also for no bytes at all", "[core][fast]") {
  std::set<std::uint64_t> seen;
  for (std::uint64_t seed = 0; seed < 200; ++seed) seen.insert({hash_text("", seed), hash_text("causeway", seed)});
  CHECK(seen.size() == 400);
}

TEST_CASE("hasher: every cut at a block's end gives what one piece gives", "[core][fast]") {
  const auto bytes = counting(64 * 6 + 13);
  const std::span<const std::byte> all{bytes};
  for (std::size_t first = 0; first <= 6; ++first) {
    for (std::size_t second = first; second <= 6; ++second) {
      hasher pieces;
      pieces.add(all.first(64 * first)).add(all.subspan(64 * first, 64 * (second - first))).add(all.subspan(64 * second));
      REQUIRE(pieces.finish() == hash_bytes(bytes));
    }
  }
}

TEST_CASE("hasher: other pieces are closed by their length, so that bytes cannot move between them", "[core][fast]") {
  // Zeros are the hard case: a short piece is filled up with them.
  const std::vector<std::byte> zeros(130);
  const std::span<const std::byte> all{zeros};
  std::set<std::uint64_t> seen;
  for (std::size_t cut = 1; cut < 64; ++cut) {
    hasher pieces;
    seen.insert(pieces.add(all.first(cut)).add(all.subspan(cut, 64 - cut)).finish());
  }
  CHECK(seen.size() == 63);
  const auto pair = [](std::string_view a, std::string_view b) {
    return hasher{}.add_values(std::span<const char>{a}).add_values(std::span<const char>{b}).finish();
  };
  CHECK(pair({"a\0", 2}, "b") != pair("a", {"b\0", 2}));
  CHECK(pair("ab", "c") != pair("a", "bc"));
}

TEST_CASE("hasher: asking for the value changes nothing", "[core][fast]") {
  hasher h;
  h.add_value(std::uint64_t{7});
  const hasher copy = h;
  CHECK(h.finish() == h.finish());
  CHECK(h.add_value(1).finish() == hasher{copy}.add_value(1).finish());
  CHECK(h.finish() != copy.finish());
}
