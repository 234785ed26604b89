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
#include <causeway/kernels/cpu_features.hpp>
#include <causeway/kernels/simd_math.hpp>
#include <causeway/kernels/targets.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace compress {

struct dynamic_int8_options {
  std::uint32_t block = 4096;  ///< values that share a largest magnitude: 64 to 4096, a multiple of 16

  void serialize(auto& ar) { ar(block); }
};

/// errc::invalid_argument when the options cannot work.
inline result<void> validate(const dynamic_int8_options& o) {
  if (o.block >= 64 && o.block <= 4096 && o.block % 16 == 0) return {};
  return fail(errc::invalid_argument, "dynamic_int8",
              "a block of " + std::to_string(o.block) + " values; take 64 to 4096, a multiple of 16");
}

namespace detail {

/// The levels of dynamic_map.hpp, for block_codec.
struct dynamic_codes {
  static constexpr std::string_view name = "dynamic_int8";
  static constexpr float largest = 1.0F;
  static constexpr std::uint8_t zero = dynamic_map::zero;
  static constexpr bool unused_code = false;
  static constexpr std::string_view refused = "a largest magnitude below zero";
  static constexpr std::int64_t most = 256;  ///< values at a time

  const std::uint32_t* cells = dynamic_map::instance().cells();
  const float* levels = dynamic_map::instance().levels();

  /// All values over their scale first: those just written to memory could not be read again yet.
  CAUSEWAY_ALWAYS_INLINE void encode(const float* x, std::uint8_t* codes, std::int64_t count, float inverse) const {
    using kernels::detail::i32x16, kernels::detail::u32x16;
    std::uint32_t scaled[most];
    kernels::detail::for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      kernels::detail::f32x16 v;
      kernels::detail::load(v, x + i, part);
      v *= inverse;
      std::memcpy(scaled + i, &v, sizeof v);
    });
    kernels::detail::for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      i32x16 bits;
      std::memcpy(&bits, scaled + i, sizeof bits);
      const auto within = reinterpret_cast<u32x16>((bits ^ (bits >> 31)) & std::int32_t{dynamic_map::cut_mask});
      u32x16 level;
      look_up(level,
              [&](std::int64_t lane) CAUSEWAY_INLINE_LAMBDA { return cells[scaled[i + lane] >> dynamic_map::cut_bits]; });
      level = (level + within) >> dynamic_map::cut_bits;
      u8x16 narrow;
      narrow_codes(narrow, reinterpret_cast<i32x16>(level));
      store_codes(codes + i, narrow, part);
    });
  }

  CAUSEWAY_ALWAYS_INLINE void decode(kernels::detail::f32x16& v, const std::uint8_t* codes, kernels::detail::whole) const {
    look_up(v, [&](std::int64_t lane) CAUSEWAY_INLINE_LAMBDA { return levels[codes[lane]]; });
  }
  CAUSEWAY_ALWAYS_INLINE void decode(kernels::detail::f32x16& v, const std::uint8_t* codes,
                                     kernels::detail::tail part) const {
    std::uint8_t padded[16] = {};
    std::memcpy(padded, codes, static_cast<std::size_t>(part.count));
    decode(v, padded, kernels::detail::whole{});
  }
};
static_assert(encode_blocks<dynamic_codes>::tile <= dynamic_codes::most);

}  // namespace detail

/// n + 4 · ceil(n / block) bytes. A value becomes the level that is nearest to it over its block's largest magnitude M,
/// times M; every code is a level. From M/10 on the error is at most 0.0071 M (an even code's is 0.0039 M), in each decade
/// below a fifth of that in the one above it, and what is below 2.75e-7 M becomes zero. M itself stays, and -M becomes
/// -0.993 M. A contraction: of |x|² at most 0.5 % is lost, in a block of any length. The first call makes a table of 128
/// KiB.
class dynamic_int8 : public detail::block_codec<detail::dynamic_codes, dynamic_int8_options> {
 public:
  using block_codec::block_codec;
};
static_assert(AddingCodec<dynamic_int8>);

}}}  // namespace causeway::CAUSEWAY_ABI::compress

CAUSEWAY_EXACT_KERNEL((const float*, std::byte*, std::uint8_t*, std::int64_t, std::int64_t, compress::scale_format,
                       compress::detail::dynamic_codes),
                      compress::detail::encode_blocks<compress::detail::dynamic_codes>)
CAUSEWAY_EXACT_KERNEL((const std::byte*, const std::uint8_t*, float*, std::int64_t, std::int64_t, compress::scale_format,
                       compress::detail::dynamic_codes, compress::detail::put),
                      compress::detail::decode_blocks<compress::detail::dynamic_codes, compress::detail::put>)
CAUSEWAY_EXACT_KERNEL((const std::byte*, const std::uint8_t*, float*, std::int64_t, std::int64_t, compress::scale_format,
                       compress::detail::dynamic_codes, compress::detail::add_weighted),
                      compress::detail::decode_blocks<compress::detail::dynamic_codes, compress::detail::add_weighted>)

#endif  // CAUSEWAY_COMPRESS_DYNAMIC_INT8_HPP
