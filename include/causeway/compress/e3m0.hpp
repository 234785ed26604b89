// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMPRESS_E3M0_HPP
#define CAUSEWAY_COMPRESS_E3M0_HPP

// Four-bit floats: a sign, three bits of exponent, no mantissa (Streaming DiLoCo: Douillard et al., 2025, section 2.3). A
// value is zero or one of seven powers of two below and at the scale of its block. On the wire: all scales, one byte each,
// then the codes, two a byte, the first in the low half. A code is sign · 8 + exponent; exponent 0 is zero, 7 the scale.
//
// The scale is a power of two, not max|x|: it takes a byte instead of four, a value that is a power of two survives
// exactly (so a second round trip loses nothing), and encoding is integer arithmetic on exponents. The largest value of a
// block is then rounded like any other, to the nearest power of two.

#include <causeway/compress/codec.hpp>
#include <causeway/compress/element.hpp>
#include <causeway/compress/packing.hpp>
#include <causeway/compress/scale.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/cpu_features.hpp>
#include <causeway/kernels/simd_math.hpp>
#include <causeway/kernels/targets.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace compress {

struct e3m0_options {
  std::uint32_t block = 256;  ///< values that share a scale: 16 to 65536, a multiple of 16

  void serialize(auto& ar) { ar(block); }
};

/// errc::invalid_argument when the options cannot work.
inline result<void> validate(const e3m0_options& o) {
  if (o.block >= 16 && o.block <= 65536 && o.block % 16 == 0) return {};
  return fail(errc::invalid_argument, "e3m0",
              "a block of " + std::to_string(o.block) + " values; take 16 to 65536, a multiple of 16");
}

namespace detail {

/// Scales are exponents as f32 stores them: 2^(scale - 127). From `lowest` on, so that the smallest level and half of it
/// are no subnormals; `not_finite` marks a block with NaN or infinity.
struct e3m0_scale {
  static constexpr std::int32_t lowest = 8, highest = 254, not_finite = 255;

  /// The exponent of the nearest power of two to `largest`; what lies halfway, at 1.5 times one, goes up.
  CAUSEWAY_HD static CAUSEWAY_ALWAYS_INLINE std::int32_t of(float largest) {
    const auto bits = std::bit_cast<std::int32_t>(largest);
    if (bits >= 0x7F800000) return not_finite;
    return std::clamp((bits + 0x400000) >> 23, std::int32_t{lowest}, std::int32_t{highest});  // copies: device code
  }
};

struct encode_e3m0 {
  static constexpr bool exact = true;
  using i32x16 = kernels::detail::i32x16;

  CAUSEWAY_ALWAYS_INLINE static void run(const float* x, std::byte* scales, std::byte* codes, std::int64_t count,
                                         std::int64_t block) {
    for (std::int64_t b = 0; b * block < count; ++b) {
      const std::int64_t length = std::min(block, count - b * block);
      const std::int32_t scale = e3m0_scale::of(largest_magnitude(x + b * block, length));
      scales[b] = static_cast<std::byte>(scale);
      encode_block(x + b * block, codes + b * block / 2, length, scale);
    }
  }

  /// Works for NaN and infinity too: their codes mean nothing, but are the same everywhere.
  CAUSEWAY_ALWAYS_INLINE static void encode_block(const float* x, std::byte* codes, std::int64_t length,
                                                  std::int32_t scale) {
    const std::int32_t below = scale - 7;    // the exponent that would have code 0
    const std::int32_t least = below << 23;  // half the smallest level: from there on a value is not zero
    kernels::detail::for_lanes(length, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      kernels::detail::f32x16 v;
      kernels::detail::load(v, x + i, part);
      const i32x16 bits = reinterpret_cast<i32x16>(v);
      const i32x16 magnitude = bits & 0x7FFFFFFF;
      const kernels::detail::u32x16 nearest = (reinterpret_cast<kernels::detail::u32x16>(magnitude) + 0x400000U) >> 23U;
      i32x16 code = reinterpret_cast<i32x16>(nearest) - below;
      clamp_lanes(code, 1, 7);
      code &= ~((magnitude - least) >> 31);
      code |= (bits >> 28) & 8;
      u8x16 narrow;
      narrow_codes(narrow, code);
      pack<4>(codes + i / 2, narrow, part);
    });
  }
};

template <class Sink>
struct decode_e3m0 {
  static constexpr bool exact = true;
  using i32x16 = kernels::detail::i32x16;
  CAUSEWAY_ALWAYS_INLINE static void run(const std::byte* scales, const std::byte* codes, float* to, std::int64_t count,
                                         std::int64_t block, Sink sink) {
    for (std::int64_t b = 0; b * block < count; ++b) {
      const std::int32_t below = std::to_integer<std::int32_t>(scales[b]) - 7;
      kernels::detail::for_lanes(std::min(block, count - b * block), [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
        u8x16 raw;
        unpack<4>(raw, codes + (b * block + i) / 2, part);
        i32x16 code;
        widen_codes(code, raw);
        const i32x16 exponent = code & 7;
        const i32x16 magnitude = ((exponent + below) << 23) & (-exponent >> 31);
        const i32x16 bits = magnitude | ((code & 8) << 28);
        sink(to + b * block + i, reinterpret_cast<kernels::detail::f32x16>(bits), part);
      });
    }
  }
};

}  // namespace detail

/// ceil(n / block) + ceil(n / 2) bytes: 4.03125 bits a value with blocks of 256, 4.002 with 4096.
///
/// With T the power of two nearest to the block's max|x|, a value becomes the nearest of 0, ±T/64, ±T/32, .. ±T: what is
/// T/128 or more is off by at most a third of itself (from 1.5 times 2^127 on by at most half), but for the smallest level,
/// which values down to half of it are rounded up to; what is less becomes zero. Values below 2^-126 become zero in any
/// block. Zeros keep their sign. A contraction: of |x|² at most (1 + q) / (9 + q) is lost, q = (block - 1) / 1024: 0.14
/// with blocks of 256.
class e3m0 : public detail::decodes_to_sink<e3m0> {
 public:
  static constexpr std::string_view name = "e3m0";
  static constexpr codec_traits traits{.lossy = true, .per_block = true};
  static constexpr bool raw = false;

  explicit e3m0(const e3m0_options& options = {}) : options_{options} { CAUSEWAY_EXPECT(validate(options)); }

  [[nodiscard]] std::size_t block() const noexcept { return options_.block; }
  [[nodiscard]] std::size_t encoded_size(std::size_t n) const noexcept { return blocks(n) + detail::packed_size(n, 4); }
  [[nodiscard]] const e3m0_options& options() const noexcept { return options_; }

  std::size_t encode(thread_pool& pool, std::span<const float> values, std::span<std::byte> room,
                     kernels::simd_level level = kernels::detect_simd_level()) const {
    CAUSEWAY_EXPECT(room.size() >= encoded_size(values.size()));
    std::byte* const codes = room.data() + blocks(values.size());
    detail::for_blocks(pool, values.size(), options_.block, [&](index_range r) {
      kernels::detail::dispatch<detail::encode_e3m0>(level, values.data() + r.begin, room.data() + r.begin / options_.block,
                                                     codes + r.begin / 2, r.size(), std::int64_t{options_.block});
    });
    return encoded_size(values.size());
  }

 private:
  friend detail::decodes_to_sink<e3m0>;

  template <class Sink>
  result<void> decode_to(thread_pool& pool, std::span<const std::byte> bytes, std::span<float> to, Sink sink,
                         kernels::simd_level level) const {
    CAUSEWAY_TRY(check(bytes, to.size()));
    const std::byte* const codes = bytes.data() + blocks(to.size());
    detail::for_blocks(pool, to.size(), options_.block, [&](index_range r) {
      kernels::detail::dispatch<detail::decode_e3m0<Sink>>(level, bytes.data() + r.begin / options_.block,
                                                           codes + r.begin / 2, to.data() + r.begin, r.size(),
                                                           std::int64_t{options_.block}, sink);
    });
    return {};
  }

  /// All sixteen codes mean something, so only scales and the last half byte can be wrong.
  result<void> check(std::span<const std::byte> bytes, std::size_t n) const {
    if (bytes.size() != encoded_size(n)) return detail::wrong_length(name, bytes.size(), encoded_size(n));
    auto found = static_cast<unsigned>(detail::decoding::good);
    for (const std::byte scale : bytes.first(blocks(n))) {
      const auto exponent = std::to_integer<std::int32_t>(scale);
      if (exponent == detail::e3m0_scale::not_finite) found |= static_cast<unsigned>(detail::decoding::non_finite);
      if (exponent < detail::e3m0_scale::lowest) found |= static_cast<unsigned>(detail::decoding::corrupt);
    }
    if (!detail::spare_bits_clear(bytes.subspan(blocks(n)), n, 4)) {
      found |= static_cast<unsigned>(detail::decoding::corrupt);
    }
    return detail::to_result(found, name, "a scale below 8 or bits behind the last code");
  }

  [[nodiscard]] std::size_t blocks(std::size_t n) const noexcept { return detail::blocks_of(n, options_.block); }

  e3m0_options options_;
};
static_assert(AddingCodec<e3m0>);

}}}  // namespace causeway::CAUSEWAY_ABI::compress

CAUSEWAY_EXACT_KERNEL((const float*, std::byte*, std::byte*, std::int64_t, std::int64_t), compress::detail::encode_e3m0)
CAUSEWAY_EXACT_KERNEL((const std::byte*, const std::byte*, float*, std::int64_t, std::int64_t, compress::detail::put),
                      compress::detail::decode_e3m0<compress::detail::put>)
CAUSEWAY_EXACT_KERNEL((const std::byte*, const std::byte*, float*, std::int64_t, std::int64_t,
                       compress::detail::add_weighted),
                      compress::detail::decode_e3m0<compress::detail::add_weighted>)

#endif  // CAUSEWAY_COMPRESS_E3M0_HPP
