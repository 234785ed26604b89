// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMPRESS_BUCKET_MEANS_HPP
#define CAUSEWAY_COMPRESS_BUCKET_MEANS_HPP

// The quantiser of hivemind, which PRIME, Templar, SparseLoCo and MuLoCo took over: 2^Bits buckets of equal width about the
// mean of the values, together so many standard deviations wide (6: from -3 to 3), and each value replaced by the mean of
// the values in its bucket. The bucket means travel as a codebook of f32, so a reader needs no arithmetic. Values beyond
// the outermost buckets count to them and move their means. These are the kernels; codecs say what shares a codebook.
//
// A bucket's mean is the nearest point to its values, so what is lost is never longer than what was put in, whatever the
// values: |x - decoded|² = |x|² - |decoded|².

#include <causeway/compress/codec.hpp>
#include <causeway/compress/element.hpp>
#include <causeway/compress/packing.hpp>
#include <causeway/compress/scale.hpp>
#include <causeway/core/result.hpp>
#include <causeway/kernels/simd_math.hpp>
#include <causeway/kernels/targets.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string_view>
#include <type_traits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace compress { namespace detail {

template <unsigned Bits>
struct codebook_of {
  static_assert(Bits >= 2 && Bits <= 8);
  static constexpr std::int64_t entries = std::int64_t{1} << Bits;
  static constexpr std::size_t bytes = static_cast<std::size_t>(entries) * sizeof(float);
};

CAUSEWAY_ALWAYS_INLINE float sum_of(const float* x, std::int64_t count) {
  return sum_values(
      x, count, [](kernels::detail::f32x8&) CAUSEWAY_INLINE_LAMBDA {}, [](float v) CAUSEWAY_INLINE_LAMBDA { return v; });
}

CAUSEWAY_ALWAYS_INLINE float sum_of_squares(const float* x, std::int64_t count, float mean) {
  return sum_values(
      x, count,
      [mean](kernels::detail::f32x8& v) CAUSEWAY_INLINE_LAMBDA {
        v -= mean;
        v *= v;
      },
      [mean](float v) CAUSEWAY_INLINE_LAMBDA { return (v - mean) * (v - mean); });
}

/// Sums and numbers of the values in each bucket, side by side: both grow in one addition. Two sets, for even and odd
/// places: neighbours are often in one bucket, and an addition would wait for the one before.
template <unsigned Bits>
struct bucket_means {
  using pair [[gnu::vector_size(16)]] = double;
  pair sums[2][codebook_of<Bits>::entries] = {};

  /// Four at a time: their bucket numbers come in one load, and pairs are made by vectors, since loads are what limits
  /// this.
  CAUSEWAY_ALWAYS_INLINE void add(const float* x, const std::uint8_t* buckets, std::int64_t count) {
    using f64x4 [[gnu::vector_size(32)]] = double;
    const f64x4 ones = f64x4{} + 1.0;
    std::int64_t i = 0;
    for (; i + 4 <= count; i += 4) {
      std::uint32_t numbers = 0;
      kernels::detail::f32x4 narrow;
      std::memcpy(&numbers, buckets + i, sizeof numbers);
      std::memcpy(&narrow, x + i, sizeof narrow);
      const f64x4 values = __builtin_convertvector(narrow, f64x4);
      const f64x4 even = __builtin_shufflevector(values, ones, 0, 4, 2, 6);
      const f64x4 odd = __builtin_shufflevector(values, ones, 1, 5, 3, 7);
      sums[0][numbers & 0xFFU] += __builtin_shufflevector(even, even, 0, 1);
      sums[1][numbers >> 8U & 0xFFU] += __builtin_shufflevector(odd, odd, 0, 1);
      sums[0][numbers >> 16U & 0xFFU] += __builtin_shufflevector(even, even, 2, 3);
      sums[1][numbers >> 24U] += __builtin_shufflevector(odd, odd, 2, 3);
    }
    for (; i < count; ++i) sums[i % 2][buckets[i]] += pair{static_cast<double>(x[i]), 1.0};
  }

  /// Empty buckets have the mean zero.
  CAUSEWAY_ALWAYS_INLINE void store(std::byte* codebook) const {
    for (std::size_t e = 0; e < static_cast<std::size_t>(codebook_of<Bits>::entries); ++e) {
      const pair sum = sums[0][e] + sums[1][e];
      const float mean = sum[1] > 0.0 ? static_cast<float>(sum[0] / sum[1]) : 0.0F;
      std::memcpy(codebook + e * sizeof mean, &mean, sizeof mean);
    }
  }
};

/// For two neighbours in one of four buckets each: all bits of a lane where its sum is of that bucket and place. Two lanes
/// a bucket, for even and odd places.
struct pair_masks {
  alignas(32) std::int64_t lanes[16][8] = {};
  constexpr pair_masks() noexcept {
    for (std::size_t pair = 0; pair < 16; ++pair) {
      lanes[pair][pair % 4 * 2] = -1;
      lanes[pair][pair / 4 * 2 + 1] = -1;
    }
  }
};
inline constexpr pair_masks masks_of_pairs{};

/// Four buckets: neighbours share one so often that sums in memory would wait for each other. They stay in registers, and
/// each pair of values is added to all, as zeros where it does not belong: the same additions in the same order.
template <>
struct bucket_means<2> {
  using f64x4 [[gnu::vector_size(32)]] = double;
  using i64x4 [[gnu::vector_size(32)]] = std::int64_t;
  f64x4 sums[2] = {};  // of buckets 0 and 1, and of 2 and 3: values at even places, then those at odd ones
  i64x4 numbers[2] = {};

  CAUSEWAY_ALWAYS_INLINE void add(const float* x, const std::uint8_t* buckets, std::int64_t count) {
    f64x4 low = sums[0], high = sums[1];
    i64x4 low_numbers = numbers[0], high_numbers = numbers[1];
    const auto add_pair = [&](const f64x4& twice, const std::uint8_t* two) CAUSEWAY_INLINE_LAMBDA {
      i64x4 mask[2];
      std::memcpy(mask, masks_of_pairs.lanes[two[0] + 4 * two[1]], sizeof mask);
      low += reinterpret_cast<f64x4>(reinterpret_cast<i64x4>(twice) & mask[0]);
      high += reinterpret_cast<f64x4>(reinterpret_cast<i64x4>(twice) & mask[1]);
      low_numbers -= mask[0];
      high_numbers -= mask[1];
    };
    std::int64_t i = 0;
    for (; i + 4 <= count; i += 4) {
      kernels::detail::f32x4 narrow;
      std::memcpy(&narrow, x + i, sizeof narrow);
      const f64x4 wide = __builtin_convertvector(narrow, f64x4);
      add_pair(__builtin_shufflevector(wide, wide, 0, 1, 0, 1), buckets + i);
      add_pair(__builtin_shufflevector(wide, wide, 2, 3, 2, 3), buckets + i + 2);
    }
    sums[0] = low, sums[1] = high;
    numbers[0] = low_numbers, numbers[1] = high_numbers;
    for (; i < count; ++i) {
      const std::int64_t lane = buckets[i] % 2 * 2 + i % 2;
      sums[buckets[i] / 2][lane] += static_cast<double>(x[i]);
      ++numbers[buckets[i] / 2][lane];
    }
  }

  /// Empty buckets have the mean zero.
  CAUSEWAY_ALWAYS_INLINE void store(std::byte* codebook) const {
    for (std::size_t e = 0; e < 4; ++e) {
      const std::size_t lane = e % 2 * 2;
      const double sum = sums[e / 2][lane] + sums[e / 2][lane + 1];
      const auto number = static_cast<double>(numbers[e / 2][lane] + numbers[e / 2][lane + 1]);
      const float mean = number > 0.0 ? static_cast<float>(sum / number) : 0.0F;
      std::memcpy(codebook + e * sizeof mean, &mean, sizeof mean);
    }
  }
};

/// Values that share a codebook: the codebook, and one packed code a value. `following` values behind them come next.
template <unsigned Bits>
struct encode_buckets {
  static constexpr bool exact = true;
  static constexpr std::int64_t entries = codebook_of<Bits>::entries;
  static constexpr std::int64_t tile = 512;  // codes of it are still at hand when their values are added up

  CAUSEWAY_ALWAYS_INLINE static void run(const float* x, std::byte* codebook, std::byte* codes, std::int64_t count,
                                         float range, std::int64_t following = 0) {
    const float mean = sum_of(x, count) / static_cast<float>(count);
    const float squares = sum_of_squares(x, count, mean);
    if (!(squares <= std::numeric_limits<float>::max())) return refuse(codebook, codes, count);
    const float deviation = count > 1 ? std::sqrt(squares / static_cast<float>(count - 1)) : 0.0F;
    const float width = range * deviation / static_cast<float>(entries);
    // Values that are all equal, or differ by less than f32 can divide by, share the middle bucket.
    const float inverse = width >= std::numeric_limits<float>::min() ? 1.0F / width : 0.0F;
    bucket_means<Bits> means;
    std::uint8_t room[tile];
    for (std::int64_t at = 0; at < count; at += tile) {
      const std::int64_t length = std::min(tile, count - at);
      fetch_ahead(x + count, at, following);
      std::byte* const packed = codes + at / 8 * Bits;
      std::uint8_t* const buckets = Bits == 8 ? reinterpret_cast<std::uint8_t*>(packed) : room;
      choose_buckets(x + at, buckets, packed, length, mean, inverse);
      means.add(x + at, buckets, length);
    }
    means.store(codebook);
  }

 private:
  /// A codebook of NaN: decode refuses it.
  static void refuse(std::byte* codebook, std::byte* codes, std::int64_t count) {
    for (std::int64_t e = 0; e < entries; ++e) {
      store_scale(codebook, e, scale_format::f32, std::numeric_limits<float>::quiet_NaN());
    }
    std::memset(codes, 0, packed_size(static_cast<std::size_t>(count), Bits));
  }

  /// Memory is idle while values are added up, so a tile of what follows comes into the second-level cache meanwhile.
  CAUSEWAY_ALWAYS_INLINE static void fetch_ahead(const float* next, std::int64_t at, std::int64_t following) {
    constexpr std::int64_t line = 16;
    for (const std::int64_t end = std::min(at + tile, following); at < end; at += line) __builtin_prefetch(next + at, 0, 2);
  }

  /// No value is more than 2^22 buckets from the mean, beyond which rounding would not work: n values lie within √n
  /// deviations.
  CAUSEWAY_ALWAYS_INLINE static void choose_buckets(const float* x, std::uint8_t* buckets, std::byte* codes,
                                                    std::int64_t count, float mean, float inverse) {
    kernels::detail::for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      CAUSEWAY_EXACT_BODY
      constexpr auto middle = static_cast<std::int32_t>(entries / 2);
      kernels::detail::f32x16 v;
      kernels::detail::load(v, x + i, part);
      v = (v - mean) * inverse;
      v = v + 0x1.8p23F;  // to the nearest integer, ties to even, which is left in the low bits
      kernels::detail::i32x16 code = reinterpret_cast<kernels::detail::i32x16>(v) - (0x4B400000 - middle);
      clamp_lanes(code, 0, static_cast<std::int32_t>(entries - 1));
      u8x16 narrow;
      narrow_codes(narrow, code);
      pack<8>(reinterpret_cast<std::byte*>(buckets + i), narrow, part);
      if constexpr (Bits < 8) pack<Bits>(codes + i / 8 * Bits, narrow, part);
    });
  }
};

/// Some of the values that share a codebook; the first of them must lie at a multiple of eight.
template <unsigned Bits, class Sink>
struct decode_buckets {
  static constexpr bool exact = true;
  static constexpr std::int64_t tile = 256;

  CAUSEWAY_ALWAYS_INLINE static void run(const std::byte* codebook, const std::byte* codes, float* to, std::int64_t count,
                                         Sink sink) {
    float table[codebook_of<Bits>::entries];
    std::memcpy(table, codebook, sizeof table);
    if constexpr (Bits == 2) {
      choose_among_four(table, codes, to, count, sink);
    } else if constexpr (Bits == 8 && std::is_same_v<Sink, put>) {
      const auto* const buckets = reinterpret_cast<const std::uint8_t*>(codes);
      for (std::int64_t i = 0; i < count; ++i) to[i] = table[buckets[i]];
    } else {
      look_up(table, codes, to, count, sink);
    }
  }

 private:
  /// By the two bits of a code: of each two neighbours the right one, then of those two.
  CAUSEWAY_ALWAYS_INLINE static void choose_among_four(const float* table, const std::byte* codes, float* to,
                                                       std::int64_t count, Sink sink) {
    using kernels::detail::i32x16;
    std::int32_t e[4];
    std::memcpy(e, table, sizeof e);
    kernels::detail::for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      u8x16 raw;
      unpack<2>(raw, codes + i / 8 * 2, part);
      i32x16 code;
      widen_codes(code, raw);
      const i32x16 odd = -(code & 1), upper = -(code >> 1);
      const i32x16 low = (odd & (e[0] ^ e[1])) ^ e[0], high = (odd & (e[2] ^ e[3])) ^ e[2];
      const i32x16 bits = low ^ (upper & (low ^ high));
      sink(to + i, reinterpret_cast<kernels::detail::f32x16>(bits), part);
    });
  }

  /// In tiles, so that no vector is read right after its elements were written one by one.
  CAUSEWAY_ALWAYS_INLINE static void look_up(const float* table, const std::byte* codes, float* to, std::int64_t count,
                                             Sink sink) {
    alignas(64) float looked_up[tile];
    for (std::int64_t at = 0; at < count; at += tile) {
      const std::int64_t length = std::min(tile, count - at);
      kernels::detail::for_lanes(length, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
        u8x16 code;
        unpack<Bits>(code, codes + (at + i) / 8 * Bits, part);
        for (int lane = 0; lane < 16; ++lane) looked_up[i + lane] = table[code[lane]];
      });
      kernels::detail::for_lanes(length, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
        kernels::detail::f32x16 v;
        kernels::detail::load(v, looked_up + i, part);
        sink(to + at + i, v, part);
      });
    }
  }
};

/// A codebook and the packed codes of n values behind it, which anybody may have sent: only finite means, and no bits
/// behind the last code.
template <unsigned Bits>
result<void> check_codebook(std::span<const std::byte> bytes, std::size_t n, std::string_view codec) {
  for (std::int64_t e = 0; e < codebook_of<Bits>::entries; ++e) {
    if (!std::isfinite(load_scale(bytes.data(), e, scale_format::f32))) return not_finite(codec);
  }
  if (spare_bits_clear(bytes.subspan(codebook_of<Bits>::bytes), n, Bits)) return {};
  return to_result(static_cast<unsigned>(decoding::corrupt), codec, "bits behind the last code");
}

}}}}  // namespace causeway::CAUSEWAY_ABI::compress::detail

CAUSEWAY_EXACT_KERNEL((const float*, std::byte*, std::byte*, std::int64_t, float, std::int64_t),
                      compress::detail::encode_buckets<2>)
CAUSEWAY_EXACT_KERNEL((const std::byte*, const std::byte*, float*, std::int64_t, compress::detail::put),
                      compress::detail::decode_buckets<2, compress::detail::put>)
CAUSEWAY_EXACT_KERNEL((const std::byte*, const std::byte*, float*, std::int64_t, compress::detail::add_weighted),
                      compress::detail::decode_buckets<2, compress::detail::add_weighted>)
CAUSEWAY_EXACT_KERNEL((const float*, std::byte*, std::byte*, std::int64_t, float, std::int64_t),
                      compress::detail::encode_buckets<8>)
CAUSEWAY_EXACT_KERNEL((const std::byte*, const std::byte*, float*, std::int64_t, compress::detail::put),
                      compress::detail::decode_buckets<8, compress::detail::put>)
CAUSEWAY_EXACT_KERNEL((const std::byte*, const std::byte*, float*, std::int64_t, compress::detail::add_weighted),
                      compress::detail::decode_buckets<8, compress::detail::add_weighted>)

#endif  // CAUSEWAY_COMPRESS_BUCKET_MEANS_HPP
