// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMPRESS_BLOCK_INT8_HPP
#define CAUSEWAY_COMPRESS_BLOCK_INT8_HPP

// Eight-bit integers with one scale per block of neighbouring values (Dettmers et al., 2022, section 2, with a linear
// instead of a dynamic code). On the wire: all scales, then one code per value. A value is scale · code with a code between
// -127 and 127.

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
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace compress {

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

CAUSEWAY_ALWAYS_INLINE void store_codes(std::int8_t* to, const u8x16& codes, kernels::detail::whole) {
  std::memcpy(to, &codes, sizeof codes);
}
CAUSEWAY_ALWAYS_INLINE void store_codes(std::int8_t* to, const u8x16& codes, kernels::detail::tail part) {
  std::memcpy(to, &codes, static_cast<std::size_t>(part.count));
}

CAUSEWAY_ALWAYS_INLINE void load_codes(i8x16& codes, const std::int8_t* from, kernels::detail::whole) {
  std::memcpy(&codes, from, sizeof codes);
}
/// Codes beyond the tail are zero.
CAUSEWAY_ALWAYS_INLINE void load_codes(i8x16& codes, const std::int8_t* from, kernels::detail::tail part) {
  std::int8_t padded[16] = {};
  std::memcpy(padded, from, static_cast<std::size_t>(part.count));
  std::memcpy(&codes, padded, sizeof codes);
}

/// Encodes whole blocks and perhaps a last shorter one, starting at a block's start.
struct encode_blocks {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(const float* x, std::byte* scales, std::int8_t* codes, std::int64_t count,
                                         std::int64_t block, scale_format format) {
    for (std::int64_t b = 0; b * block < count; ++b) {
      const std::int64_t length = std::min(block, count - b * block);
      const float largest = largest_magnitude(x + b * block, length);
      const float scale = store_usable_scale(scales, b, format, largest / 127.0F);
      if (scale == 0.0F) {  // zeros, numbers so small that 1/scale overflows, or NaN or infinity
        std::memset(codes + b * block, 0, static_cast<std::size_t>(length));
        continue;
      }
      const float inverse = 1.0F / scale;
      kernels::detail::for_lanes(length, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
        CAUSEWAY_EXACT_BODY
        kernels::detail::f32x16 v;
        kernels::detail::load(v, x + b * block + i, part);
        v = v * inverse + 0x1.8p23F;  // rounds to the nearest integer, ties to even, and leaves it in the low bits
        const kernels::detail::i32x16 code = reinterpret_cast<kernels::detail::i32x16>(v) - 0x4B400000;
        u8x16 narrow;
        narrow_codes(narrow, code);
        store_codes(codes + b * block + i, narrow, part);
      });
    }
  }
};

/// Whether a code is -128, which no encoder makes.
struct find_code_below {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static bool run(const std::int8_t* codes, std::int64_t count) {
    i8x16 found{}, code;
    std::int64_t i = 0;
    for (; i + 16 <= count; i += 16) {
      std::memcpy(&code, codes + i, sizeof code);
      found |= code == -128;
    }
    const u64x2 halves = reinterpret_cast<u64x2>(found);
    bool any = (halves[0] | halves[1]) != 0;
    for (; i < count; ++i) any |= codes[i] == -128;
    return any;
  }
};

template <class Sink>
struct decode_blocks {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(const std::byte* scales, const std::int8_t* codes, float* to, std::int64_t count,
                                         std::int64_t block, scale_format format, Sink sink) {
    for (std::int64_t b = 0; b * block < count; ++b) {
      const float scale = load_scale(scales, b, format);
      kernels::detail::for_lanes(std::min(block, count - b * block), [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
        i8x16 raw;
        load_codes(raw, codes + b * block + i, part);
        kernels::detail::i32x16 code;
        widen_codes(code, raw);
        kernels::detail::f32x16 v;
        to_floats(v, code);
        sink(to + b * block + i, v * scale, part);
      });
    }
  }
};

}  // namespace detail

/// n + s · ceil(n / block) bytes, s = 4 (f32 scales) or 2 (bf16). scale = max|x| / 127 of the block, codes round to the
/// nearest, ties to even. Error at most max|x| / 254 of the block (1.01 times that with bf16 scales, which are rounded up),
/// and at most 1.5e-36 where a block is smaller than that. Each code of a block of zeros is zero. A contraction: of |x|² at
/// most (block - 1) / (254² + block - 1) is lost, 0.4% with blocks of 256.
class block_int8 : public detail::decodes_to_sink<block_int8> {
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
    detail::for_blocks(pool, values.size(), options_.block, [&](index_range r) {
      kernels::detail::dispatch<detail::encode_blocks>(level, values.data() + r.begin, room.data() + scale_offset(r.begin),
                                                       codes + r.begin, r.size(), std::int64_t{options_.block},
                                                       options_.scales);
    });
    return encoded_size(values.size());
  }

 private:
  friend detail::decodes_to_sink<block_int8>;

  template <class Sink>
  result<void> decode_to(thread_pool& pool, std::span<const std::byte> bytes, std::span<float> to, Sink sink,
                         kernels::simd_level level) const {
    if (bytes.size() != encoded_size(to.size())) {
      return detail::wrong_length(name, bytes.size(), encoded_size(to.size()));
    }
    const auto* const codes = reinterpret_cast<const std::int8_t*>(bytes.data() + scale_bytes(to.size()));
    CAUSEWAY_TRY(check(pool, bytes, codes, to.size(), level));
    detail::for_blocks(pool, to.size(), options_.block, [&](index_range r) {
      kernels::detail::dispatch<detail::decode_blocks<Sink>>(level, bytes.data() + scale_offset(r.begin), codes + r.begin,
                                                             to.data() + r.begin, r.size(), std::int64_t{options_.block},
                                                             options_.scales, sink);
    });
    return {};
  }

  /// A pass over the bytes alone, so that nothing is touched by bad ones.
  result<void> check(thread_pool& pool, std::span<const std::byte> bytes, const std::int8_t* codes, std::size_t n,
                     kernels::simd_level level) const {
    const auto blocks = static_cast<std::int64_t>(detail::blocks_of(n, options_.block));
    std::atomic<unsigned> found{static_cast<unsigned>(detail::check_scales(bytes.data(), blocks, options_.scales, 127.0F))};
    kernels::detail::for_elements(pool, static_cast<std::int64_t>(n), [&](index_range r) {
      const bool any = kernels::detail::dispatch<detail::find_code_below>(level, codes + r.begin, r.size());
      if (any) found.fetch_or(static_cast<unsigned>(detail::decoding::corrupt), std::memory_order_relaxed);
    });
    return detail::to_result(found.load(std::memory_order_relaxed), name, "a scale below zero or a code of -128");
  }

  [[nodiscard]] std::size_t scale_bytes(std::size_t n) const noexcept {
    return detail::blocks_of(n, options_.block) * detail::bytes_per_scale(options_.scales);
  }
  [[nodiscard]] std::size_t scale_offset(std::int64_t first_value) const noexcept {
    return static_cast<std::size_t>(first_value) / options_.block * detail::bytes_per_scale(options_.scales);
  }

  block_int8_options options_;
};
static_assert(AddingCodec<block_int8>);

}}}  // namespace causeway::CAUSEWAY_ABI::compress

CAUSEWAY_EXACT_KERNEL((const float*, std::byte*, std::int8_t*, std::int64_t, std::int64_t, compress::scale_format),
                      compress::detail::encode_blocks)
CAUSEWAY_EXACT_KERNEL((const std::byte*, const std::int8_t*, float*, std::int64_t, std::int64_t, compress::scale_format,
                       compress::detail::put),
                      compress::detail::decode_blocks<compress::detail::put>)
CAUSEWAY_EXACT_KERNEL((const std::byte*, const std::int8_t*, float*, std::int64_t, std::int64_t, compress::scale_format,
                       compress::detail::add_weighted),
                      compress::detail::decode_blocks<compress::detail::add_weighted>)
CAUSEWAY_EXACT_KERNEL((const std::int8_t*, std::int64_t), compress::detail::find_code_below)

#endif  // CAUSEWAY_COMPRESS_BLOCK_INT8_HPP
