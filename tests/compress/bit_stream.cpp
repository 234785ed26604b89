// SPDX-License-Identifier: Apache-2.0
#include <causeway/compress/bit_stream.hpp>

#include "support/catch.hpp"

#include <causeway/core/rng.hpp>

#include <vector>

using namespace causeway;
using namespace causeway::compress;

namespace {

std::vector<std::byte> packed(const std::vector<std::uint32_t>& codes, unsigned bits) {
  std::vector<std::byte> bytes(bytes_of_bits(codes.size() * bits));
  bit_writer out{bytes};
  for (const std::uint32_t code : codes) out.put(code, bits);
  out.finish();
  return bytes;
}

}  // namespace

TEST_CASE("bit stream: two numbers of twelve bits are three bytes, lowest bits first", "[compress][fast]") {
  CHECK(packed({0xABC, 0x123}, 12) == std::vector<std::byte>{std::byte{0xBC}, std::byte{0x3A}, std::byte{0x12}});
  CHECK(packed({1, 0, 1, 1, 0, 0, 0, 1, 1}, 1) == std::vector<std::byte>{std::byte{0x8D}, std::byte{0x01}});
  CHECK(packed({0xDEADBEEF}, 32) ==
        std::vector<std::byte>{std::byte{0xEF}, std::byte{0xBE}, std::byte{0xAD}, std::byte{0xDE}});
  CHECK(packed({5, 6, 7}, 0).empty());
}

TEST_CASE("bit stream: numbers of every width come back, and fill no byte more than they need", "[compress][fast]") {
  for (unsigned bits = 1; bits <= 32; ++bits) {
    for (const std::size_t count : {0U, 1U, 2U, 7U, 8U, 31U, 64U, 100U}) {
      rng random{bits, count};
      std::vector<std::uint32_t> codes(count), back(count, 77);
      for (auto& code : codes) code = static_cast<std::uint32_t>(random.next() >> (64 - bits));
      if (count > 0) codes.back() = static_cast<std::uint32_t>((std::uint64_t{1} << bits) - 1);
      const auto bytes = packed(codes, bits);
      CHECK(bytes.size() == (count * bits + 7) / 8);
      const bit_reader in{bytes};
      for (std::size_t i = 0; i < count; ++i) back[i] = in.get(i * bits, bits);
      CHECK(back == codes);
      CHECK(in.zero_from(count * bits));
    }
  }
}

TEST_CASE("bit stream: beyond the end everything reads as zero", "[compress][fast]") {
  const std::vector<std::byte> bytes(3, std::byte{0xFF});
  const bit_reader in{bytes};
  CHECK(in.size() == 24);
  CHECK(in.get(0, 32) == 0xFFFFFF);
  CHECK(in.get(20, 8) == 0xF);
  CHECK(in.get(23, 1) == 1);
  CHECK(in.get(24, 32) == 0);
  CHECK(in.get(std::size_t{1} << 40U, 32) == 0);
  CHECK(bit_reader{{}}.get(0, 5) == 0);
}

TEST_CASE("bit stream: ones after the numbers are seen", "[compress][fast]") {
  std::vector<std::byte> bytes(20);
  CHECK(bit_reader{bytes}.zero_from(0));
  for (const std::size_t at : {0U, 5U, 63U, 64U, 101U, 159U}) {
    std::vector<std::byte> one(20);
    one[at / 8] = static_cast<std::byte>(1U << (at % 8));
    CHECK_FALSE(bit_reader{one}.zero_from(0));
    CHECK_FALSE(bit_reader{one}.zero_from(at));
    CHECK(bit_reader{one}.zero_from(at + 1));
  }
}

TEST_CASE("bit stream: how many bits a number below a bound has", "[compress][fast]") {
  CHECK(bits_below(0) == 0);
  CHECK(bits_below(1) == 0);
  CHECK(bits_below(2) == 1);
  CHECK(bits_below(64) == 6);
  CHECK(bits_below(65) == 7);
  CHECK(bits_below(4096) == 12);
  CHECK(bits_below(4097) == 13);
}
