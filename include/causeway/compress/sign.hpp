// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMPRESS_SIGN_HPP
#define CAUSEWAY_COMPRESS_SIGN_HPP

// One bit a value: its sign, times the mean magnitude of its bucket (signSGD with the l1 scale and error feedback:
// Karimireddy et al., 2019), or times 1 (signSGD: Bernstein et al., 2018; DisTrO sends such signs). On the wire: all
// scales as f32, or without scales one byte that says whether the values were finite; then the signs, 1 for minus, lowest
// bits first.

#include <causeway/compress/codec.hpp>
#include <causeway/compress/element.hpp>
#include <causeway/compress/packing.hpp>
#include <causeway/compress/scale.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/cpu_features.hpp>
#include <causeway/kernels/finite.hpp>
#include <causeway/kernels/simd_math.hpp>
#include <causeway/kernels/targets.hpp>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace compress {

struct sign_options {
  std::uint32_t bucket = 1024;  ///< values that share a scale: 16 to 65536, a multiple of 16
  bool scaled = true;           ///< false: values decode to +1 and -1

  void serialize(auto& ar) { ar(bucket, scaled); }
};

/// errc::invalid_argument when the options cannot work.
inline result<void> validate(const sign_options& o) {
  if (o.bucket >= 16 && o.bucket <= 65536 && o.bucket % 16 == 0) return {};
  return fail(errc::invalid_argument, "sign",
              "a bucket of " + std::to_string(o.bucket) + " values; take 16 to 65536, a multiple of 16");
}

namespace detail {

CAUSEWAY_ALWAYS_INLINE float mean_magnitude(const float* x, std::int64_t count) {
  using i32x8 [[gnu::vector_size(32)]] = std::int32_t;
  const float sum = sum_values(
      x, count,
      [](kernels::detail::f32x8& v) CAUSEWAY_INLINE_LAMBDA {
        const i32x8 magnitude = reinterpret_cast<i32x8>(v) & 0x7FFFFFFF;
        v = reinterpret_cast<kernels::detail::f32x8>(magnitude);
      },
      [](float v) CAUSEWAY_INLINE_LAMBDA { return std::abs(v); });
  return sum / static_cast<float>(count);
}

/// Whether all values were finite, too.
struct encode_signs {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static bool run(const float* x, std::byte* codes, std::int64_t count) {
    kernels::detail::exponent_watch<float> watch;
    kernels::detail::for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      kernels::detail::f32x16 v;
      kernels::detail::load(v, x + i, part);
      watch.see(x + i, part);
      const kernels::detail::u32x16 minus = reinterpret_cast<kernels::detail::u32x16>(v) >> 31U;
      u8x16 narrow;
      narrow_codes(narrow, reinterpret_cast<kernels::detail::i32x16>(minus));
      pack<1>(codes + i / 8, narrow, part);
    });
    return watch.all_finite();
  }
};

struct encode_sign_buckets {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(const float* x, std::byte* scales, std::byte* codes, std::int64_t count,
                                         std::int64_t bucket) {
    for (std::int64_t b = 0; b * bucket < count; ++b) {
      const std::int64_t length = std::min(bucket, count - b * bucket);
      const float mean = mean_magnitude(x + b * bucket, length);
      const bool finite = mean <= std::numeric_limits<float>::max();  // else a NaN that is the same everywhere
      store_scale(scales, b, scale_format::f32, finite ? mean : std::numeric_limits<float>::quiet_NaN());
      encode_signs::run(x + b * bucket, codes + b * bucket / 8, length);
    }
  }
};

/// Without scales: a bucket of all values, of scale 1.
template <class Sink>
struct decode_signs {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(const std::byte* scales, const std::byte* codes, float* to, std::int64_t count,
                                         std::int64_t bucket, Sink sink) {
    for (std::int64_t b = 0; b * bucket < count; ++b) {
      const float scale = scales != nullptr ? load_scale(scales, b, scale_format::f32) : 1.0F;
      const auto magnitude = std::bit_cast<std::uint32_t>(scale);
      kernels::detail::for_lanes(std::min(bucket, count - b * bucket),
                                 [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
                                   kernels::detail::u32x16 bits;
                                   unpack_highest(bits, codes + (b * bucket + i) / 8, part);
                                   bits = (bits & 0x80000000U) | magnitude;
                                   sink(to + b * bucket + i, reinterpret_cast<kernels::detail::f32x16>(bits), part);
                                 });
    }
  }
};

}  // namespace detail

/// ceil(n / 8) + 4 · ceil(n / bucket) bytes; without scales ceil(n / 8) + 1, and nothing for n = 0. The sign is that of the
/// number's representation: +0 counts as positive, -0 as negative. The decoded bucket has the l1 norm of the original (but
/// for rounding), and is the nearest to it of all that are a number times its signs; so |x - decoded|² of a bucket is
/// |x|² - |x|₁² / bucket, less than |x|². Use it with error feedback.
///
/// Sums of magnitudes that overflow f32 are refused by decode like infinite values. Without scales values decode to ±1,
/// whatever their size: then feeding back x - decoded makes no sense, and the learning rate is the scale.
class sign : public detail::decodes_to_sink<sign> {
 public:
  static constexpr std::string_view name = "sign";
  static constexpr codec_traits traits{.lossy = true, .per_block = true};
  static constexpr bool raw = false;

  explicit sign(const sign_options& options = {}) : options_{options} { CAUSEWAY_EXPECT(validate(options)); }

  [[nodiscard]] std::size_t block() const noexcept { return options_.bucket; }
  [[nodiscard]] std::size_t encoded_size(std::size_t n) const noexcept { return head(n) + detail::packed_size(n, 1); }
  [[nodiscard]] const sign_options& options() const noexcept { return options_; }

  std::size_t encode(thread_pool& pool, std::span<const float> values, std::span<std::byte> room,
                     kernels::simd_level level = kernels::detect_simd_level()) const {
    CAUSEWAY_EXPECT(room.size() >= encoded_size(values.size()));
    std::byte* const codes = room.data() + head(values.size());
    std::atomic<bool> finite{true};
    detail::for_blocks(pool, values.size(), options_.bucket, [&](index_range r) {
      const float* const x = values.data() + r.begin;
      if (options_.scaled) {
        kernels::detail::dispatch<detail::encode_sign_buckets>(level, x, room.data() + r.begin / options_.bucket * 4,
                                                               codes + r.begin / 8, r.size(),
                                                               std::int64_t{options_.bucket});
        return;
      }
      const bool good = kernels::detail::dispatch<detail::encode_signs>(level, x, codes + r.begin / 8, r.size());
      if (!good) finite.store(false, std::memory_order_relaxed);
    });
    if (!options_.scaled && !values.empty()) room[0] = finite.load(std::memory_order_relaxed) ? std::byte{0} : std::byte{1};
    return encoded_size(values.size());
  }

 private:
  friend detail::decodes_to_sink<sign>;

  template <class Sink>
  result<void> decode_to(thread_pool& pool, std::span<const std::byte> bytes, std::span<float> to, Sink sink,
                         kernels::simd_level level) const {
    CAUSEWAY_TRY(check(bytes, to.size()));
    const std::byte* const codes = bytes.data() + head(to.size());
    detail::for_blocks(pool, to.size(), options_.bucket, [&](index_range r) {
      const std::byte* const scales = options_.scaled ? bytes.data() + r.begin / options_.bucket * 4 : nullptr;
      kernels::detail::dispatch<detail::decode_signs<Sink>>(level, scales, codes + r.begin / 8, to.data() + r.begin,
                                                            r.size(), std::int64_t{options_.bucket}, sink);
    });
    return {};
  }

  result<void> check(std::span<const std::byte> bytes, std::size_t n) const {
    if (bytes.size() != encoded_size(n)) return detail::wrong_length(name, bytes.size(), encoded_size(n));
    auto found = static_cast<unsigned>(detail::decoding::good);
    if (options_.scaled) {
      const auto buckets = static_cast<std::int64_t>(detail::blocks_of(n, options_.bucket));
      found = static_cast<unsigned>(detail::check_scales(bytes.data(), buckets, scale_format::f32, 1.0F));
    } else if (n > 0 && bytes[0] != std::byte{0}) {
      found = static_cast<unsigned>(bytes[0] == std::byte{1} ? detail::decoding::non_finite : detail::decoding::corrupt);
    }
    if (!detail::spare_bits_clear(bytes.subspan(head(n)), n, 1)) found |= static_cast<unsigned>(detail::decoding::corrupt);
    return detail::to_result(found, name, "a scale below zero, an unknown first byte or bits behind the last sign");
  }

  /// Bytes before the signs.
  [[nodiscard]] std::size_t head(std::size_t n) const noexcept {
    if (!options_.scaled) return n > 0 ? 1 : 0;
    return detail::blocks_of(n, options_.bucket) * 4;
  }

  sign_options options_;
};
static_assert(AddingCodec<sign>);

/// ±1, and no scale: ceil(n / 8) + 1 bytes. As a quantiser of sparse messages it says where a coefficient points, and a
/// sender takes all of it for sent (DisTrO as Psyche runs it, `quantize_nozeros_tensor_to_boolean_sign`).
class unit_sign : public sign {
 public:
  static constexpr std::string_view name = "unit_sign";
  static constexpr codec_traits traits{.lossy = true, .per_block = true, .chosen_is_sent = true};

  unit_sign() : sign{sign_options{.scaled = false}} {}
};
static_assert(AddingCodec<unit_sign>);

}}}  // namespace causeway::CAUSEWAY_ABI::compress

CAUSEWAY_EXACT_KERNEL((const float*, std::byte*, std::byte*, std::int64_t, std::int64_t),
                      compress::detail::encode_sign_buckets)
CAUSEWAY_EXACT_KERNEL((const float*, std::byte*, std::int64_t), compress::detail::encode_signs)
CAUSEWAY_EXACT_KERNEL((const std::byte*, const std::byte*, float*, std::int64_t, std::int64_t, compress::detail::put),
                      compress::detail::decode_signs<compress::detail::put>)
CAUSEWAY_EXACT_KERNEL((const std::byte*, const std::byte*, float*, std::int64_t, std::int64_t,
                       compress::detail::add_weighted),
                      compress::detail::decode_signs<compress::detail::add_weighted>)

#endif  // CAUSEWAY_COMPRESS_SIGN_HPP
