// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_COMPRESS_CODEC_CHECKS_HPP
#define CAUSEWAY_TESTS_COMPRESS_CODEC_CHECKS_HPP

// What every codec must do, whatever it makes of the values.

#include "support/catch.hpp"

#include <causeway/collective/encoding.hpp>
#include <causeway/compress/codec.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/kernels/cpu_features.hpp>

#include <bit>
#include <cstring>
#include <limits>
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

template <class C>
std::vector<std::byte> encode(const C& codec, thread_pool& pool, const std::vector<float>& x, auto... level) {
  std::vector<std::byte> bytes(codec.encoded_size(x.size()));
  REQUIRE(codec.encode(pool, x, bytes, level...) == bytes.size());
  return bytes;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

inline std::vector<simd_level> levels() {
  std::vector<simd_level> all;
  for (const auto l : {simd_level::portable, simd_level::avx2, simd_level::avx512, simd_level::avx512_bf16}) {
    if (l <= causeway::kernels::detect_simd_level()) all.push_back(l);
  }
  return all;
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
    for (const simd_level level : levels()) {
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

inline std::vector<int> as_ints(const std::vector<std::byte>& bytes) {
  std::vector<int> ints;
  for (const std::byte b : bytes) ints.push_back(std::to_integer<int>(b));
  return ints;
}

}  // namespace codec_checks

#endif  // CAUSEWAY_TESTS_COMPRESS_CODEC_CHECKS_HPP
