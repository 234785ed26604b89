// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/codec.hpp>

#include "support/catch.hpp"

#include <causeway/core/rng.hpp>

#include <array>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

using namespace causeway;
using namespace causeway::net;

TEST_CASE("codec: integers are little-endian bytes on the wire", "[net][fast]") {
  byte_writer out;
  out.put(std::uint8_t{0x01})
      .put(std::uint16_t{0x0302})
      .put(std::uint32_t{0x07060504})
      .put(std::uint64_t{0x0F0E0D0C0B0A0908});
  REQUIRE(out.bytes().size() == 15);
  for (std::size_t i = 0; i < 15; ++i) CHECK(out.bytes()[i] == static_cast<std::byte>(i + 1));
  CHECK(net::detail::byte_swapped(std::uint32_t{0x01020304}) == 0x04030201U);
  CHECK(net::detail::byte_swapped(std::uint8_t{0x7F}) == 0x7FU);
}

TEST_CASE("codec: what was written is read back", "[net][fast]") {
  byte_writer out;
  out.put(std::uint64_t{42}).put_text("peer").put_bytes({}).put(std::uint16_t{7});
  byte_reader in{out.bytes()};
  CHECK(in.get<std::uint64_t>() == 42);
  CHECK(in.get_text(10) == "peer");
  CHECK(in.get_bytes(10).empty());
  CHECK(in.get<std::uint16_t>() == 7);
  CHECK(in.finish("test"));
}

TEST_CASE("codec: every truncation is noticed, and reads after it give zero", "[net][fast]") {
  byte_writer out;
  out.put(std::uint32_t{0xFFFFFFFF}).put_text("some text").put(std::uint64_t{0xFFFFFFFFFFFFFFFF});
  for (std::size_t keep = 0; keep < out.bytes().size(); ++keep) {
    const std::vector<std::byte> cut{out.bytes().begin(), out.bytes().begin() + static_cast<std::ptrdiff_t>(keep)};
    byte_reader in{cut};
    in.get<std::uint32_t>();
    in.get_text(100);
    CHECK(in.get<std::uint64_t>() == 0);
    CHECK(in.get<std::uint8_t>() == 0);
    const auto outcome = in.finish("test");
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code == errc::corrupt);
  }
}

TEST_CASE("codec: a claimed length beyond the limit or the input is refused without allocating", "[net][fast]") {
  byte_writer out;
  out.put(std::uint32_t{0xFFFFFFF0}).put(std::uint32_t{1});
  byte_reader limited{out.bytes()};
  CHECK(limited.get_bytes(1000).empty());
  CHECK(limited.finish("test").error().code == errc::too_large);
  byte_reader unlimited{out.bytes()};
  CHECK(unlimited.get_bytes(SIZE_MAX).empty());
  CHECK(unlimited.finish("test").error().code == errc::corrupt);
}

TEST_CASE("codec: bytes behind the end are an error", "[net][fast]") {
  const std::array<std::byte, 3> bytes{};
  byte_reader in{bytes};
  in.get<std::uint16_t>();
  CHECK_FALSE(in.finish("test"));
  in.get<std::uint8_t>();
  CHECK(in.finish("test"));
}

TEST_CASE("codec: a stranger's text cannot steer a terminal", "[net][fast]") {
  byte_writer out;
  out.put_text("a\x1b[2J\n\xff z");
  byte_reader in{out.bytes()};
  CHECK(in.get_text(100) == "a?[2J?? z");
}

TEST_CASE("codec: random bytes never make the reader look past its input", "[net][fast]") {
  std::mt19937_64 random{7};
  for (int round = 0; round < 50'000; ++round) {
    std::vector<std::byte> bytes(random() % 40);  // exactly as large as the input, so that a sanitizer sees an over-read
    for (std::byte& b : bytes) b = static_cast<std::byte>(random() % 4 == 0 ? random() : 0);
    byte_reader in{bytes};
    std::size_t seen = 0;
    while (in.ok() && in.remaining() != 0) {
      const std::size_t before = in.remaining();
      if (random() % 2 == 0)
        seen += in.get_bytes(random() % 64).size();
      else
        in.get<std::uint16_t>();
      REQUIRE((!in.ok() || in.remaining() < before));
    }
    REQUIRE(seen <= bytes.size());
  }
}
