// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMPRESS_BITS_HPP
#define CAUSEWAY_COMPRESS_BITS_HPP

// Integers of 1 to 8 bits with one scale per bucket of neighbouring values (QSGD: Alistarh et al., 2017, with the bucket's
// largest magnitude in place of its norm; CocktailSGD and SparseLoCo send the values that they keep like this). On the
// wire: all scales, then the codes, packed without gaps. Levels lie evenly and symmetrically about zero.

#include <causeway/compress/codec.hpp>
#include <causeway/compress/element.hpp>
#include <causeway/compress/packing.hpp>
#include <causeway/compress/scale.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
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
#include <span>
#include <string>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace compress {

/// What the largest level stands for.
enum class bucket_scale : std::uint8_t {
  max,  ///< the bucket's largest magnitude: nothing is clipped
  rms,  ///< its root mean square times the factor that is best for normal values (Max, 1960); what lies beyond is clipped
};

struct bits_options {
  std::uint32_t bucket = 128;  ///< values that share a scale: 16 to 65536, a multiple of 16
  bucket_scale scale = bucket_scale::max;
  scale_format scales = scale_format::f32;
  bool stochastic = false;  ///< round up or down at random, so that the mean of many roundings is the value
  std::uint64_t seed = 0;   ///< of the random numbers

  void serialize(auto& ar) { ar(bucket, scale, scales, stochastic, seed); }
};

/// errc::invalid_argument when the options cannot work.
inline result<void> validate(const bits_options& o) {
  const bool known = (o.scales == scale_format::f32 || o.scales == scale_format::bf16) &&
                     (o.scale == bucket_scale::max || o.scale == bucket_scale::rms);
  if (known && o.bucket >= 16 && o.bucket <= 65536 && o.bucket % 16 == 0) return {};
  return fail(errc::invalid_argument, "bits",
              "a bucket of " + std::to_string(o.bucket) + " values; take 16 to 65536, a multiple of 16");
}

namespace detail {

/// Level numbers are integers that the scale is multiplied with. From 3 bits on they are -top .. top and code 0 is unused,
/// so that zero has a level; 1 and 2 bits cannot spare a code, and take the odd numbers -top, -top + 2, .. top.
template <unsigned Bits>
struct bit_levels {
  static_assert(Bits >= 1 && Bits <= 8);
  static constexpr bool with_zero = Bits >= 3;
  static constexpr int half = 1 << (Bits - 1);
  static constexpr int top = with_zero ? half - 1 : 2 * half - 1;

  /// Codes count the levels from `first` steps below zero on; a value of the top level has so many steps.
  static constexpr std::int32_t first = with_zero ? half : 0;
  static constexpr float largest = with_zero ? top : 0.5F * top;

  /// Stochastic rounding adds so many random bits behind the point and drops what is then there. With more than 22 - Bits,
  /// a largest value that is a rounding error above its level would count as more than that.
  static constexpr unsigned fraction = Bits <= 6 ? 16 : 22 - Bits;

  /// The top level over the root mean square at which a uniform quantiser has the least square error for normal values.
  static constexpr float best_top[8] = {0.79788F, 1.49353F, 1.95231F, 2.47388F, 2.89873F, 3.27011F, 3.60746F, 3.92050F};
};

/// Adding it leaves the nearest number with so many bits behind the point, ties to even, in the low bits.
CAUSEWAY_HD constexpr float fraction_rounder(unsigned fraction) noexcept {
  return 1.5F * static_cast<float>(1U << (23 - fraction));
}

struct bits_task {
  const float* x;
  std::byte* scales;
  std::byte* codes;
  std::int64_t count;
  bits_options options;
  std::uint64_t key;
};

/// Random in the upper half, from a value's bits, its place in the bucket and a key: the finaliser of MurmurHash3 between
/// the three. The value's own bits are what makes buckets differ, since a codec does not know which bucket of the row it
/// sees.
CAUSEWAY_ALWAYS_INLINE void draw_bits(kernels::detail::u32x16& h, const kernels::detail::f32x16& x, std::int64_t place,
                                      std::uint64_t key) {
  using kernels::detail::u32x16;
  const u32x16 lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  h = reinterpret_cast<u32x16>(x) ^ static_cast<std::uint32_t>(key);
  h = (h ^ (h >> 16U)) * 0x85EBCA6BU;
  constexpr std::uint32_t golden = 0x9E3779B1U;
  const auto base = static_cast<std::uint32_t>(place) * golden + static_cast<std::uint32_t>(key >> 32U);
  h = (h ^ (h >> 13U)) + (lane * golden + base);  // lane and place times golden: one multiplication less for vectors
  h = (h ^ (h >> 15U)) * 0xC2B2AE35U;
  h = (h ^ (h >> 13U)) * 0x85EBCA6BU;
}

/// Encodes whole buckets and perhaps a last shorter one, starting at a bucket's start.
template <unsigned Bits, bool Stochastic>
struct encode_bits {
  static constexpr bool exact = true;
  using levels = bit_levels<Bits>;
  using f32x16 = kernels::detail::f32x16;
  using i32x16 = kernels::detail::i32x16;
  static constexpr std::int64_t group = 8;   // buckets whose scales are found together
  static constexpr std::int64_t tile = 256;  // values whose random numbers are drawn together

  /// The scales of a group of buckets first, then their codes: a bucket's codes have to wait for its scale, which is a long
  /// chain of operations that other scales can overlap with.
  CAUSEWAY_ALWAYS_INLINE static void run(bits_task t) {
    const std::int64_t bucket = t.options.bucket;
    const std::int64_t buckets = (t.count + bucket - 1) / bucket;
    for (std::int64_t first = 0; first < buckets; first += group) {
      const std::int64_t end = std::min(first + group, buckets);
      float scales[group];
      for (std::int64_t b = first; b < end; ++b) scales[b - first] = find_scale(t, b);
      for (std::int64_t b = first; b < end; ++b) {
        const std::int64_t stop = std::min((b + 1) * bucket, t.count);
        for (std::int64_t at = b * bucket; at < stop; at += tile) {
          const std::int64_t length = std::min(tile, stop - at);
          fetch_ahead(t, at + group * bucket, length);
          encode_tile(t, at, at - b * bucket, length, scales[b - first]);
        }
      }
    }
  }

 private:
  /// Values of the next group come into the cache while this one is encoded: finding their scales would wait for memory.
  CAUSEWAY_ALWAYS_INLINE static void fetch_ahead(const bits_task& t, std::int64_t at, std::int64_t length) {
    for (const std::int64_t end = std::min(at + length, t.count); at < end; at += 16) __builtin_prefetch(t.x + at);
  }

  CAUSEWAY_ALWAYS_INLINE static float find_scale(const bits_task& t, std::int64_t b) {
    const std::int64_t bucket = t.options.bucket;
    const float* const x = t.x + b * bucket;
    const std::int64_t length = std::min(bucket, t.count - b * bucket);
    const float largest = t.options.scale == bucket_scale::max ? largest_magnitude(x, length)
                                                               : root_mean_square(x, length) * levels::best_top[Bits - 1];
    return store_usable_scale(t.scales, b, t.options.scales, largest / static_cast<float>(levels::top));
  }

  CAUSEWAY_ALWAYS_INLINE static void encode_tile(const bits_task& t, std::int64_t at, [[maybe_unused]] std::int64_t place,
                                                 std::int64_t length, float scale) {
    if constexpr (Stochastic) {
      alignas(64) std::uint32_t random[tile];
      draw_tile(random, t.x + at, place, length, t.key);
      encode_drawn(t, at, length, scale, random);
    } else {
      encode_drawn(t, at, length, scale, nullptr);
    }
  }

  /// Only root mean squares clip: else no value is beyond the level of the largest one.
  CAUSEWAY_ALWAYS_INLINE static void encode_drawn(const bits_task& t, std::int64_t at, std::int64_t length, float scale,
                                                  const std::uint32_t* random) {
    std::byte* const codes = t.codes + (at >> 3) * Bits;
    if (t.options.scale == bucket_scale::rms) {
      encode_values<true>(t.x + at, codes, length, scale, random);
    } else {
      encode_values<false>(t.x + at, codes, length, scale, random);
    }
  }

  /// All random numbers before the first code: both are long chains of operations, and of one after the other fewer are
  /// under way at once.
  CAUSEWAY_ALWAYS_INLINE static void draw_tile(std::uint32_t* random, const float* x, std::int64_t place,
                                               std::int64_t length, std::uint64_t key) {
    kernels::detail::for_lanes(length, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      f32x16 value;
      kernels::detail::u32x16 bits;
      kernels::detail::load(value, x + i, part);
      draw_bits(bits, value, place + i, key);
      store_halves(random + i, bits >> (32 - levels::fraction));
    });
  }

  /// Without a scale, values count as zeros. Codes are level numbers from 0 on, so without a zero level they lie between
  /// the integers, half a step off.
  template <bool Clip>
  CAUSEWAY_ALWAYS_INLINE static void encode_values(const float* x, std::byte* codes, std::int64_t length, float scale,
                                                   [[maybe_unused]] const std::uint32_t* random) {
    // A tie goes to the even code, which with one bit would be minus; the next larger number makes zero positive.
    [[maybe_unused]] constexpr float shift = Bits == 1 && !Stochastic ? 0x1.000002p-1F : levels::half - 0.5F;
    constexpr unsigned fraction = Stochastic ? levels::fraction : 0;
    constexpr float rounder = fraction_rounder(fraction);
    constexpr std::int32_t before_first = (std::bit_cast<std::int32_t>(rounder) >> fraction) - levels::first;
    const float inverse = scale == 0.0F ? 0.0F : (levels::with_zero ? 1.0F : 0.5F) / scale;
    const std::int32_t keep = scale == 0.0F ? 0 : -1;
    kernels::detail::for_lanes(length, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      CAUSEWAY_EXACT_BODY
      f32x16 v;
      kernels::detail::load(v, x + i, part);
      v = reinterpret_cast<f32x16>(reinterpret_cast<i32x16>(v) & keep) * inverse;
      if constexpr (Clip) clamp_magnitudes(v, levels::largest);
      if constexpr (!levels::with_zero) v += shift;
      v = v + rounder;
      i32x16 code = reinterpret_cast<i32x16>(v);
      if constexpr (Stochastic) {
        i32x16 drawn;
        std::memcpy(&drawn, random + i, sizeof drawn);
        code += drawn;
      }
      code = (code >> fraction) - before_first;
      u8x16 narrow;
      narrow_codes(narrow, code);
      pack<Bits>(codes + (i >> 3) * Bits, narrow, part);
    });
  }
};

template <unsigned Bits, class Sink>
struct decode_bits {
  static constexpr bool exact = true;
  using levels = bit_levels<Bits>;
  using i32x16 = kernels::detail::i32x16;
  CAUSEWAY_ALWAYS_INLINE static void run(const std::byte* scales, const std::byte* codes, float* to, std::int64_t count,
                                         std::int64_t bucket, scale_format format, Sink sink) {
    for (std::int64_t b = 0; b * bucket < count; ++b) {
      const float scale = load_scale(scales, b, format);
      kernels::detail::for_lanes(std::min(bucket, count - b * bucket),
                                 [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
                                   kernels::detail::f32x16 v;
                                   read(v, codes + (b * bucket + i) / 8 * Bits, scale, part);
                                   sink(to + b * bucket + i, v, part);
                                 });
    }
  }

 private:
  template <class Part>
  CAUSEWAY_ALWAYS_INLINE static void read(kernels::detail::f32x16& v, const std::byte* codes, float scale, Part part) {
    if constexpr (Bits == 1) {  // one multiplication and two bitwise operations instead of twenty
      kernels::detail::u32x16 plus;
      unpack_highest(plus, codes, part);
      const kernels::detail::u32x16 bits = (~plus & 0x80000000U) | std::bit_cast<std::uint32_t>(scale);
      v = reinterpret_cast<kernels::detail::f32x16>(bits);
    } else {
      u8x16 raw;
      unpack<Bits>(raw, codes, part);
      i32x16 code;
      widen_codes(code, raw);
      to_floats(v, levels::with_zero ? code - levels::half : code + code - levels::top);
      v = v * scale;
    }
  }
};

}  // namespace detail

/// s · ceil(n / bucket) + ceil(Bits · n / 8) bytes, s = 4 (f32 scales) or 2 (bf16).
///
/// With M the value of the largest level (the bucket's max|x|): from 3 bits on there are 2^Bits - 1 levels, zero among
/// them, and the error is at most M / (2^Bits - 2); 1 and 2 bits have 2^Bits levels (±M; ±M/3 and ±M), no zero, and an
/// error of at most M / (2^Bits - 1). bf16 scales are rounded up, which makes it 1.01 times that. Buckets of zeros decode
/// to zeros, and so do buckets whose M is below 1.2e-38 times the largest level number.
///
/// `stochastic` rounds a value between two levels to the upper one with the probability that makes the expected result the
/// value, to 2^-16 of a step (7 bits: 2^-15, 8: 2^-14); the error is at most twice the above. The random number is a hash
/// of (seed, place in the bucket, the value's bits), so the codec stays a value without state whose bytes depend on its
/// input alone, and pieces encoded apart are as the whole. The price: the same value at the same place of a bucket is
/// rounded the same way each time, until the seed is another one. Values of training change from round to round, and with
/// error feedback they do so by what was sent.
///
/// bucket_scale::rms clips, which is a systematic error: use it with error feedback.
///
/// A contraction, as error feedback wants it, from 3 bits on and rounded to the nearest: with L = 2^Bits - 2 at most
/// (bucket - 1) / (L² + bucket - 1) of |x|² is lost, 0.39 for 4 bits and buckets of 128 (bf16 scales: a little more); with
/// rms and its top level of t root mean squares at most t² / L² + (1 - t / √bucket)², 0.64. 1 and 2 bits do not contract:
/// one large value of a bucket makes all small ones as large as the lowest level, and up to (bucket - 1) / (2^Bits - 1)²
/// times |x|² is lost. `sign` and `codebook<2>` do. Stochastic rounding may lose more than it was given, too.
template <unsigned Bits>
class bits : public detail::decodes_to_sink<bits<Bits>> {
 public:
  static_assert(Bits >= 1 && Bits <= 8);
  static constexpr std::string_view name =
      std::string_view{"bits1bits2bits3bits4bits5bits6bits7bits8"}.substr(5 * (Bits - 1), 5);
  static constexpr codec_traits traits{.lossy = true, .per_block = true};
  static constexpr bool raw = false;

  explicit bits(const bits_options& options = {}) : options_{options}, key_{mix(options.seed)} {
    CAUSEWAY_EXPECT(validate(options));
  }

  [[nodiscard]] std::size_t block() const noexcept { return options_.bucket; }
  [[nodiscard]] std::size_t encoded_size(std::size_t n) const noexcept {
    return scale_bytes(n) + detail::packed_size(n, Bits);
  }
  [[nodiscard]] const bits_options& options() const noexcept { return options_; }

  std::size_t encode(thread_pool& pool, std::span<const float> values, std::span<std::byte> room,
                     kernels::simd_level level = kernels::detect_simd_level()) const {
    CAUSEWAY_EXPECT(room.size() >= encoded_size(values.size()));
    std::byte* const codes = room.data() + scale_bytes(values.size());
    detail::for_blocks(pool, values.size(), options_.bucket, [&](index_range r) {
      const detail::bits_task task{values.data() + r.begin,
                                   room.data() + scale_offset(r.begin),
                                   codes + r.begin / 8 * Bits,
                                   r.size(),
                                   options_,
                                   key_};
      if (options_.stochastic) {
        kernels::detail::dispatch<detail::encode_bits<Bits, true>>(level, task);
      } else {
        kernels::detail::dispatch<detail::encode_bits<Bits, false>>(level, task);
      }
    });
    return encoded_size(values.size());
  }

 private:
  friend detail::decodes_to_sink<bits<Bits>>;

  template <class Sink>
  result<void> decode_to(thread_pool& pool, std::span<const std::byte> bytes, std::span<float> to, Sink sink,
                         kernels::simd_level level) const {
    CAUSEWAY_TRY(check(pool, bytes, to.size(), level));
    const std::byte* const codes = bytes.data() + scale_bytes(to.size());
    detail::for_blocks(pool, to.size(), options_.bucket, [&](index_range r) {
      kernels::detail::dispatch<detail::decode_bits<Bits, Sink>>(level, bytes.data() + scale_offset(r.begin),
                                                                 codes + r.begin / 8 * Bits, to.data() + r.begin, r.size(),
                                                                 std::int64_t{options_.bucket}, options_.scales, sink);
    });
    return {};
  }

  /// A pass over the bytes alone, a fraction of what they decode to, so that nothing is touched by bad ones.
  result<void> check(thread_pool& pool, std::span<const std::byte> bytes, std::size_t n, kernels::simd_level level) const {
    if (bytes.size() != encoded_size(n)) return detail::wrong_length(name, bytes.size(), encoded_size(n));
    const auto blocks = static_cast<std::int64_t>(detail::blocks_of(n, options_.bucket));
    auto found = static_cast<unsigned>(
        detail::check_scales(bytes.data(), blocks, options_.scales, static_cast<float>(detail::bit_levels<Bits>::top)));
    const auto codes = bytes.subspan(scale_bytes(n));
    if (!detail::spare_bits_clear(codes, n, Bits)) found |= static_cast<unsigned>(detail::decoding::corrupt);
    if constexpr (detail::bit_levels<Bits>::with_zero) {
      if (found == 0 && has_unused_code(pool, codes, n, level)) found = static_cast<unsigned>(detail::decoding::corrupt);
    }
    return detail::to_result(found, name, "a scale below zero, an unused code or bits behind the last one");
  }

  static bool has_unused_code(thread_pool& pool, std::span<const std::byte> codes, std::size_t n,
                              kernels::simd_level level) {
    std::atomic<bool> unused{false};
    kernels::detail::for_elements(pool, static_cast<std::int64_t>(n), [&](index_range r) {
      const bool any =
          kernels::detail::dispatch<detail::find_unused_code<Bits>>(level, codes.data() + r.begin / 8 * Bits, r.size());
      if (any) unused.store(true, std::memory_order_relaxed);
    });
    return unused.load(std::memory_order_relaxed);
  }

  [[nodiscard]] std::size_t scale_bytes(std::size_t n) const noexcept {
    return detail::blocks_of(n, options_.bucket) * detail::bytes_per_scale(options_.scales);
  }
  [[nodiscard]] std::size_t scale_offset(std::int64_t first_value) const noexcept {
    return static_cast<std::size_t>(first_value) / options_.bucket * detail::bytes_per_scale(options_.scales);
  }

  bits_options options_;
  std::uint64_t key_;  // neighbouring seeds make unlike keys
};
static_assert(AddingCodec<bits<4>>);

}}}  // namespace causeway::CAUSEWAY_ABI::compress

#define CAUSEWAY_BITS_KERNELS(bits)                                                                                      \
  CAUSEWAY_EXACT_KERNEL((compress::detail::bits_task), compress::detail::encode_bits<bits, true>)                        \
  CAUSEWAY_EXACT_KERNEL((compress::detail::bits_task), compress::detail::encode_bits<bits, false>)                       \
  CAUSEWAY_EXACT_KERNEL((const std::byte*, const std::byte*, float*, std::int64_t, std::int64_t, compress::scale_format, \
                         compress::detail::put),                                                                         \
                        compress::detail::decode_bits<bits, compress::detail::put>)                                      \
  CAUSEWAY_EXACT_KERNEL((const std::byte*, const std::byte*, float*, std::int64_t, std::int64_t, compress::scale_format, \
                         compress::detail::add_weighted),                                                                \
                        compress::detail::decode_bits<bits, compress::detail::add_weighted>)                             \
  CAUSEWAY_EXACT_KERNEL((const std::byte*, std::int64_t), compress::detail::find_unused_code<bits>)
CAUSEWAY_BITS_KERNELS(2)
CAUSEWAY_BITS_KERNELS(4)
CAUSEWAY_BITS_KERNELS(8)
#undef CAUSEWAY_BITS_KERNELS

#endif  // CAUSEWAY_COMPRESS_BITS_HPP
