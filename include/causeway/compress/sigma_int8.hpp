// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMPRESS_SIGMA_INT8_HPP
#define CAUSEWAY_COMPRESS_SIGMA_INT8_HPP

// The "uniform 8-bit" quantiser of hivemind, which PRIME and Templar took over: 256 buckets of equal width about the mean,
// together six standard deviations wide, and each value replaced by the mean of the values in its bucket. The bucket means
// travel as a codebook of 256 f32, so a reader needs no arithmetic. Values beyond the outermost buckets count to them and
// move their means. On the wire: the codebooks of all blocks, then one code a value.

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
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>

namespace causeway::inline CAUSEWAY_ABI::compress {

struct sigma_int8_options {
  std::uint32_t block = 65536;       ///< values that share a codebook of 1 KiB: 256 to 2^20, a multiple of 64
  float range_in_deviations = 6.0F;  ///< width of all buckets together, in standard deviations: 1 to 64

  template <class Archive>
  void serialize(Archive& ar) {
    ar(block, range_in_deviations);
  }
};

/// errc::invalid_argument when the options cannot work.
inline result<void> validate(const sigma_int8_options& o) {
  if (o.block < 256 || o.block > (1U << 20U) || o.block % 64 != 0) {
    return fail(errc::invalid_argument, "sigma_int8",
                "a block of " + std::to_string(o.block) + " values; take 256 to 1048576, a multiple of 64");
  }
  if (o.range_in_deviations >= 1.0F && o.range_in_deviations <= 64.0F) return {};
  return fail(errc::invalid_argument, "sigma_int8", "the range must be 1 to 64 standard deviations");
}

namespace detail {

struct sigma_codebook {
  static constexpr std::int64_t entries = 256;
  static constexpr std::size_t bytes = entries * sizeof(float);
};

CAUSEWAY_ALWAYS_INLINE float sum_of(const float* x, std::int64_t count) {
  return kernels::detail::sum_lanes(
      count,
      [&](kernels::detail::f32x16& total, std::int64_t i) CAUSEWAY_INLINE_LAMBDA {
        kernels::detail::f32x16 v;
        kernels::detail::load(v, x + i, kernels::detail::whole{});
        total += v;
      },
      [&](std::int64_t i) CAUSEWAY_INLINE_LAMBDA { return x[i]; });
}

CAUSEWAY_ALWAYS_INLINE float sum_of_squares(const float* x, std::int64_t count, float mean) {
  CAUSEWAY_EXACT_BODY
  return kernels::detail::sum_lanes(
      count,
      [&](kernels::detail::f32x16& total, std::int64_t i) CAUSEWAY_INLINE_LAMBDA {
        CAUSEWAY_EXACT_BODY
        kernels::detail::f32x16 v;
        kernels::detail::load(v, x + i, kernels::detail::whole{});
        v = v - mean;
        total += v * v;
      },
      [&](std::int64_t i) CAUSEWAY_INLINE_LAMBDA {
        CAUSEWAY_EXACT_BODY
        const float v = x[i] - mean;
        return v * v;
      });
}

/// Sums and numbers of the values in each bucket, side by side: both grow in one addition. Two sets, for even and odd
/// places: neighbours are often in one bucket, and an addition would wait for the one before.
struct bucket_means {
  using pair [[gnu::vector_size(16)]] = double;
  pair sums[2][sigma_codebook::entries] = {};

  CAUSEWAY_ALWAYS_INLINE void add(const float* x, const std::uint8_t* codes, std::int64_t count) {
    std::int64_t i = 0;
    for (; i + 2 <= count; i += 2) {
      sums[0][codes[i]] += pair{static_cast<double>(x[i]), 1.0};
      sums[1][codes[i + 1]] += pair{static_cast<double>(x[i + 1]), 1.0};
    }
    if (i < count) sums[0][codes[i]] += pair{static_cast<double>(x[i]), 1.0};
  }

  /// Empty buckets have the mean zero.
  CAUSEWAY_ALWAYS_INLINE void store(std::byte* codebook) const {
    for (std::size_t e = 0; e < static_cast<std::size_t>(sigma_codebook::entries); ++e) {
      const pair sum = sums[0][e] + sums[1][e];
      const float mean = sum[1] > 0.0 ? static_cast<float>(sum[0] / sum[1]) : 0.0F;
      std::memcpy(codebook + e * sizeof mean, &mean, sizeof mean);
    }
  }
};

/// One block of at most the options' size.
struct encode_sigma_block {
  static constexpr bool exact = true;
  static constexpr std::int64_t tile = 512;  // codes of it are still at hand when their values are added up

  CAUSEWAY_ALWAYS_INLINE static void run(const float* x, std::byte* codebook, std::uint8_t* codes, std::int64_t count,
                                         float range) {
    const float mean = sum_of(x, count) / static_cast<float>(count);
    const float squares = sum_of_squares(x, count, mean);
    if (!(squares <= std::numeric_limits<float>::max())) return refuse(codebook, codes, count);
    const float deviation = count > 1 ? std::sqrt(squares / static_cast<float>(count - 1)) : 0.0F;
    const float width = range * deviation / static_cast<float>(sigma_codebook::entries);
    // Values that are all equal, or differ by less than f32 can divide by, share the middle bucket.
    const float inverse = width >= std::numeric_limits<float>::min() ? 1.0F / width : 0.0F;
    bucket_means means;
    for (std::int64_t at = 0; at < count; at += tile) {
      const std::int64_t length = std::min(tile, count - at);
      choose_buckets(x + at, codes + at, length, mean, inverse);
      means.add(x + at, codes + at, length);
    }
    means.store(codebook);
  }

 private:
  /// A codebook of NaN: decode refuses it.
  static void refuse(std::byte* codebook, std::uint8_t* codes, std::int64_t count) {
    for (std::int64_t e = 0; e < sigma_codebook::entries; ++e) {
      store_scale(codebook, e, scale_format::f32, std::numeric_limits<float>::quiet_NaN());
    }
    std::memset(codes, 0, static_cast<std::size_t>(count));
  }

  /// No value is more than 2^22 buckets from the mean, beyond which rounding would not work: n values lie within √n
  /// deviations.
  CAUSEWAY_ALWAYS_INLINE static void choose_buckets(const float* x, std::uint8_t* codes, std::int64_t count, float mean,
                                                    float inverse) {
    kernels::detail::for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      CAUSEWAY_EXACT_BODY
      kernels::detail::f32x16 v;
      kernels::detail::load(v, x + i, part);
      v = (v - mean) * inverse;
      v = v + 0x1.8p23F;  // to the nearest integer, ties to even, which is left in the low bits
      kernels::detail::i32x16 code = reinterpret_cast<kernels::detail::i32x16>(v) - (0x4B400000 - 128);
      clamp_lanes(code, 0, 255);
      u8x16 narrow;
      narrow_codes(narrow, code);
      pack<8>(reinterpret_cast<std::byte*>(codes + i), narrow, part);
    });
  }
};

/// Values that share a codebook.
template <class Sink>
struct decode_sigma {
  static constexpr bool exact = true;
  static constexpr std::int64_t tile = 256;

  CAUSEWAY_ALWAYS_INLINE static void run(const std::byte* codebook, const std::uint8_t* codes, float* to,
                                         std::int64_t count, Sink sink) {
    float table[sigma_codebook::entries];
    std::memcpy(table, codebook, sizeof table);
    alignas(64) float looked_up[tile];
    for (std::int64_t at = 0; at < count; at += tile) {
      const std::int64_t length = std::min(tile, count - at);
      for (std::int64_t i = 0; i < length; ++i) looked_up[i] = table[codes[at + i]];
      kernels::detail::for_lanes(length, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
        kernels::detail::f32x16 v;
        kernels::detail::load(v, looked_up + i, part);
        sink(to + at + i, v, part);
      });
    }
  }
};

}  // namespace detail

/// n + 1024 · ceil(n / block) bytes: 8.125 bits a value with blocks of 65536. For fewer values than a few thousand the
/// codebook outweighs what it saves; block_int8 is the codec for those.
///
/// With m and s the mean and the standard deviation (n - 1 in the denominator) of a block, and w = range · s / 256, bucket
/// c holds the values nearest to m + (c - 128) · w. They are off by at most w, and by about w / √12 on average; but what
/// lies beyond the outermost buckets (with range 6, more than 3 s from m) counts to them, and is off by what it differs
/// from their means. The decoded block has the sum of the original, but for rounding. A block of equal values is exact.
///
/// Refused by decode like infinite values: blocks whose squared deviations add up to more than 3.4e38.
class sigma_int8 : public detail::decodes_to_sink<sigma_int8> {
 public:
  static constexpr std::string_view name = "sigma_int8";
  static constexpr codec_traits traits{.lossy = true, .per_block = true};
  static constexpr bool raw = false;

  explicit sigma_int8(const sigma_int8_options& options = {}) : options_{options} { CAUSEWAY_EXPECT(validate(options)); }

  [[nodiscard]] std::size_t block() const noexcept { return options_.block; }
  [[nodiscard]] std::size_t encoded_size(std::size_t n) const noexcept { return n + codebook_bytes(n); }
  [[nodiscard]] const sigma_int8_options& options() const noexcept { return options_; }

  std::size_t encode(thread_pool& pool, std::span<const float> values, std::span<std::byte> room,
                     kernels::simd_level level = kernels::detect_simd_level()) const {
    CAUSEWAY_EXPECT(room.size() >= encoded_size(values.size()));
    auto* const codes = reinterpret_cast<std::uint8_t*>(room.data() + codebook_bytes(values.size()));
    const auto encode_part = [&](index_range r) {
      for_parts(r, [&](std::int64_t at, std::int64_t length) {
        kernels::detail::dispatch<detail::encode_sigma_block>(level, values.data() + at, room.data() + codebook_offset(at),
                                                              codes + at, length, options_.range_in_deviations);
      });
    };
    pool.for_range(static_cast<std::int64_t>(values.size()), std::int64_t{options_.block}, encode_part);
    return encoded_size(values.size());
  }

 private:
  friend detail::decodes_to_sink<sigma_int8>;

  /// Only a codebook can be wrong. Threads may share a block here: a value depends on its code and the codebook alone.
  template <class Sink>
  result<void> decode_to(thread_pool& pool, std::span<const std::byte> bytes, std::span<float> to, Sink sink,
                         kernels::simd_level level) const {
    if (bytes.size() != encoded_size(to.size())) {
      return detail::wrong_length(name, bytes.size(), encoded_size(to.size()));
    }
    const std::size_t head = codebook_bytes(to.size());
    const auto* const means = reinterpret_cast<const float*>(bytes.data());
    if (!kernels::detail::dispatch<detail::finite_elements>(level, means,
                                                            static_cast<std::int64_t>(head / sizeof(float)))) {
      return detail::not_finite(name);
    }
    const auto* const codes = reinterpret_cast<const std::uint8_t*>(bytes.data() + head);
    kernels::detail::for_elements(pool, static_cast<std::int64_t>(to.size()), [&](index_range r) {
      for_parts(r, [&](std::int64_t at, std::int64_t length) {
        kernels::detail::dispatch<detail::decode_sigma<Sink>>(level, bytes.data() + codebook_offset(at), codes + at,
                                                              to.data() + at, length, sink);
      });
    });
    return {};
  }

  /// Calls `f(first, count)` for the parts of a range that lie in one block each.
  template <class F>
  void for_parts(index_range r, F&& f) const {
    const std::int64_t block = options_.block;
    for (std::int64_t at = r.begin; at < r.end;) {
      const std::int64_t end = std::min(r.end, (at / block + 1) * block);
      f(at, end - at);
      at = end;
    }
  }

  [[nodiscard]] std::size_t codebook_bytes(std::size_t n) const noexcept {
    return detail::blocks_of(n, options_.block) * detail::sigma_codebook::bytes;
  }
  [[nodiscard]] std::size_t codebook_offset(std::int64_t first_value) const noexcept {
    return static_cast<std::size_t>(first_value) / options_.block * detail::sigma_codebook::bytes;
  }

  sigma_int8_options options_;
};
static_assert(AddingCodec<sigma_int8>);

}  // namespace causeway::inline CAUSEWAY_ABI::compress

#endif  // CAUSEWAY_COMPRESS_SIGMA_INT8_HPP
