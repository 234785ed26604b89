// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_BODIES_BLOCK_CODES_HPP
#define CAUSEWAY_CUDA_BODIES_BLOCK_CODES_HPP

// What distinguishes the codecs with a scale per block: how a group finds the scale of a block, and what a code means under
// it. One value at a time, with the arithmetic of compress/block_int8.hpp, e3m0.hpp and bits.hpp, operation by operation.

#include <causeway/compress/bits.hpp>
#include <causeway/compress/block_int8.hpp>
#include <causeway/compress/e3m0.hpp>
#include <causeway/compress/scale.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/cuda/bodies/group.hpp>
#include <causeway/cuda/bodies/pack.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

namespace detail {

using compress::scale_format;
using compress::detail::decoding;

inline constexpr float rounder = 0x1.8p23F;  // adding it leaves the nearest integer, ties to even, in the low bits
inline constexpr std::int32_t rounder_bits = 0x4B400000;

CAUSEWAY_HD inline std::int32_t rounded_bits(float v) { return std::bit_cast<std::int32_t>(v + rounder); }

/// The largest magnitude of a block, as bits; NaN is more than infinity.
template <int N, class G, class Source>
CAUSEWAY_HD float largest_magnitude(G& g, const Source& from, std::int64_t begin, std::int64_t length) {
  std::int32_t most = 0;
  for_packs<N>(g, length, [&](std::int64_t i, auto width) {
    float v[width.value];
    from.load(v, begin + i);
    for (const float e : v) {
      const std::int32_t magnitude = std::bit_cast<std::int32_t>(e) & 0x7FFFFFFF;
      most = magnitude > most ? magnitude : most;
    }
  });
  return std::bit_cast<float>(g.largest(most));
}

/// The sum of squares in the order of kernels::detail::sum_lanes: 64 sums of every 64th value, the vectors of 16 that are
/// left added to the first 16 sums, these joined by halves, and single values at the end.
template <class G, class Source>
CAUSEWAY_HD float sum_of_squares(G& g, const Source& from, std::int64_t begin, std::int64_t length) {
  const auto square = [&](std::int64_t i) {
    float v[1];
    from.load(v, begin + i);
    return times(v[0], v[0]);
  };
  const std::int64_t in_turns = length / 64 * 64, in_vectors = length / 16 * 16;
  float* const sums = g.room();
  for (int slot = g.rank(); slot < 64; slot += g.size()) {
    float sum = 0.0F;
    for (std::int64_t i = slot; i < in_turns; i += 64) sum += square(i);
    if (slot < 16) {
      for (std::int64_t i = in_turns + slot; i < in_vectors; i += 16) sum += square(i);
    }
    sums[slot] = sum;
  }
  g.sync();
  const auto lane = [&](int l) { return (sums[l] + sums[l + 16]) + (sums[l + 32] + sums[l + 48]); };
  const auto quarter = [&](int l) { return (lane(l) + lane(l + 8)) + (lane(l + 4) + lane(l + 12)); };
  float total = (quarter(0) + quarter(2)) + (quarter(1) + quarter(3));
  for (std::int64_t i = in_vectors; i < length; ++i) total += square(i);
  g.sync();  // before the room is used again
  return total;
}

/// A usable scale and its bytes, as a reader will see them.
CAUSEWAY_HD inline float keep_scale(std::byte* stored, scale_format format, float scale) {
  return compress::detail::store_usable_scale(stored, 0, format, scale);
}

/// Whether stored bytes, of a scale that was not usable, say zero and not NaN.
CAUSEWAY_HD inline bool holds_number(const std::byte* stored, scale_format format) {
  const float scale = compress::detail::load_scale(stored, 0, format);
  return scale == scale;
}

CAUSEWAY_HD inline decoding check_float_scale(const std::byte* scales, std::int64_t block, scale_format format, float top) {
  const float scale = compress::detail::load_scale(scales, block, format);
  if ((std::bit_cast<std::uint32_t>(times(scale, top)) & 0x7F800000U) == 0x7F800000U) return decoding::non_finite;
  return std::bit_cast<std::uint32_t>(scale) >> 31U != 0 ? decoding::corrupt : decoding::good;
}

}  // namespace detail

/// compress::block_int8.
struct int8_code {
  static constexpr unsigned bits = 8;
  std::int64_t block = 256;
  compress::scale_format scales = compress::scale_format::f32;

  int8_code() = default;
  explicit int8_code(const compress::block_int8_options& o) : block{o.block}, scales{o.scales} {}

  struct unit {
    float scale, inverse;
    bool finite;
    /// All zeros without a scale.
    [[nodiscard]] CAUSEWAY_HD std::uint32_t encode(float v, std::int64_t) const {
      if (scale == 0.0F) return 0;
      return static_cast<std::uint32_t>(detail::rounded_bits(detail::times(v, inverse)) - detail::rounder_bits);
    }
    [[nodiscard]] CAUSEWAY_HD float decode(std::uint32_t code) const {
      return detail::times(static_cast<float>(static_cast<std::int8_t>(code)), scale);
    }
  };

  [[nodiscard]] CAUSEWAY_HD std::int64_t scale_bytes() const {
    return static_cast<std::int64_t>(compress::detail::bytes_per_scale(scales));
  }
  template <int N, class G, class Source>
  CAUSEWAY_HD unit measure(G& g, const Source& from, std::int64_t begin, std::int64_t length, std::byte* stored) const {
    const float largest = detail::largest_magnitude<N>(g, from, begin, length);
    const float scale = detail::keep_scale(stored, scales, detail::over(largest, 127.0F));
    return {scale, scale == 0.0F ? 0.0F : detail::over(1.0F, scale), detail::holds_number(stored, scales)};
  }
  [[nodiscard]] CAUSEWAY_HD unit read(const std::byte* from, std::int64_t index) const {
    return {compress::detail::load_scale(from, index, scales), 0.0F, true};
  }
  [[nodiscard]] CAUSEWAY_HD compress::detail::decoding check_scale(const std::byte* from, std::int64_t index) const {
    return detail::check_float_scale(from, index, scales, 127.0F);
  }
  [[nodiscard]] CAUSEWAY_HD static bool unused(std::uint32_t code) { return code == 0x80U; }
};

/// compress::e3m0.
struct e3m0_code {
  static constexpr unsigned bits = 4;
  std::int64_t block = 256;

  e3m0_code() = default;
  explicit e3m0_code(const compress::e3m0_options& o) : block{o.block} {}

  struct unit {
    std::int32_t below;  ///< the exponent that would have code 0
    bool finite;
    [[nodiscard]] CAUSEWAY_HD std::uint32_t encode(float v, std::int64_t) const {
      const auto raw = std::bit_cast<std::uint32_t>(v);
      const auto magnitude = static_cast<std::int32_t>(raw & 0x7FFFFFFFU);
      const auto nearest = static_cast<std::int32_t>((static_cast<std::uint32_t>(magnitude) + 0x400000U) >> 23U);
      std::int32_t code = nearest - below;
      code = code < 1 ? 1 : code > 7 ? 7 : code;
      if (magnitude < below << 23) code = 0;  // less than half the smallest level
      return static_cast<std::uint32_t>(code) | (raw >> 28U & 8U);
    }
    [[nodiscard]] CAUSEWAY_HD float decode(std::uint32_t code) const {
      const auto exponent = static_cast<std::int32_t>(code & 7U);
      const auto magnitude = exponent == 0 ? 0U : static_cast<std::uint32_t>(exponent + below) << 23U;
      return std::bit_cast<float>(magnitude | (code & 8U) << 28U);
    }
  };

  [[nodiscard]] CAUSEWAY_HD static std::int64_t scale_bytes() { return 1; }
  template <int N, class G, class Source>
  CAUSEWAY_HD unit measure(G& g, const Source& from, std::int64_t begin, std::int64_t length, std::byte* stored) const {
    const std::int32_t scale = compress::detail::e3m0_scale::of(detail::largest_magnitude<N>(g, from, begin, length));
    *stored = static_cast<std::byte>(scale);
    return {scale - 7, scale != compress::detail::e3m0_scale::not_finite};
  }
  [[nodiscard]] CAUSEWAY_HD static unit read(const std::byte* from, std::int64_t index) {
    return {static_cast<std::int32_t>(from[index]) - 7, true};
  }
  [[nodiscard]] CAUSEWAY_HD static compress::detail::decoding check_scale(const std::byte* from, std::int64_t index) {
    const auto scale = static_cast<std::int32_t>(from[index]);
    if (scale == compress::detail::e3m0_scale::not_finite) return compress::detail::decoding::non_finite;
    return scale < compress::detail::e3m0_scale::lowest ? compress::detail::decoding::corrupt
                                                        : compress::detail::decoding::good;
  }
  [[nodiscard]] CAUSEWAY_HD static bool unused(std::uint32_t) { return false; }
};

/// compress::bits<Bits>.
template <unsigned Bits>
struct bits_code {
  static constexpr unsigned bits = Bits;
  using levels = compress::detail::bit_levels<Bits>;
  std::int64_t block = 128;
  compress::bits_options options{};
  std::uint64_t key = 0;

  bits_code() = default;
  explicit bits_code(const compress::bits_options& o) : block{o.bucket}, options{o}, key{mix(o.seed)} {}

  struct unit {
    float scale, inverse;
    bool finite, clips, stochastic;
    std::uint64_t key;

    [[nodiscard]] CAUSEWAY_HD std::uint32_t encode(float value, std::int64_t place) const {
      constexpr float middle = static_cast<float>(levels::half) - 0.5F;
      const unsigned fraction = stochastic ? levels::fraction : 0;
      const float rounder = compress::detail::fraction_rounder(fraction);
      float v = detail::times(scale == 0.0F ? 0.0F : value, inverse);
      if (clips) v = v < -levels::largest ? -levels::largest : v > levels::largest ? levels::largest : v;
      if constexpr (!levels::with_zero) v += Bits == 1 && !stochastic ? 0x1.000002p-1F : middle;
      const std::uint32_t drawn = stochastic ? draw(value, place) >> (32U - fraction) : 0;
      const std::uint32_t code = (std::bit_cast<std::uint32_t>(v + rounder) + drawn) >> fraction;
      return code - (std::bit_cast<std::uint32_t>(rounder) >> fraction) + static_cast<std::uint32_t>(levels::first);
    }
    [[nodiscard]] CAUSEWAY_HD float decode(std::uint32_t code) const {
      const auto c = static_cast<std::int32_t>(code);
      return detail::times(static_cast<float>(levels::with_zero ? c - levels::half : c + c - levels::top), scale);
    }

   private:
    /// compress::detail::draw_bits for one value.
    [[nodiscard]] CAUSEWAY_HD std::uint32_t draw(float x, std::int64_t place) const {
      std::uint32_t h = std::bit_cast<std::uint32_t>(x) ^ static_cast<std::uint32_t>(key);
      h = (h ^ (h >> 16U)) * 0x85EBCA6BU;
      h = (h ^ (h >> 13U)) + (static_cast<std::uint32_t>(place) * 0x9E3779B1U + static_cast<std::uint32_t>(key >> 32U));
      h = (h ^ (h >> 15U)) * 0xC2B2AE35U;
      return (h ^ (h >> 13U)) * 0x85EBCA6BU;
    }
  };

  [[nodiscard]] CAUSEWAY_HD std::int64_t scale_bytes() const {
    return static_cast<std::int64_t>(compress::detail::bytes_per_scale(options.scales));
  }
  template <int N, class G, class Source>
  CAUSEWAY_HD unit measure(G& g, const Source& from, std::int64_t begin, std::int64_t length, std::byte* stored) const {
    const bool by_mean = options.scale == compress::bucket_scale::rms;
    const float largest =
        by_mean ? spread_of(g, from, begin, length) : detail::largest_magnitude<N>(g, from, begin, length);
    const float scale = detail::keep_scale(stored, options.scales, detail::over(largest, static_cast<float>(levels::top)));
    const float inverse = scale == 0.0F ? 0.0F : detail::over(levels::with_zero ? 1.0F : 0.5F, scale);
    return {scale, inverse, detail::holds_number(stored, options.scales), by_mean, options.stochastic, key};
  }
  [[nodiscard]] CAUSEWAY_HD unit read(const std::byte* from, std::int64_t index) const {
    return {compress::detail::load_scale(from, index, options.scales), 0.0F, true, false, false, 0};
  }
  [[nodiscard]] CAUSEWAY_HD compress::detail::decoding check_scale(const std::byte* from, std::int64_t index) const {
    return detail::check_float_scale(from, index, options.scales, static_cast<float>(levels::top));
  }
  [[nodiscard]] CAUSEWAY_HD static bool unused(std::uint32_t code) { return levels::with_zero && code == 0; }

 private:
  /// The value of the top level that suits normal values of this mean square best.
  template <class G, class Source>
  CAUSEWAY_HD static float spread_of(G& g, const Source& from, std::int64_t begin, std::int64_t length) {
    constexpr float best = levels::best_top[Bits - 1];
    const float mean = detail::over(detail::sum_of_squares(g, from, begin, length), static_cast<float>(length));
    return detail::times(detail::root(mean), best);
  }
};

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_BODIES_BLOCK_CODES_HPP
