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
#include <bit>
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

/// Brings [at, at + length) of `count` values into the second-level cache.
CAUSEWAY_ALWAYS_INLINE void fetch(const float* x, std::int64_t at, std::int64_t length, std::int64_t count) {
  constexpr std::int64_t line = 16;
  for (const std::int64_t end = std::min(at + length, count); at < end; at += line) __builtin_prefetch(x + at, 0, 2);
}

/// The mean, and the sum of squared differences from it. Part by part, each read once while it is in the first cache, and
/// joined in f64 (Chan et al., 1979), so that long rows do not wait for memory twice, nor f32 sums lose their small values.
struct mean_and_squares_of {
  float mean, squares;
};
CAUSEWAY_ALWAYS_INLINE mean_and_squares_of mean_and_squares(const float* x, std::int64_t count) {
  CAUSEWAY_EXACT_BODY
  constexpr std::int64_t part = 4096;
  double mean = 0.0, squares = 0.0;
  for (std::int64_t at = 0; at < count; at += part) {
    const std::int64_t length = std::min(part, count - at);
    const float own = sum_of(x + at, length) / static_cast<float>(length);
    const double off = static_cast<double>(own) - mean,
                 share = static_cast<double>(length) / static_cast<double>(at + length);
    mean += off * share;
    fetch(x, at + part, part, count);  // memory is idle during the second look
    squares += static_cast<double>(sum_of_squares(x + at, length, own)) + off * off * static_cast<double>(at) * share;
  }
  return {static_cast<float>(mean), static_cast<float>(squares)};
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

  /// Empty buckets have the mean zero. The mean of all does not matter here.
  CAUSEWAY_ALWAYS_INLINE void store(std::byte* codebook, float) const {
    for (std::size_t e = 0; e < static_cast<std::size_t>(codebook_of<Bits>::entries); ++e) {
      const pair sum = sums[0][e] + sums[1][e];
      const float mean = sum[1] > 0.0 ? static_cast<float>(sum[0] / sum[1]) : 0.0F;
      std::memcpy(codebook + e * sizeof mean, &mean, sizeof mean);
    }
  }
};

/// As lane_sum, where the machine has registers for sixteen lanes.
class wide_sum {
 public:
  CAUSEWAY_ALWAYS_INLINE void add(const kernels::detail::f32x16& v) { lanes_ += v; }
  [[nodiscard]] CAUSEWAY_ALWAYS_INLINE float total() const { return kernels::detail::horizontal_sum(lanes_); }

 private:
  kernels::detail::f32x16 lanes_{};
};

/// How far values are from the mean of all, summed for each of four buckets, in registers: neighbours share a bucket so
/// often that sums in memory would wait for each other. Each value is added to all, as zero where it does not belong.
template <bool Wide>
class sums_of_four {
 public:
  /// `code`: the buckets of sixteen values, by `off` · `inverse`, to the nearest integer, ties to even.
  CAUSEWAY_ALWAYS_INLINE void add(kernels::detail::i32x16& code, const kernels::detail::f32x16& off, float inverse,
                                  kernels::detail::whole) {
    CAUSEWAY_EXACT_BODY
    using kernels::detail::f32x16, kernels::detail::i32x16;
    const f32x16 rounded = off * inverse + 0x1.8p23F;  // the integer is left in the low bits
    const i32x16 nearest = reinterpret_cast<i32x16>(rounded) - 0x4B400000, all = reinterpret_cast<i32x16>(off);
    const i32x16 below = nearest >> 31, far_below = (nearest + 1) >> 31, above = -nearest >> 31;
    const i32x16 lower = all & below, upper = all ^ lower, zeroth = all & far_below, third = all & above;
    const i32x16 first = lower ^ zeroth, second = upper ^ third;
    zeroth_.add(reinterpret_cast<f32x16>(zeroth));
    first_.add(reinterpret_cast<f32x16>(first));
    second_.add(reinterpret_cast<f32x16>(second));
    third_.add(reinterpret_cast<f32x16>(third));
    code = below + far_below - above + 2;
  }
  CAUSEWAY_ALWAYS_INLINE void add(kernels::detail::i32x16& code, const kernels::detail::f32x16& off, float inverse,
                                  kernels::detail::tail part) {
    kernels::detail::f32x16 kept = off;
    for (auto lane = part.count; lane < kernels::detail::vector_lanes; ++lane) kept[lane] = 0.0F;
    add(code, kept, inverse, kernels::detail::whole{});
  }
  CAUSEWAY_ALWAYS_INLINE void add_to(double (&sums)[4]) const {
    sums[0] += static_cast<double>(zeroth_.total());
    sums[1] += static_cast<double>(first_.total());
    sums[2] += static_cast<double>(second_.total());
    sums[3] += static_cast<double>(third_.total());
  }

 private:
  std::conditional_t<Wide, wide_sum, kernels::detail::lane_sum> zeroth_, first_, second_, third_;
};

/// Four buckets: sums_of_four of one tile after another, joined in f64.
template <>
struct bucket_means<2> {
  double sums[4] = {};
  std::int64_t numbers[4] = {};

  template <bool Wide>
  CAUSEWAY_ALWAYS_INLINE void add(const sums_of_four<Wide>& tile, const std::byte* codes, std::int64_t count) {
    tile.add_to(sums);
    count_codes(codes, count);
  }

  /// Empty buckets have the mean zero.
  CAUSEWAY_ALWAYS_INLINE void store(std::byte* codebook, float mean) const {
    for (std::size_t e = 0; e < 4; ++e) {
      const double off = numbers[e] > 0 ? sums[e] / static_cast<double>(numbers[e]) : 0.0;
      const float own = numbers[e] > 0 ? static_cast<float>(static_cast<double>(mean) + off) : 0.0F;
      std::memcpy(codebook + e * sizeof own, &own, sizeof own);
    }
  }

 private:
  /// Bits behind the last code are zero, so what no other bucket has is in the first.
  CAUSEWAY_ALWAYS_INLINE void count_codes(const std::byte* codes, std::int64_t count) {
    std::int64_t odd = 0, upper = 0, both = 0, at = 0;
    const auto look = [&](std::uint64_t word) CAUSEWAY_INLINE_LAMBDA {
      const std::uint64_t low_bits = word & comb(2, 1), high_bits = word >> 1U & comb(2, 1);
      odd += std::popcount(low_bits), upper += std::popcount(high_bits), both += std::popcount(low_bits & high_bits);
    };
    for (; at + 8 <= (count + 3) / 4; at += 8) look(load_bytes<8>(codes + at));
    for (; at < (count + 3) / 4; ++at) look(std::to_integer<std::uint64_t>(codes[at]));
    numbers[1] += odd - both, numbers[2] += upper - both, numbers[3] += both;
    numbers[0] += count - odd - upper + both;
  }
};

/// Values that share a codebook: the codebook, and one packed code a value. `following` values behind them come next.
template <unsigned Bits>
struct encode_buckets {
  static constexpr bool exact = true;
  static constexpr std::int64_t entries = codebook_of<Bits>::entries;
  static constexpr std::int64_t tile = 512;  // codes of it are still at hand when their values are added up
  static constexpr std::int64_t ahead = 4 * tile;

  CAUSEWAY_ALWAYS_INLINE static void run(const float* x, std::byte* codebook, std::byte* codes, std::int64_t count,
                                         float range, std::int64_t following = 0) {
    pass<false>(x, codebook, codes, count, range, following);
  }
  CAUSEWAY_ALWAYS_INLINE static void run_wide(const float* x, std::byte* codebook, std::byte* codes, std::int64_t count,
                                              float range, std::int64_t following = 0) {
    pass<true>(x, codebook, codes, count, range, following);
  }

 private:
  template <bool Wide>
  CAUSEWAY_ALWAYS_INLINE static void pass(const float* x, std::byte* codebook, std::byte* codes, std::int64_t count,
                                          float range, std::int64_t following) {
    const auto [mean, squares] = mean_and_squares(x, count);
    if (!(squares <= std::numeric_limits<float>::max())) return refuse(codebook, codes, count);
    const float deviation = count > 1 ? std::sqrt(squares / static_cast<float>(count - 1)) : 0.0F;
    const float width = range * deviation / static_cast<float>(entries);
    // Values that are all equal, or differ by less than f32 can divide by, share the middle bucket.
    const float inverse = width >= std::numeric_limits<float>::min() ? 1.0F / width : 0.0F;
    bucket_means<Bits> means;
    for (std::int64_t at = 0; at < count; at += tile) {
      const std::int64_t length = std::min(tile, count - at);
      fetch(x, at + ahead, tile, count);  // memory is idle while values are added up
      fetch(x + count, at, tile, following);
      encode_tile<Wide>(means, x + at, codes + at / 8 * Bits, length, mean, inverse);
    }
    means.store(codebook, mean);
  }

  /// A codebook of NaN: decode refuses it.
  static void refuse(std::byte* codebook, std::byte* codes, std::int64_t count) {
    for (std::int64_t e = 0; e < entries; ++e) {
      store_scale(codebook, e, scale_format::f32, std::numeric_limits<float>::quiet_NaN());
    }
    std::memset(codes, 0, packed_size(static_cast<std::size_t>(count), Bits));
  }

  /// No value is more than 2^22 buckets from the mean, beyond which rounding would not work: n values lie within √n
  /// deviations.
  template <bool Wide>
  CAUSEWAY_ALWAYS_INLINE static void encode_tile(bucket_means<Bits>& means, const float* x, std::byte* codes,
                                                 std::int64_t count, float mean, float inverse) {
    [[maybe_unused]] sums_of_four<Wide> sums;
    std::uint8_t room[Bits > 2 && Bits < 8 ? tile : 1];
    std::uint8_t* const buckets = Bits == 8 ? reinterpret_cast<std::uint8_t*>(codes) : room;
    kernels::detail::for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      CAUSEWAY_EXACT_BODY
      kernels::detail::f32x16 off;
      kernels::detail::i32x16 code;
      kernels::detail::load(off, x + i, part);
      off = off - mean;
      if constexpr (Bits == 2) {
        sums.add(code, off, inverse, part);
        pack_lanes<Wide>(codes + i / 4, code, part);
      } else {
        constexpr auto middle = static_cast<std::int32_t>(entries / 2);
        // To the nearest integer, ties to even, which is left in the low bits.
        const kernels::detail::f32x16 rounded = off * inverse + 0x1.8p23F;
        code = reinterpret_cast<kernels::detail::i32x16>(rounded) - (0x4B400000 - middle);
        clamp_lanes(code, 0, static_cast<std::int32_t>(entries - 1));
        u8x16 narrow;
        narrow_codes(narrow, code);
        pack<8>(reinterpret_cast<std::byte*>(buckets + i), narrow, part);
        if constexpr (Bits < 8) pack<Bits>(codes + i / 8 * Bits, narrow, part);
      }
    });
    if constexpr (Bits == 2) {
      means.add(sums, codes, count);
    } else {
      means.add(x, buckets, count);
    }
  }
};

/// Some of the values that share a codebook; the first of them must lie at a multiple of eight.
template <unsigned Bits, class Sink>
struct decode_buckets {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(const std::byte* codebook, const std::byte* codes, float* to, std::int64_t count,
                                         Sink sink) {
    float table[codebook_of<Bits>::entries];
    std::memcpy(table, codebook, sizeof table);
    if constexpr (Bits == 2) {
      choose_among_four(table, codes, to, count, sink);
    } else {
      kernels::detail::for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
        constexpr bool whole = std::is_same_v<decltype(part), kernels::detail::whole>;
        u8x16 code;
        unpack<Bits>(code, codes + i / 8 * Bits, part);
        const auto entry = [&](std::int64_t lane) CAUSEWAY_INLINE_LAMBDA {
          return table[Bits == 8 && whole ? std::to_integer<unsigned>(codes[i + lane]) : unsigned{code[lane]}];
        };
        if constexpr (whole && std::is_same_v<Sink, put>) {
          for (std::int64_t lane = 0; lane < kernels::detail::vector_lanes; ++lane) to[i + lane] = entry(lane);
        } else {
          kernels::detail::f32x16 v;
          look_up(v, entry);
          sink(to + i, v, part);
        }
      });
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
