// SPDX-License-Identifier: Apache-2.0
#include <causeway/tensor/dtype.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "support/catch.hpp"

using namespace causeway;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

template <class Half>
float value_of(std::uint32_t bits) {
  Half h;
  h.bits = static_cast<std::uint16_t>(bits);
  return static_cast<float>(h);
}

// Every finite half of one sign, as f32, is itself again; between two neighbours the nearer one wins, the even one on a
// tie.
template <class Half>
void check_rounding(std::uint32_t sign, std::uint32_t infinity_bits) {
  for (std::uint32_t bits = 0; bits < infinity_bits; ++bits) {
    const float here = value_of<Half>(sign | bits);
    REQUIRE(Half{here}.bits == (sign | bits));
    if (bits + 1 == infinity_bits) continue;
    const float next = value_of<Half>(sign | (bits + 1));
    const float middle = static_cast<float>((static_cast<double>(here) + static_cast<double>(next)) / 2);
    const std::uint32_t even = bits % 2 == 0 ? bits : bits + 1;
    REQUIRE(Half{middle}.bits == (sign | even));
    REQUIRE(Half{std::nextafter(middle, here)}.bits == (sign | bits));
    REQUIRE(Half{std::nextafter(middle, next)}.bits == (sign | (bits + 1)));
  }
}

}  // namespace

TEST_CASE("bf16: every value survives, and everything between rounds to nearest even", "[tensor][fast]") {
  check_rounding<bf16>(0, 0x7F80);
  check_rounding<bf16>(0x8000, 0x7F80);
}

TEST_CASE("f16: every value survives, and everything between rounds to nearest even", "[tensor][fast]") {
  check_rounding<f16>(0, 0x7C00);
  check_rounding<f16>(0x8000, 0x7C00);
}

TEST_CASE("bf16: infinities, NaN and what is too large", "[tensor][fast]") {
  CHECK(static_cast<float>(bf16{infinity}) == infinity);
  CHECK(static_cast<float>(bf16{-infinity}) == -infinity);
  CHECK(std::isnan(static_cast<float>(bf16{not_a_number})));
  // A NaN whose payload sits in the lower half only must not become infinite.
  CHECK(std::isnan(static_cast<float>(bf16{std::bit_cast<float>(0x7F800001U)})));
  CHECK(static_cast<float>(bf16{std::numeric_limits<float>::max()}) == infinity);
}

TEST_CASE("f16: infinities, NaN, what is too large and what is too small", "[tensor][fast]") {
  CHECK(static_cast<float>(f16{infinity}) == infinity);
  CHECK(static_cast<float>(f16{-infinity}) == -infinity);
  CHECK(std::isnan(static_cast<float>(f16{not_a_number})));
  CHECK(static_cast<float>(f16{65504.0F}) == 65504.0F);
  CHECK(static_cast<float>(f16{65519.996F}) == 65504.0F);
  CHECK(static_cast<float>(f16{65520.0F}) == infinity);
  CHECK(static_cast<float>(f16{0x1p-24F}) == 0x1p-24F);
  CHECK(static_cast<float>(f16{0x1p-25F}) == 0.0F);  // a tie: even is zero
  CHECK(static_cast<float>(f16{0x1.000002p-25F}) == 0x1p-24F);
  CHECK(std::signbit(static_cast<float>(f16{-1e-30F})));
}

TEST_CASE("dtype: sizes and names belong together", "[tensor][fast]") {
  CHECK(size_of(dtype_of<float>) == sizeof(float));
  CHECK(size_of(dtype_of<bf16>) == sizeof(bf16));
  CHECK(size_of(dtype_of<f16>) == sizeof(f16));
  CHECK(size_of(dtype_of<std::int32_t>) == 4);
  CHECK(size_of(dtype_of<std::int8_t>) == 1);
  CHECK(to_string(dtype_of<bf16>) == "bf16");
  CHECK(to_string(dtype::u8) == "u8");
  // These numbers stand in files and frames.
  CHECK((static_cast<int>(dtype::f32) == 0 && static_cast<int>(dtype::bf16) == 1 && static_cast<int>(dtype::f16) == 2));
}

TEST_CASE("f16 and bf16: every NaN stays a NaN of its sign, quiet, through f32 and back", "[tensor][fast]") {
  int nans = 0;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    if (const float x = value_of<f16>(bits); std::isnan(x)) {
      REQUIRE(std::signbit(x) == (bits >= 0x8000));
      REQUIRE(f16{x}.bits == ((bits & 0x8000U) | 0x7E00U));
      ++nans;
    }
    if (const float x = value_of<bf16>(bits); std::isnan(x)) {
      REQUIRE(std::signbit(x) == (bits >= 0x8000));
      REQUIRE(bf16{x}.bits == (bits | 0x40U));  // the payload is kept
      ++nans;
    }
  }
  CHECK(nans == 2 * 1023 + 2 * 127);
}

// What IEEE 754 says a half is, in plain arithmetic.
TEST_CASE("f16: all 65,536 bit patterns have the value that the standard gives them", "[tensor][fast]") {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const int exponent = static_cast<int>(bits >> 10U & 0x1FU);
    const double fraction = (bits & 0x3FFU) / 1024.0;
    if (exponent == 31) continue;  // the cases above
    const double magnitude = exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, exponent - 15);
    const float x = value_of<f16>(bits);
    REQUIRE(static_cast<double>(x) == (bits >= 0x8000 ? -magnitude : magnitude));
    REQUIRE(std::signbit(x) == (bits >= 0x8000));  // zero has two
  }
}

// Clang 14 has the type for machines with half-precision arithmetic only.
#if defined(__FLT16_MAX__) && !defined(__clang__)
TEST_CASE("f16: agrees with the compiler's half precision over all exponents", "[tensor][fast]") {
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32U; bits += 10'739) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (std::isnan(x)) continue;
    const auto theirs = static_cast<_Float16>(x);
    REQUIRE(f16{x}.bits == std::bit_cast<std::uint16_t>(theirs));
    REQUIRE(value_of<f16>(f16{x}.bits) == static_cast<float>(theirs));
  }
}
#endif

TEST_CASE("bf16: rounding over the largest value goes to infinity, just below stays", "[tensor][fast]") {
  CHECK(bf16{std::bit_cast<float>(0x7F7F7FFFU)}.bits == 0x7F7F);
  CHECK(bf16{std::bit_cast<float>(0x7F7F8000U)}.bits == 0x7F80);  // a tie: even is infinity
  CHECK(bf16{std::bit_cast<float>(0xFF7F8000U)}.bits == 0xFF80);
  CHECK(bf16{std::bit_cast<float>(0x00008000U)}.bits == 0);  // subnormals round like all others
  CHECK(bf16{std::bit_cast<float>(0x00008001U)}.bits == 1);
  CHECK(bf16{std::bit_cast<float>(0x80018000U)}.bits == 0x8002);
}

template <class T>
concept Element = requires {
  detail::element_type<T>::value;
};

TEST_CASE("dtype: conversions work in constant expressions, and numbers beyond ours are no elements", "[tensor][fast]") {
  static_assert(static_cast<float>(bf16{1.0F + 0x1.8p-7F}) == 1.0F + 0x1p-6F);
  static_assert(static_cast<float>(f16{-2.0F - 0x1p-10F}) == -2.0F);
  static_assert(dtype_of<std::uint8_t> == dtype::u8);
  static_assert(!Element<double> && !Element<std::int64_t> && !Element<const float>);
  static_assert(sizeof(bf16) == 2 && sizeof(f16) == 2);
}
