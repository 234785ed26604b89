// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMPRESS_DYNAMIC_INT8_HPP
#define CAUSEWAY_COMPRESS_DYNAMIC_INT8_HPP

// Eight bits a value, dynamic and by blocks (Dettmers et al., 2022, section 2; bitsandbytes' quantize_blockwise): each
// block's values over its largest magnitude become the nearest of the 256 levels of dynamic_map.hpp. On the wire: the
// largest magnitudes of all blocks, then one code per value.

#include <causeway/compress/block_int8.hpp>
#include <causeway/compress/codec.hpp>
#include <causeway/compress/dynamic_map.hpp>
#include <causeway/compress/element.hpp>
#include <causeway/compress/packing.hpp>
#include <causeway/compress/scale.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/cpu_features.hpp>
#include <causeway/kernels/simd_math.hpp>
#include <causeway/kernels/targets.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace compress {

struct dynamic_int8_options {
  std::uint32_t block = 4096;  ///< values that share a largest magnitude: 64 to 4096, a multiple of 16

  template <class Archive>
  void serialize(Archive& ar) {
    ar(block);
  }
};

/// errc::invalid_argument when the options cannot work.
inline result<void> validate(const dynamic_int8_options& o) {
  if (o.block >= 64 && o.block <= 4096 && o.block % 16 == 0) return {};
  return fail(errc::invalid_argument, "dynamic_int8",
              "a block of " + std::to_string(o.block) + " values; take 64 to 4096, a multiple of 16");
}

namespace detail {

/// Sixteen entries of a table. `at` lies in memory: to take lanes out of a vector costs more than to read them again.
CAUSEWAY_ALWAYS_INLINE void look_up(kernels::detail::f32x16& v, const float* table, const std::uint8_t* at) {
  v = kernels::detail::f32x16{table[at[0]],  table[at[1]],  table[at[2]],  table[at[3]], table[at[4]],  table[at[5]],
                              table[at[6]],  table[at[7]],  table[at[8]],  table[at[9]], table[at[10]], table[at[11]],
                              table[at[12]], table[at[13]], table[at[14]], table[at[15]]};
}
CAUSEWAY_ALWAYS_INLINE void look_up(kernels::detail::u32x16& v, const std::uint32_t* table, const std::uint16_t* at) {
  v = kernels::detail::u32x16{table[at[0]],  table[at[1]],  table[at[2]],  table[at[3]], table[at[4]],  table[at[5]],
                              table[at[6]],  table[at[7]],  table[at[8]],  table[at[9]], table[at[10]], table[at[11]],
                              table[at[12]], table[at[13]], table[at[14]], table[at[15]]};
}

/// Which cell of the map a value is in, and the bits that say where in it.
CAUSEWAY_ALWAYS_INLINE void cut_values(std::uint16_t* cells, std::uint32_t* within, const kernels::detail::f32x16& v) {
  using kernels::detail::u32x16;
  const u32x16 bits = reinterpret_cast<u32x16>(v);
  const auto cell = __builtin_convertvector(bits >> dynamic_map::cut_bits, kernels::detail::u16x16);
  const u32x16 negative = reinterpret_cast<u32x16>(reinterpret_cast<kernels::detail::i32x16>(v) >> 31);
  const u32x16 rest = (bits ^ negative) & dynamic_map::cut_mask;
  std::memcpy(cells, &cell, sizeof cell);
  std::memcpy(within, &rest, sizeof rest);
}

CAUSEWAY_ALWAYS_INLINE void join_levels(u8x16& codes, const std::uint32_t* table, const std::uint16_t* cells,
                                        const std::uint32_t* within) {
  kernels::detail::u32x16 level, rest;
  look_up(level, table, cells);
  std::memcpy(&rest, within, sizeof rest);
  level = (level + rest) >> dynamic_map::cut_bits;
  narrow_codes(codes, reinterpret_cast<kernels::detail::i32x16>(level));
}

/// Encodes whole blocks and perhaps a last shorter one, starting at a block's start.
struct encode_dynamic {
  static constexpr bool exact = true;
  static constexpr std::int64_t tile =
      256;  // values whose cells are found together: read at once, they would not be there yet

  CAUSEWAY_ALWAYS_INLINE static void run(const float* x, std::byte* scales, std::int8_t* codes, std::int64_t count,
                                         std::int64_t block, const std::uint32_t* cells) {
    for (std::int64_t b = 0; b * block < count; ++b) {
      const std::int64_t length = std::min(block, count - b * block);
      const float largest = largest_magnitude(x + b * block, length);
      const float scale = store_usable_scale(scales, b, scale_format::f32, largest);
      if (scale == 0.0F) {  // zeros, numbers so small that 1/scale overflows, or NaN or infinity
        std::memset(codes + b * block, dynamic_map::zero, static_cast<std::size_t>(length));
        continue;
      }
      for (std::int64_t i = 0; i < length; i += tile) {
        encode_tile(x + b * block + i, codes + b * block + i, std::min(tile, length - i), 1.0F / scale, cells);
      }
    }
  }

 private:
  CAUSEWAY_ALWAYS_INLINE static void encode_tile(const float* x, std::int8_t* codes, std::int64_t count, float inverse,
                                                 const std::uint32_t* cells) {
    std::uint16_t cell[tile];
    std::uint32_t within[tile];
    kernels::detail::for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      CAUSEWAY_EXACT_BODY
      kernels::detail::f32x16 v;
      kernels::detail::load(v, x + i, part);
      cut_values(cell + i, within + i, v * inverse);
    });
    kernels::detail::for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      u8x16 narrow;
      join_levels(narrow, cells, cell + i, within + i);
      store_codes(codes + i, narrow, part);
    });
  }
};

CAUSEWAY_ALWAYS_INLINE void load_levels(kernels::detail::f32x16& v, const float* levels, const std::uint8_t* codes,
                                        kernels::detail::whole) {
  look_up(v, levels, codes);
}
CAUSEWAY_ALWAYS_INLINE void load_levels(kernels::detail::f32x16& v, const float* levels, const std::uint8_t* codes,
                                        kernels::detail::tail part) {
  std::uint8_t padded[16] = {};
  std::memcpy(padded, codes, static_cast<std::size_t>(part.count));
  look_up(v, levels, padded);
}

template <class Sink>
struct decode_dynamic {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(const std::byte* scales, const std::uint8_t* codes, float* to, std::int64_t count,
                                         std::int64_t block, const float* levels, Sink sink) {
    for (std::int64_t b = 0; b * block < count; ++b) {
      const float scale = load_scale(scales, b, scale_format::f32);
      kernels::detail::for_lanes(std::min(block, count - b * block), [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
        kernels::detail::f32x16 v;
        load_levels(v, levels, codes + b * block + i, part);
        sink(to + b * block + i, v * scale, part);
      });
    }
  }
};

}  // namespace detail

/// n + 4 · ceil(n / block) bytes. A value becomes the level that is nearest to it over its block's largest magnitude M,
/// times M; every code is a level. From M/10 on the error is at most 0.0071 M (an even code's is 0.0039 M), in each decade
/// below a fifth of that in the one above it, and what is below 2.75e-7 M becomes zero. M itself stays, and -M becomes
/// -0.993 M. A contraction: of |x|² at most 0.5 % is lost, in a block of any length. The first call makes a table of 128
/// KiB.
class dynamic_int8 : public detail::decodes_to_sink<dynamic_int8> {
 public:
  static constexpr std::string_view name = "dynamic_int8";
  static constexpr codec_traits traits{.lossy = true, .per_block = true};
  static constexpr bool raw = false;

  explicit dynamic_int8(const dynamic_int8_options& options = {}) : options_{options} {
    CAUSEWAY_EXPECT(validate(options));
  }

  [[nodiscard]] std::size_t block() const noexcept { return options_.block; }
  [[nodiscard]] std::size_t encoded_size(std::size_t n) const noexcept { return n + scale_bytes(n); }
  [[nodiscard]] const dynamic_int8_options& options() const noexcept { return options_; }

  std::size_t encode(thread_pool& pool, std::span<const float> values, std::span<std::byte> room,
                     kernels::simd_level level = kernels::detect_simd_level()) const {
    CAUSEWAY_EXPECT(room.size() >= encoded_size(values.size()));
    auto* const codes = reinterpret_cast<std::int8_t*>(room.data() + scale_bytes(values.size()));
    const std::uint32_t* const cells = dynamic_map::instance().cells();
    detail::for_blocks(pool, values.size(), options_.block, [&](index_range r) {
      kernels::detail::dispatch<detail::encode_dynamic>(level, values.data() + r.begin, room.data() + scale_offset(r.begin),
                                                        codes + r.begin, r.size(), std::int64_t{options_.block}, cells);
    });
    return encoded_size(values.size());
  }

 private:
  friend detail::decodes_to_sink<dynamic_int8>;

  template <class Sink>
  result<void> decode_to(thread_pool& pool, std::span<const std::byte> bytes, std::span<float> to, Sink sink,
                         kernels::simd_level level) const {
    if (bytes.size() != encoded_size(to.size())) {
      return detail::wrong_length(name, bytes.size(), encoded_size(to.size()));
    }
    const auto blocks = static_cast<std::int64_t>(detail::blocks_of(to.size(), options_.block));
    const auto found = detail::check_scales(bytes.data(), blocks, scale_format::f32, 1.0F);
    CAUSEWAY_TRY(detail::to_result(static_cast<unsigned>(found), name, "a largest magnitude below zero"));
    const auto* const codes = reinterpret_cast<const std::uint8_t*>(bytes.data() + scale_bytes(to.size()));
    const float* const levels = dynamic_map::instance().levels();
    detail::for_blocks(pool, to.size(), options_.block, [&](index_range r) {
      kernels::detail::dispatch<detail::decode_dynamic<Sink>>(level, bytes.data() + scale_offset(r.begin), codes + r.begin,
                                                              to.data() + r.begin, r.size(), std::int64_t{options_.block},
                                                              levels, sink);
    });
    return {};
  }

  [[nodiscard]] std::size_t scale_bytes(std::size_t n) const noexcept {
    return detail::blocks_of(n, options_.block) * sizeof(float);
  }
  [[nodiscard]] std::size_t scale_offset(std::int64_t first_value) const noexcept {
    return static_cast<std::size_t>(first_value) / options_.block * sizeof(float);
  }

  dynamic_int8_options options_;
};
static_assert(AddingCodec<dynamic_int8>);

}}}  // namespace causeway::CAUSEWAY_ABI::compress

CAUSEWAY_EXACT_KERNEL((const float*, std::byte*, std::int8_t*, std::int64_t, std::int64_t, const std::uint32_t*),
                      compress::detail::encode_dynamic)
CAUSEWAY_EXACT_KERNEL((const std::byte*, const std::uint8_t*, float*, std::int64_t, std::int64_t, const float*,
                       compress::detail::put),
                      compress::detail::decode_dynamic<compress::detail::put>)
CAUSEWAY_EXACT_KERNEL((const std::byte*, const std::uint8_t*, float*, std::int64_t, std::int64_t, const float*,
                       compress::detail::add_weighted),
                      compress::detail::decode_dynamic<compress::detail::add_weighted>)

#endif  // CAUSEWAY_COMPRESS_DYNAMIC_INT8_HPP
