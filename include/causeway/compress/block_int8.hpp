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

  void serialize(auto& ar) { ar(block, scales); }
};

/// errc::invalid_argument when the options cannot work.
inline result<void> validate(const block_int8_options& o) {
  const bool known = o.scales == scale_format::f32 || o.scales == scale_format::bf16;
  if (known && o.block >= 64 && o.block <= 4096 && o.block % 16 == 0) return {};
  return fail(errc::invalid_argument, "block_int8",
              "a block of " + std::to_string(o.block) + " values; take 64 to 4096, a multiple of 16");
}

namespace detail {

CAUSEWAY_ALWAYS_INLINE void store_codes(std::uint8_t* to, const u8x16& codes, kernels::detail::whole) {
  std::memcpy(to, &codes, sizeof codes);
}
CAUSEWAY_ALWAYS_INLINE void store_codes(std::uint8_t* to, const u8x16& codes, kernels::detail::tail part) {
  std::memcpy(to, &codes, static_cast<std::size_t>(part.count));
}

CAUSEWAY_ALWAYS_INLINE void load_codes(i8x16& codes, const std::uint8_t* from, kernels::detail::whole) {
  std::memcpy(&codes, from, sizeof codes);
}
/// Codes beyond the tail are zero.
CAUSEWAY_ALWAYS_INLINE void load_codes(i8x16& codes, const std::uint8_t* from, kernels::detail::tail part) {
  std::uint8_t padded[16] = {};
  std::memcpy(padded, from, static_cast<std::size_t>(part.count));
  std::memcpy(&codes, padded, sizeof codes);
}

/// Whether a code is -128, which no encoder makes.
struct find_code_below {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static bool run(const std::uint8_t* codes, std::int64_t count) {
    i8x16 found{};
    u8x16 code;
    std::int64_t i = 0;
    for (; i + 16 <= count; i += 16) {
      std::memcpy(&code, codes + i, sizeof code);
      found |= code == 128;
    }
    const u64x2 halves = reinterpret_cast<u64x2>(found);
    bool any = (halves[0] | halves[1]) != 0;
    for (; i < count; ++i) any |= codes[i] == 128;
    return any;
  }
};

/// What codes of eight bits stand for, for block_codec: their values under a scale of one.
struct even_codes {
  static constexpr std::string_view name = "block_int8";
  static constexpr float largest = 127.0F;   ///< a block's largest magnitude over it is the scale
  static constexpr std::uint8_t zero = 0;    ///< the code of 0
  static constexpr bool unused_code = true;  ///< find_code_below looks for it
  static constexpr std::string_view refused = "a scale below zero or a code of -128";

  CAUSEWAY_ALWAYS_INLINE void encode(const float* x, std::uint8_t* codes, std::int64_t count, float inverse) const {
    kernels::detail::for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      CAUSEWAY_EXACT_BODY
      kernels::detail::f32x16 v;
      kernels::detail::load(v, x + i, part);
      v = v * inverse + 0x1.8p23F;  // rounds to the nearest integer, ties to even, and leaves it in the low bits
      const kernels::detail::i32x16 code = reinterpret_cast<kernels::detail::i32x16>(v) - 0x4B400000;
      u8x16 narrow;
      narrow_codes(narrow, code);
      store_codes(codes + i, narrow, part);
    });
  }

  template <class Part>
  CAUSEWAY_ALWAYS_INLINE void decode(kernels::detail::f32x16& v, const std::uint8_t* codes, Part part) const {
    i8x16 raw;
    load_codes(raw, codes, part);
    kernels::detail::i32x16 code;
    widen_codes(code, raw);
    to_floats(v, code);
  }
};

/// Encodes whole blocks and perhaps a last shorter one, starting at a block's start. Values of the next block come into the
/// cache meanwhile: finding their scale would wait for memory.
template <class Codes>
struct encode_blocks {
  static constexpr bool exact = true;
  static constexpr std::int64_t tile = 256, line = 16, nearest = 1024;

  CAUSEWAY_ALWAYS_INLINE static void run(const float* x, std::byte* scales, std::uint8_t* codes, std::int64_t count,
                                         std::int64_t block, scale_format format, Codes as) {
    for (std::int64_t b = 0; b * block < count; ++b) {
      const std::int64_t end = std::min((b + 1) * block, count);
      const float largest = largest_magnitude(x + b * block, end - b * block);
      const float scale = store_usable_scale(scales, b, format, largest / Codes::largest);
      if (scale == 0.0F) {  // zeros, numbers so small that 1/scale overflows, or NaN or infinity
        std::memset(codes + b * block, Codes::zero, static_cast<std::size_t>(end - b * block));
        continue;
      }
      for (std::int64_t i = b * block; i < end; i += tile) {
        fetch(x, i + std::max(block, nearest), count);
        as.encode(x + i, codes + i, std::min(tile, end - i), 1.0F / scale);
      }
    }
  }

 private:
  CAUSEWAY_ALWAYS_INLINE static void fetch(const float* x, std::int64_t at, std::int64_t count) {
    for (const std::int64_t end = std::min(at + tile, count); at < end; at += line) __builtin_prefetch(x + at);
  }
};

template <class Codes, class Sink>
struct decode_blocks {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(const std::byte* scales, const std::uint8_t* codes, float* to, std::int64_t count,
                                         std::int64_t block, scale_format format, Codes as, Sink sink) {
    for (std::int64_t b = 0; b * block < count; ++b) {
      const float scale = load_scale(scales, b, format);
      kernels::detail::for_lanes(std::min(block, count - b * block), [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
        kernels::detail::f32x16 v;
        as.decode(v, codes + b * block + i, part);
        sink(to + b * block + i, v * scale, part);
      });
    }
  }
};

/// The codec of one scale per block of neighbouring values and one code of eight bits per value: n + s · ceil(n / block)
/// bytes, s = 4 or 2.
template <class Codes, class Options>
class block_codec : public decodes_to_sink<block_codec<Codes, Options>> {
 public:
  static constexpr std::string_view name = Codes::name;
  static constexpr codec_traits traits{.lossy = true, .per_block = true};
  static constexpr bool raw = false;

  explicit block_codec(const Options& options = {}) : options_{options} { CAUSEWAY_EXPECT(validate(options)); }

  [[nodiscard]] std::size_t block() const noexcept { return options_.block; }
  [[nodiscard]] std::size_t encoded_size(std::size_t n) const noexcept { return n + scale_bytes(n); }
  [[nodiscard]] const Options& options() const noexcept { return options_; }

  std::size_t encode(thread_pool& pool, std::span<const float> values, std::span<std::byte> room,
                     kernels::simd_level level = kernels::detect_simd_level()) const {
    CAUSEWAY_EXPECT(room.size() >= encoded_size(values.size()));
    auto* const codes = reinterpret_cast<std::uint8_t*>(room.data() + scale_bytes(values.size()));
    for_blocks(pool, values.size(), options_.block, [&](index_range r) {
      kernels::detail::dispatch<encode_blocks<Codes>>(level, values.data() + r.begin, room.data() + scale_offset(r.begin),
                                                      codes + r.begin, r.size(), std::int64_t{options_.block}, format(),
                                                      Codes{});
    });
    return encoded_size(values.size());
  }

 private:
  friend decodes_to_sink<block_codec>;

  template <class Sink>
  result<void> decode_to(thread_pool& pool, std::span<const std::byte> bytes, std::span<float> to, Sink sink,
                         kernels::simd_level level) const {
    if (bytes.size() != encoded_size(to.size())) return wrong_length(name, bytes.size(), encoded_size(to.size()));
    const auto* const codes = reinterpret_cast<const std::uint8_t*>(bytes.data() + scale_bytes(to.size()));
    CAUSEWAY_TRY(check(pool, bytes, codes, to.size(), level));
    for_blocks(pool, to.size(), options_.block, [&](index_range r) {
      kernels::detail::dispatch<decode_blocks<Codes, Sink>>(level, bytes.data() + scale_offset(r.begin), codes + r.begin,
                                                            to.data() + r.begin, r.size(), std::int64_t{options_.block},
                                                            format(), Codes{}, sink);
    });
    return {};
  }

  /// A pass over the bytes alone, so that nothing is touched by bad ones.
  result<void> check(thread_pool& pool, std::span<const std::byte> bytes, [[maybe_unused]] const std::uint8_t* codes,
                     std::size_t n, [[maybe_unused]] kernels::simd_level level) const {
    const auto blocks = static_cast<std::int64_t>(blocks_of(n, options_.block));
    std::atomic<unsigned> found{static_cast<unsigned>(check_scales(bytes.data(), blocks, format(), Codes::largest))};
    if constexpr (Codes::unused_code) {
      kernels::detail::for_elements(pool, static_cast<std::int64_t>(n), [&](index_range r) {
        const bool any = kernels::detail::dispatch<find_code_below>(level, codes + r.begin, r.size());
        if (any) found.fetch_or(static_cast<unsigned>(decoding::corrupt), std::memory_order_relaxed);
      });
    }
    return to_result(found.load(std::memory_order_relaxed), name, Codes::refused);
  }

  [[nodiscard]] scale_format format() const noexcept {
    if constexpr (requires { options_.scales; }) {
      return options_.scales;
    } else {
      return scale_format::f32;
    }
  }
  [[nodiscard]] std::size_t scale_bytes(std::size_t n) const noexcept {
    return blocks_of(n, options_.block) * bytes_per_scale(format());
  }
  [[nodiscard]] std::size_t scale_offset(std::int64_t first_value) const noexcept {
    return static_cast<std::size_t>(first_value) / options_.block * bytes_per_scale(format());
  }

  Options options_;
};

}  // namespace detail

/// n + s · ceil(n / block) bytes, s = 4 (f32 scales) or 2 (bf16). scale = max|x| / 127 of the block, codes round to the
/// nearest, ties to even. Error at most max|x| / 254 of the block (1.01 times that with bf16 scales, which are rounded up),
/// and at most 1.5e-36 where a block is smaller than that. Each code of a block of zeros is zero. A contraction: of |x|² at
/// most (block - 1) / (254² + block - 1) is lost, 0.4% with blocks of 256.
class block_int8 : public detail::block_codec<detail::even_codes, block_int8_options> {
 public:
  using block_codec::block_codec;
};
static_assert(AddingCodec<block_int8>);

}}}  // namespace causeway::CAUSEWAY_ABI::compress

CAUSEWAY_EXACT_KERNEL((const float*, std::byte*, std::uint8_t*, std::int64_t, std::int64_t, compress::scale_format,
                       compress::detail::even_codes),
                      compress::detail::encode_blocks<compress::detail::even_codes>)
CAUSEWAY_EXACT_KERNEL((const std::byte*, const std::uint8_t*, float*, std::int64_t, std::int64_t, compress::scale_format,
                       compress::detail::even_codes, compress::detail::put),
                      compress::detail::decode_blocks<compress::detail::even_codes, compress::detail::put>)
CAUSEWAY_EXACT_KERNEL((const std::byte*, const std::uint8_t*, float*, std::int64_t, std::int64_t, compress::scale_format,
                       compress::detail::even_codes, compress::detail::add_weighted),
                      compress::detail::decode_blocks<compress::detail::even_codes, compress::detail::add_weighted>)
CAUSEWAY_EXACT_KERNEL((const std::uint8_t*, std::int64_t), compress::detail::find_code_below)

#endif  // CAUSEWAY_COMPRESS_BLOCK_INT8_HPP
