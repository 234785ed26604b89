// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMPRESS_BLOCK_INT8_HPP
#define CAUSEWAY_COMPRESS_BLOCK_INT8_HPP

// Eight-bit integers with one scale per block of neighbouring values (Dettmers et al., 2022, section 2, with a linear
// instead of a dynamic code). On the wire: all scales, then one code per value. A value is scale · code with a code between
// -127 and 127.

#include <causeway/compress/codec.hpp>
#include <causeway/compress/element.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/cpu_features.hpp>
#include <causeway/kernels/simd_math.hpp>
#include <causeway/kernels/targets.hpp>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>

namespace causeway::inline CAUSEWAY_ABI::compress {

enum class scale_format : std::uint8_t { f32, bf16 };

struct block_int8_options {
  std::uint32_t block = 256;  ///< values that share a scale: 64 to 4096, a multiple of 16
  scale_format scales = scale_format::f32;

  template <class Archive>
  void serialize(Archive& ar) {
    ar(block, scales);
  }
};

/// errc::invalid_argument when the options cannot work.
inline result<void> validate(const block_int8_options& o) {
  const bool known = o.scales == scale_format::f32 || o.scales == scale_format::bf16;
  if (known && o.block >= 64 && o.block <= 4096 && o.block % 16 == 0) return {};
  return fail(errc::invalid_argument, "block_int8",
              "a block of " + std::to_string(o.block) + " values; take 64 to 4096, a multiple of 16");
}

namespace detail {

using i8x16 [[gnu::vector_size(16)]] = std::int8_t;

enum class decoding : std::uint8_t { good = 0, corrupt = 1, non_finite = 2 };

CAUSEWAY_ALWAYS_INLINE float load_scale(const std::byte* scales, std::int64_t block, scale_format format) {
  if (format == scale_format::bf16) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, scales + block * 2, sizeof bits);
    return std::bit_cast<float>(std::uint32_t{bits} << 16U);
  }
  float scale = 0;
  std::memcpy(&scale, scales + block * 4, sizeof scale);
  return scale;
}

/// Stores the scale and gives back what a reader will see. Rounded up in bf16, so that no code exceeds 127.
CAUSEWAY_ALWAYS_INLINE float store_scale(std::byte* scales, std::int64_t block, scale_format format, float scale) {
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

/// Largest magnitude, as bits: NaN counts as more than infinity, and infinity as more than any number.
CAUSEWAY_ALWAYS_INLINE float largest_magnitude(const float* x, std::int64_t count) {
  kernels::detail::i32x16 most{};
  kernels::detail::for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
    kernels::detail::f32x16 v;
    kernels::detail::load(v, x + i, part);
    const kernels::detail::i32x16 magnitude = reinterpret_cast<kernels::detail::i32x16>(v) & 0x7FFFFFFF;
    most = magnitude > most ? magnitude : most;
  });
  std::int32_t largest = 0;
  for (int lane = 0; lane < 16; ++lane) largest = most[lane] > largest ? most[lane] : largest;
  return std::bit_cast<float>(largest);
}

CAUSEWAY_ALWAYS_INLINE void store_codes(std::int8_t* to, const i8x16& codes, kernels::detail::whole) {
  std::memcpy(to, &codes, sizeof codes);
}
CAUSEWAY_ALWAYS_INLINE void store_codes(std::int8_t* to, const i8x16& codes, kernels::detail::tail part) {
  std::memcpy(to, &codes, static_cast<std::size_t>(part.count));
}

/// Encodes whole blocks and perhaps a last shorter one, starting at a block's start.
struct encode_blocks {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(const float* x, std::byte* scales, std::int8_t* codes, std::int64_t count,
                                         std::int64_t block, scale_format format) {
    for (std::int64_t b = 0; b * block < count; ++b) {
      const std::int64_t length = std::min(block, count - b * block);
      const float largest = largest_magnitude(x + b * block, length);
      const float scale = store_scale(scales, b, format, largest / 127.0F);
      // A block of zeros, of numbers so small that 1/scale overflows, or with NaN or infinity: all codes are zero.
      const bool usable = scale >= std::numeric_limits<float>::min() && scale <= std::numeric_limits<float>::max();
      const float inverse = usable ? 1.0F / scale : 0.0F;
      if (!usable) {
        if (scale < std::numeric_limits<float>::min()) store_scale(scales, b, format, 0.0F);
        std::memset(codes + b * block, 0, static_cast<std::size_t>(length));
        continue;
      }
      kernels::detail::for_lanes(length, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
        CAUSEWAY_EXACT_BODY
        kernels::detail::f32x16 v;
        kernels::detail::load(v, x + b * block + i, part);
        v = v * inverse + 0x1.8p23F;  // rounds to the nearest integer, ties to even, and leaves it in the low bits
        const kernels::detail::i32x16 code = reinterpret_cast<kernels::detail::i32x16>(v) - 0x4B400000;
        store_codes(codes + b * block + i, __builtin_convertvector(code, i8x16), part);
      });
    }
  }
};

struct decode_blocks {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static decoding run(const std::byte* scales, const std::int8_t* codes, float* x,
                                             std::int64_t count, std::int64_t block, scale_format format) {
    kernels::detail::i32x16 bad{};
    auto found = decoding::good;
    for (std::int64_t b = 0; b * block < count; ++b) {
      const std::int64_t length = std::min(block, count - b * block);
      const float scale = load_scale(scales, b, format);
      if ((std::bit_cast<std::uint32_t>(scale * 127.0F) & 0x7F800000U) == 0x7F800000U) return decoding::non_finite;
      if ((std::bit_cast<std::uint32_t>(scale) >> 31U) != 0) found = decoding::corrupt;
      kernels::detail::for_lanes(length, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
        i8x16 raw{};
        if constexpr (std::is_same_v<decltype(part), kernels::detail::whole>) {
          std::memcpy(&raw, codes + b * block + i, sizeof raw);
        } else {
          std::memcpy(&raw, codes + b * block + i, static_cast<std::size_t>(part.count));
        }
        const kernels::detail::i32x16 code = __builtin_convertvector(raw, kernels::detail::i32x16);
        bad |= code == -128;
        const kernels::detail::f32x16 v = __builtin_convertvector(code, kernels::detail::f32x16) * scale;
        kernels::detail::store(x + b * block + i, v, part);
      });
    }
    return any_lane(bad) ? decoding::corrupt : found;
  }
};

}  // namespace detail

/// n + s · ceil(n / block) bytes, s = 4 (f32 scales) or 2 (bf16). scale = max|x| / 127 of the block, codes round to the
/// nearest, ties to even. Error at most max|x| / 254 of the block (1.01 times that with bf16 scales, which are rounded up),
/// and at most 1.5e-36 where a block is smaller than that. Each code of a block of zeros is zero.
class block_int8 {
 public:
  static constexpr std::string_view name = "block_int8";
  static constexpr codec_traits traits{.lossy = true, .per_block = true};
  static constexpr bool raw = false;

  explicit block_int8(const block_int8_options& options = {}) : options_{options} { CAUSEWAY_EXPECT(validate(options)); }

  [[nodiscard]] std::size_t block() const noexcept { return options_.block; }
  [[nodiscard]] std::size_t encoded_size(std::size_t n) const noexcept { return n + scale_bytes(n); }
  [[nodiscard]] const block_int8_options& options() const noexcept { return options_; }

  std::size_t encode(thread_pool& pool, std::span<const float> values, std::span<std::byte> room,
                     kernels::simd_level level = kernels::detect_simd_level()) const {
    CAUSEWAY_EXPECT(room.size() >= encoded_size(values.size()));
    auto* const codes = reinterpret_cast<std::int8_t*>(room.data() + scale_bytes(values.size()));
    for_blocks(pool, values.size(), [&](index_range r) {
      kernels::detail::dispatch<detail::encode_blocks>(level, values.data() + r.begin, room.data() + scale_offset(r.begin),
                                                       codes + r.begin, r.size(), std::int64_t{options_.block},
                                                       options_.scales);
    });
    return encoded_size(values.size());
  }

  result<void> decode(thread_pool& pool, std::span<const std::byte> bytes, std::span<float> values,
                      kernels::simd_level level = kernels::detect_simd_level()) const {
    if (bytes.size() != encoded_size(values.size())) {
      return detail::wrong_length(name, bytes.size(), encoded_size(values.size()));
    }
    const auto* const codes = reinterpret_cast<const std::int8_t*>(bytes.data() + scale_bytes(values.size()));
    std::atomic<unsigned> worst{0};
    for_blocks(pool, values.size(), [&](index_range r) {
      const auto found = kernels::detail::dispatch<detail::decode_blocks>(
          level, bytes.data() + scale_offset(r.begin), codes + r.begin, values.data() + r.begin, r.size(),
          std::int64_t{options_.block}, options_.scales);
      worst.fetch_or(static_cast<unsigned>(found), std::memory_order_relaxed);
    });
    const unsigned bad = worst.load(std::memory_order_relaxed);
    if ((bad & static_cast<unsigned>(detail::decoding::non_finite)) != 0) return detail::not_finite(name);
    if (bad != 0)
      return fail(errc::corrupt, std::string{name}, "a scale below zero or a code of -128: no encoder makes them");
    return {};
  }

 private:
  [[nodiscard]] std::size_t bytes_per_scale() const noexcept { return options_.scales == scale_format::f32 ? 4 : 2; }
  [[nodiscard]] std::size_t scale_bytes(std::size_t n) const noexcept {
    return (n + options_.block - 1) / options_.block * bytes_per_scale();
  }
  [[nodiscard]] std::size_t scale_offset(std::int64_t first_value) const noexcept {
    return static_cast<std::size_t>(first_value) / options_.block * bytes_per_scale();
  }

  template <class F>
  void for_blocks(thread_pool& pool, std::size_t n, F&& f) const {
    const auto count = static_cast<std::int64_t>(n);
    if (count <= kernels::detail::smallest_share) {
      if (count > 0) f(index_range{0, count});
    } else {
      pool.for_range(count, std::int64_t{options_.block}, f);
    }
  }

  block_int8_options options_;
};
static_assert(Codec<block_int8>);

}  // namespace causeway::inline CAUSEWAY_ABI::compress

#endif  // CAUSEWAY_COMPRESS_BLOCK_INT8_HPP
