// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMPRESS_SCALE_HPP
#define CAUSEWAY_COMPRESS_SCALE_HPP

// One number per block of neighbouring values, from which the codes of the block are counted: how it is found, stored and
// checked. Shared by the codecs with blocks. Blocks are independent, so they may be shared out among threads.

#include <causeway/compress/codec.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/simd_math.hpp>
#include <causeway/kernels/targets.hpp>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace compress {

enum class scale_format : std::uint8_t { f32, bf16 };

namespace detail {

/// What a look at somebody's bytes found; the values are bits, so that threads can join theirs.
enum class decoding : std::uint8_t { good = 0, corrupt = 1, non_finite = 2 };

inline result<void> to_result(unsigned found, std::string_view codec, std::string_view corrupt) {
  if ((found & static_cast<unsigned>(decoding::non_finite)) != 0) return not_finite(codec);
  if (found != 0) return fail(errc::corrupt, std::string{codec}, std::string{corrupt} + ": no encoder makes them");
  return {};
}

CAUSEWAY_HD constexpr std::size_t bytes_per_scale(scale_format format) noexcept {
  return format == scale_format::f32 ? 4 : 2;
}

CAUSEWAY_HD CAUSEWAY_ALWAYS_INLINE float load_scale(const std::byte* scales, std::int64_t block, scale_format format) {
  if (format == scale_format::bf16) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, scales + block * 2, sizeof bits);
    return std::bit_cast<float>(std::uint32_t{bits} << 16U);
  }
  float scale = 0;
  std::memcpy(&scale, scales + block * 4, sizeof scale);
  return scale;
}

/// Stores the scale and gives back what a reader will see. Rounded up in bf16, so that no code exceeds the largest.
CAUSEWAY_HD CAUSEWAY_ALWAYS_INLINE float store_scale(std::byte* scales, std::int64_t block, scale_format format,
                                                     float scale) {
  if (format == scale_format::bf16) {
    const auto bits = std::bit_cast<std::uint32_t>(scale);
    const bool finite = bits < 0x7F800000U;
    const auto rounded = static_cast<std::uint16_t>(finite ? (bits + 0xFFFFU) >> 16U : 0x7FC0U);
    std::memcpy(scales + block * 2, &rounded, sizeof rounded);
  } else {
    std::memcpy(scales + block * 4, &scale, sizeof scale);
  }
  return load_scale(scales, block, format);
}

/// A scale is usable when neither it nor its reciprocal overflows. One below that is stored as 0, one that is not finite as
/// NaN (always the same NaN: which one arithmetic makes is up to the compiler). Either way the result is 0.
CAUSEWAY_HD CAUSEWAY_ALWAYS_INLINE float store_usable_scale(std::byte* scales, std::int64_t block, scale_format format,
                                                            float scale) {
  scale = store_scale(scales, block, format, scale);
  if (scale >= std::numeric_limits<float>::min() && scale <= std::numeric_limits<float>::max()) return scale;
  const bool small = scale < std::numeric_limits<float>::min();
  store_scale(scales, block, format, small ? 0.0F : std::numeric_limits<float>::quiet_NaN());
  return 0.0F;
}

/// Scales must be zero or more, and `largest` times them finite.
inline decoding check_scales(const std::byte* scales, std::int64_t blocks, scale_format format, float largest) {
  auto found = decoding::good;
  for (std::int64_t b = 0; b < blocks; ++b) {
    const float scale = load_scale(scales, b, format);
    if ((std::bit_cast<std::uint32_t>(scale * largest) & 0x7F800000U) == 0x7F800000U) return decoding::non_finite;
    if ((std::bit_cast<std::uint32_t>(scale) >> 31U) != 0) found = decoding::corrupt;
  }
  return found;
}

/// Lanes below `least` become it, and lanes above `most` that. By arithmetic, since GCC takes comparisons of vectors wider
/// than the machine's apart into single elements. Differences must fit 31 bits.
CAUSEWAY_ALWAYS_INLINE void clamp_lanes(kernels::detail::i32x16& v, std::int32_t least, std::int32_t most) {
  kernels::detail::i32x16 below_most = most - v;
  below_most &= ~(below_most >> 31);
  v = (most - least) - below_most;
  v &= ~(v >> 31);
  v += least;
}

/// Lanes of a magnitude above `most` become plus or minus that.
CAUSEWAY_ALWAYS_INLINE void clamp_magnitudes(kernels::detail::f32x16& v, float most) {
  using kernels::detail::i32x16;
  const i32x16 bits = reinterpret_cast<i32x16>(v);
  const i32x16 below_most = std::bit_cast<std::int32_t>(most) - (bits & 0x7FFFFFFF);
  const i32x16 clamped = bits + (below_most & (below_most >> 31));
  v = reinterpret_cast<kernels::detail::f32x16>(clamped);
}

/// Sum of `term(v)` over all values, which turns a vector of them into what is added, and `last(value)` for those behind
/// the last whole sixteen.
template <class Term, class Last>
CAUSEWAY_ALWAYS_INLINE float sum_values(const float* x, std::int64_t count, Term&& term, Last&& last) {
  CAUSEWAY_EXACT_BODY
  return kernels::detail::sum_lanes(
      count,
      [&](kernels::detail::f32x8& v, std::int64_t i) CAUSEWAY_INLINE_LAMBDA {
        CAUSEWAY_EXACT_BODY
        std::memcpy(&v, x + i, sizeof v);
        term(v);
      },
      [&](std::int64_t i) CAUSEWAY_INLINE_LAMBDA { return last(x[i]); });
}

/// As two vectors of 32 bytes: where registers are no wider g++ would put one of 64 together in memory.
CAUSEWAY_ALWAYS_INLINE void store_halves(std::uint32_t* to, const kernels::detail::u32x16& v) {
  const kernels::detail::u32x8 low = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7);
  const kernels::detail::u32x8 high = __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
  std::memcpy(to, &low, sizeof low);
  std::memcpy(to + 8, &high, sizeof high);
}

/// Root of the mean square. NaN or infinity when a value is, or when a square overflows.
CAUSEWAY_ALWAYS_INLINE float root_mean_square(const float* x, std::int64_t count) {
  CAUSEWAY_EXACT_BODY
  const float sum = sum_values(
      x, count, [](kernels::detail::f32x8& v) CAUSEWAY_INLINE_LAMBDA { v *= v; },
      [](float v) CAUSEWAY_INLINE_LAMBDA { return v * v; });
  return std::sqrt(sum / static_cast<float>(count));
}

/// Largest magnitude, as bits: NaN counts as more than infinity, and infinity as more than any number. Four vectors in
/// turn, because one would wait for itself, and of 16 bytes, which every machine can compare.
CAUSEWAY_ALWAYS_INLINE float largest_magnitude(const float* x, std::int64_t count) {
  using i32x4 [[gnu::vector_size(16)]] = std::int32_t;
  const auto more = [](i32x4& most, const i32x4& v) CAUSEWAY_INLINE_LAMBDA { most = v > most ? v : most; };
  const auto look = [&](i32x4& most, std::int64_t i) CAUSEWAY_INLINE_LAMBDA {
    i32x4 v;
    std::memcpy(&v, x + i, sizeof v);
    more(most, v & 0x7FFFFFFF);
  };
  i32x4 a{}, b{}, c{}, d{};
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    look(a, i);
    look(b, i + 4);
    look(c, i + 8);
    look(d, i + 12);
  }
  more(a, b);
  more(c, d);
  more(a, c);
  more(a, __builtin_shufflevector(a, a, 2, 3, 0, 1));
  more(a, __builtin_shufflevector(a, a, 1, 0, 3, 2));
  std::int32_t largest = a[0];
  for (; i < count; ++i) largest = std::max(largest, std::bit_cast<std::int32_t>(x[i]) & 0x7FFFFFFF);
  return std::bit_cast<float>(largest);
}

constexpr std::size_t blocks_of(std::size_t n, std::size_t block) noexcept { return (n + block - 1) / block; }

/// Cuts [0, n) among the threads at multiples of a block, and of about 2048 values, so that they rarely share a cache line.
void for_blocks(thread_pool& pool, std::size_t n, std::size_t block, auto&& f) {
  const auto count = static_cast<std::int64_t>(n);
  if (count <= kernels::detail::smallest_share) {
    if (count > 0) f(index_range{0, count});
  } else {
    pool.for_range(count, static_cast<std::int64_t>(blocks_of(2048, block) * block), f);
  }
}

}  // namespace detail

}}}  // namespace causeway::CAUSEWAY_ABI::compress

#endif  // CAUSEWAY_COMPRESS_SCALE_HPP
