// SPDX-License-Identifier: Apache-2.0
#include <causeway/compress/packing.hpp>

#include "support/catch.hpp"

#include <causeway/core/hash.hpp>

#include <vector>

using namespace causeway;
using namespace causeway::compress::detail;

namespace {

std::vector<std::uint8_t> random_codes(std::size_t count, unsigned bits) {
  std::vector<std::uint8_t> codes(count);
  for (std::size_t i = 0; i < count; ++i) {
    codes[i] = static_cast<std::uint8_t>(causeway::detail::scramble(i * 8 + bits) >> (64 - bits));
  }
  return codes;
}

/// Bit by bit.
std::vector<std::byte> packed_plainly(const std::vector<std::uint8_t>& codes, unsigned bits) {
  std::vector<std::byte> bytes((codes.size() * bits + 7) / 8);
  for (std::size_t at = 0; at < codes.size() * bits; ++at) {
    const unsigned bit = (codes[at / bits] >> at % bits) & 1U;
    bytes[at / 8] |= static_cast<std::byte>(bit << at % 8);
  }
  return bytes;
}

}  // namespace

TEMPLATE_TEST_CASE_SIG("packing: codes lie one after another, lowest bits first, and come back", "[compress][fast]",
                       ((unsigned B), B), 1, 2, 3, 4, 5, 6, 7, 8) {
  for (std::size_t count = 1; count <= 16; ++count) {
    const auto codes = random_codes(count, B);
    u8x16 lanes, back;
    std::memset(&lanes, 0xFF, sizeof lanes);  // lanes beyond the tail must not show
    std::memcpy(&lanes, codes.data(), count);
    std::vector<std::byte> packed(packed_size(count, B));
    const kernels::detail::tail part{static_cast<std::int64_t>(count)};
    if (count == 16) {
      pack<B>(packed.data(), lanes, kernels::detail::whole{});
      unpack<B>(back, packed.data(), kernels::detail::whole{});
    } else {
      pack<B>(packed.data(), lanes, part);
      unpack<B>(back, packed.data(), part);
    }
    CHECK(packed == packed_plainly(codes, B));
    CHECK(std::memcmp(&back, codes.data(), count) == 0);
  }
}

TEST_CASE("packing: bits behind the last code are looked at, others are not", "[compress][fast]") {
  const std::vector<std::byte> two{std::byte{0xFF}, std::byte{0x0F}};
  CHECK(spare_bits_clear(two, 4, 3));  // 12 bits used
  CHECK_FALSE(spare_bits_clear(two, 11, 1));
  CHECK(spare_bits_clear(two, 16, 1));
  CHECK(spare_bits_clear({}, 0, 5));
}

TEST_CASE("packing: codes become integers and back, signed and unsigned", "[compress][fast]") {
  u8x16 codes;
  i8x16 numbers;
  for (int lane = 0; lane < 16; ++lane) {
    codes[lane] = static_cast<std::uint8_t>(17 * lane);
    numbers[lane] = static_cast<std::int8_t>(17 * lane - 128);
  }
  kernels::detail::i32x16 wide, from_signed;
  widen_codes(wide, codes);
  widen_codes(from_signed, numbers);
  u8x16 again;
  narrow_codes(again, wide);
  for (int lane = 0; lane < 16; ++lane) {
    CHECK(wide[lane] == 17 * lane);
    CHECK(from_signed[lane] == 17 * lane - 128);
    CHECK(again[lane] == codes[lane]);
  }
}
