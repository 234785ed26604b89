// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_COMPRESS_CODEC_CHECKS_HPP
#define CAUSEWAY_TESTS_COMPRESS_CODEC_CHECKS_HPP

// What every codec must do, whatever it makes of the values.

#include "support/catch.hpp"
#include "support/simd_levels.hpp"

#include <causeway/collective/encoding.hpp>
#include <causeway/compress/codec.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/kernels/cpu_features.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

namespace codec_checks {

using causeway::errc;
using causeway::thread_pool;
using causeway::kernels::simd_level;

inline const std::size_t lengths[] = {0, 1, 2, 15, 16, 17, 63, 64, 65, 255, 256, 257, 1000, 4096, 5000, 40001};

/// Both signs, magnitudes from 2^-20 to 2^4, some zeros.
inline std::vector<float> values(std::size_t count, std::uint64_t seed = 1) {
  std::vector<float> all(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t bits = causeway::detail::scramble(seed * 1000003 + i);
    const float mantissa = static_cast<float>(static_cast<std::int32_t>(bits >> 32U)) * 0x1.0p-31F;
    all[i] = bits % 50 == 0 ? 0.0F : mantissa * std::bit_cast<float>(static_cast<std::uint32_t>(107 + bits % 25) << 23U);
  }
  return all;
}

/// Runs of all that a float can be: usual numbers, zeros, subnormal ones, any finite bits, the largest ones, and usual ones
/// with a NaN or an infinity among them.
inline std::vector<float> mixed_values(std::size_t count) {
  std::vector<float> all = values(count, 3);
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = static_cast<std::uint32_t>(causeway::detail::scramble(i));
    const std::size_t kind = i / 600 % 7;
    const bool rare = i % 600 == 350;
    if (kind == 1) all[i] = bits % 2 == 0 ? 0.0F : -0.0F;
    if (kind == 2) all[i] = std::bit_cast<float>(bits & 0x807FFFFFU);
    if (kind == 3) all[i] = std::bit_cast<float>((bits & 0x7F800000U) == 0x7F800000U ? bits & 0xBFFFFFFFU : bits);
    if (kind == 4) all[i] = std::bit_cast<float>((bits & 0x807FFFFFU) | 0x7F000000U);
    if (kind == 5 && rare) all[i] = std::numeric_limits<float>::quiet_NaN();
    if (kind == 6 && rare) all[i] = -std::numeric_limits<float>::infinity();
  }
  return all;
}

template <class C>
std::vector<std::byte> encode(const C& codec, thread_pool& pool, const std::vector<float>& x, auto... level) {
  std::vector<std::byte> bytes(codec.encoded_size(x.size()));
  REQUIRE(codec.encode(pool, x, bytes, level...) == bytes.size());
  return bytes;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

/// The same bytes and values for every instruction set and thread count.
template <class C>
void check_determinism(const C& codec) {
  thread_pool alone{1}, three{3};
  for (const std::size_t n : lengths) {
    INFO(n << " values");
    const auto x = values(n);
    const auto bytes = encode(codec, alone, x, simd_level::portable);
    std::vector<float> decoded(n, -1.0F);
    REQUIRE(codec.decode(alone, bytes, decoded, simd_level::portable));
    CHECK(encode(codec, three, x) == bytes);
    for (const simd_level level : support::simd_levels()) {
      INFO(to_string(level));
      CHECK(encode(codec, alone, x, level) == bytes);
      std::vector<float> again(n, 1.0F), threaded(n, 2.0F);
      REQUIRE(codec.decode(alone, bytes, again, level));
      REQUIRE(codec.decode(three, bytes, threaded, level));
      CHECK(same_bits(again, decoded));
      CHECK(same_bits(threaded, decoded));
    }
  }
}

/// A codec of blocks makes what its formula says, of any values and with every instruction set: the scale of each block is
/// its largest magnitude over `largest`, and each value becomes `code(value times 1/scale)`.
template <class C, class Code>
void check_formula(const C& codec, float largest, std::uint8_t zero, Code&& code) {
  const auto x = mixed_values(30001);
  std::vector<std::byte> scales, codes;
  for (std::size_t start = 0; start < x.size(); start += codec.block()) {
    const std::span<const float> block = std::span{x}.subspan(start, std::min(codec.block(), x.size() - start));
    std::uint32_t most = 0;
    for (const float v : block) most = std::max(most, std::bit_cast<std::uint32_t>(v) & 0x7FFFFFFFU);
    float scale = std::bit_cast<float>(most) / largest;
    const bool usable = std::isnormal(scale);
    if (!usable) scale = most >= 0x7F800000U ? std::numeric_limits<float>::quiet_NaN() : 0.0F;
    const auto bytes = std::bit_cast<std::array<std::byte, 4>>(scale);
    scales.insert(scales.end(), bytes.begin(), bytes.end());
    for (const float v : block) codes.push_back(static_cast<std::byte>(usable ? code(v * (1.0F / scale)) : zero));
  }
  scales.insert(scales.end(), codes.begin(), codes.end());
  thread_pool pool{1};
  for (const simd_level level : support::simd_levels()) {
    INFO(to_string(level));
    CHECK(encode(codec, pool, x, level) == scales);
  }
}

/// decode_add gives the bits of decode, a multiplication and an addition; after an error the sum is as it was.
template <class C>
void check_adding(const C& codec) {
  thread_pool alone{1}, three{3};
  for (const std::size_t n : lengths) {
    INFO(n << " values");
    const auto start = values(n, 7);
    auto bytes = encode(codec, alone, values(n));
    std::vector<float> decoded(n), expected = start;
    REQUIRE(codec.decode(alone, bytes, decoded));
    for (std::size_t i = 0; i < n; ++i) {
      const volatile float product = 0.3F * decoded[i];  // volatile: never fused with the addition
      expected[i] = start[i] + product;
    }
    for (const simd_level level : support::simd_levels()) {
      INFO(to_string(level));
      auto sum = start, threaded = start;
      REQUIRE(codec.decode_add(alone, bytes, sum, 0.3F, level));
      REQUIRE(codec.decode_add(three, bytes, threaded, 0.3F, level));
      CHECK(same_bits(sum, expected));
      CHECK(same_bits(threaded, expected));
    }
    auto sum = start;
    bytes.push_back(std::byte{0});
    CHECK(codec.decode_add(three, bytes, sum, 1.0F).error().code == errc::protocol);
    if (n == 0) continue;
    auto poisoned = values(n);
    poisoned.back() = std::numeric_limits<float>::quiet_NaN();
    CHECK(codec.decode_add(three, encode(codec, alone, poisoned), sum, 1.0F).error().code == errc::non_finite);
    CHECK(same_bits(sum, start));
  }
}

/// Sums of what was sent and of what is left over are what was put in, but for rounding, whatever the codec loses.
template <class C>
void check_error_feedback(const C& codec) {
  constexpr std::size_t n = 3000;
  thread_pool pool{1};
  std::vector<double> put_in(n), sent_sum(n), scale(n);
  std::vector<float> residual(n), sent(n);
  for (std::uint64_t round = 0; round < 100; ++round) {
    const auto gradient = values(n, round + 1);
    for (std::size_t i = 0; i < n; ++i) put_in[i] += static_cast<double>(gradient[i]);
    for (std::size_t i = 0; i < n; ++i) residual[i] += gradient[i];
    const auto bytes = encode(codec, pool, residual);
    REQUIRE(codec.decode(pool, bytes, sent));
    REQUIRE(codec.decode_add(pool, bytes, residual, -1.0F));
    for (std::size_t i = 0; i < n; ++i) sent_sum[i] += static_cast<double>(sent[i]);
    for (std::size_t i = 0; i < n; ++i) scale[i] += std::abs(static_cast<double>(sent[i])) + std::abs(gradient[i]);
  }
  std::size_t lost = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double off = sent_sum[i] + static_cast<double>(residual[i]) - put_in[i];
    if (std::abs(off) > scale[i] * 0x1.0p-22) ++lost;
  }
  CHECK(lost == 0);
}

/// Bytes that nobody encoded: refused with one of the three codes and the sum untouched, or decoded to finite values.
template <class C>
void check_random_bytes(const C& codec, std::size_t cases = 4000) {
  thread_pool pool{1};
  std::size_t refused = 0, wrong = 0;
  for (std::uint64_t seed = 0; seed < cases; ++seed) {
    const std::size_t n = causeway::detail::scramble(seed) % 200;
    std::vector<std::byte> bytes = encode(codec, pool, values(n, seed));
    const std::uint64_t how = causeway::detail::scramble(seed ^ 0xABCDEF);
    if (how % 8 == 0) bytes.resize(how / 8 % (bytes.size() + 9));
    const std::size_t changes = how % 3 == 0 ? bytes.size() : how % 7;
    for (std::size_t k = 0; k < changes && !bytes.empty(); ++k) {
      const std::uint64_t r = causeway::detail::scramble(seed * 1000 + k);
      bytes[changes == bytes.size() ? k : r % bytes.size()] = static_cast<std::byte>(r >> 32U);
    }
    const auto start = values(n, 5);
    auto sum = start;
    const auto added = codec.decode_add(pool, bytes, sum, 1.0F);
    std::vector<float> decoded(n);
    const auto plain = codec.decode(pool, bytes, decoded);
    if (added.has_value() != plain.has_value()) ++wrong;
    if (added) {
      for (const float v : decoded) wrong += std::isfinite(v) ? 0U : 1U;
    } else {
      ++refused;
      const errc code = added.error().code;
      if (code != errc::protocol && code != errc::corrupt && code != errc::non_finite) ++wrong;
      if (code != plain.error().code || !same_bits(sum, start)) ++wrong;
    }
  }
  CHECK(wrong == 0);
  CHECK(refused > cases / 20);  // the changes did reach what is checked
}

/// Decoding is encoding's inverse on what was decoded: nothing is lost twice.
template <class C>
void check_second_trip(const C& codec) {
  thread_pool pool{1};
  const auto x = values(5000);
  std::vector<float> once(x.size()), twice(x.size());
  REQUIRE(codec.decode(pool, encode(codec, pool, x), once));
  REQUIRE(codec.decode(pool, encode(codec, pool, once), twice));
  CHECK(same_bits(once, twice));
}

/// Values cut at a multiple of block() decode to the same as uncut ones.
template <class C>
void check_cuts(const C& codec) {
  thread_pool pool{1};
  const auto x = values(9000);
  std::vector<float> whole(x.size()), left(3 * std::max(codec.block(), std::size_t{7})), right(x.size() - left.size());
  REQUIRE(codec.decode(pool, encode(codec, pool, x), whole));
  const auto cut = x.begin() + static_cast<std::ptrdiff_t>(left.size());
  REQUIRE(codec.decode(pool, encode(codec, pool, {x.begin(), cut}), left));
  REQUIRE(codec.decode(pool, encode(codec, pool, {cut, x.end()}), right));
  left.insert(left.end(), right.begin(), right.end());
  CHECK(same_bits(left, whole));
}

/// Bytes of every wrong length are refused; so are values that are not finite, wherever they stand.
template <class C>
void check_refusals(const C& codec) {
  thread_pool pool{1};
  const auto x = values(300);
  auto bytes = encode(codec, pool, x);
  std::vector<float> room(x.size());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    CHECK(codec.decode(pool, std::span{bytes}.first(length), room).error().code == errc::protocol);
  }
  bytes.push_back(std::byte{0});
  CHECK(codec.decode(pool, bytes, room).error().code == errc::protocol);
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float poison :
       {infinity, -infinity, std::numeric_limits<float>::quiet_NaN(), std::bit_cast<float>(0xFFFFFFFFU)}) {
    for (const std::size_t at : {std::size_t{0}, std::size_t{150}, std::size_t{299}}) {
      auto poisoned = x;
      poisoned[at] = poison;
      CHECK(codec.decode(pool, encode(codec, pool, poisoned), room).error().code == errc::non_finite);
    }
  }
}

/// Of the bytes of 40,001 values: peers of different versions understand each other, so these numbers stay.
template <class C>
std::uint64_t checksum_of_bytes(const C& codec) {
  thread_pool pool{1};
  return causeway::hash_bytes(encode(codec, pool, values(40001)));
}

inline std::vector<int> as_ints(const std::vector<std::byte>& bytes) {
  std::vector<int> ints;
  for (const std::byte b : bytes) ints.push_back(std::to_integer<int>(b));
  return ints;
}

}  // namespace codec_checks

#endif  // CAUSEWAY_TESTS_COMPRESS_CODEC_CHECKS_HPP
