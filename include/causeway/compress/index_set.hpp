// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMPRESS_INDEX_SET_HPP
#define CAUSEWAY_COMPRESS_INDEX_SET_HPP

// A set of `count` indices below `bound` as bits. The size follows from count and bound alone, so a reader knows it
// beforehand. Three forms: packed indices, count · ceil(log2 bound) bits; a bitmask, bound bits; and Elias-Fano (Elias
// 1974, Fano 1971), which packs the lowest l bits of each index and says in unary how many share each value of the bits
// above: count · (l + 1) + ceil(bound / 2^l) bits, within 0.7 bits per index of what any code needs.

#include <causeway/compress/bit_stream.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace compress {

enum class index_form : std::uint8_t {
  packed,      ///< fixed width, as the published systems count their bytes
  bitmask,     ///< one bit per possible index
  elias_fano,  ///< low bits packed, high bits in unary
  smallest,    ///< whichever of the three needs the fewest bits; packed before bitmask before elias_fano
};

/// How `count` indices below `bound` are written.
struct index_layout {
  index_form form = index_form::packed;
  std::uint32_t count = 0;
  std::uint32_t bound = 0;
  unsigned low_bits = 0;  ///< bits of each index that are packed
  std::size_t bits = 0;   ///< all in all

  friend constexpr bool operator==(const index_layout&, const index_layout&) = default;
};

namespace detail {

constexpr index_layout packed_layout(std::uint32_t count, std::uint32_t bound) noexcept {
  const unsigned width = bits_below(bound);
  return {index_form::packed, count, bound, width, std::size_t{count} * width};
}

constexpr index_layout elias_fano_layout(std::uint32_t count, std::uint32_t bound) noexcept {
  index_layout best{index_form::elias_fano, count, bound, 0, std::size_t{count} + bound};
  for (unsigned low = 1; low < 32 && (bound >> low) != 0; ++low) {
    const std::size_t groups = (std::size_t{bound} + (std::size_t{1} << low) - 1) >> low;
    const std::size_t bits = std::size_t{count} * (low + 1) + groups;
    if (bits < best.bits) best.low_bits = low, best.bits = bits;
  }
  return best;
}

}  // namespace detail

/// The layout of `form`; count must not exceed bound.
constexpr index_layout layout_of(index_form form, std::uint32_t count, std::uint32_t bound) {
  CAUSEWAY_EXPECT(count <= bound);
  const index_layout packed = detail::packed_layout(count, bound);
  const index_layout mask{index_form::bitmask, count, bound, 0, bound};
  const index_layout split = detail::elias_fano_layout(count, bound);
  if (form == index_form::packed) return packed;
  if (form == index_form::bitmask) return mask;
  if (form == index_form::elias_fano) return split;
  const index_layout& simple = packed.bits <= mask.bits ? packed : mask;
  return simple.bits <= split.bits ? simple : split;
}

/// Writes `indices`: as many as the layout says, ascending, below its bound.
inline void write_indices(bit_writer& out, const index_layout& layout, std::span<const std::uint32_t> indices) {
  CAUSEWAY_EXPECT(indices.size() == layout.count);
  if (layout.form != index_form::bitmask) {
    const auto low = static_cast<std::uint32_t>((std::uint64_t{1} << layout.low_bits) - 1);
    for (const std::uint32_t index : indices) out.put(index & low, layout.low_bits);
  }
  if (layout.form == index_form::packed) return;
  // Both other forms are a row of ones with zeros between: a mask's indices, or the unary numbers' stops.
  const unsigned shift = layout.form == index_form::bitmask ? 0 : layout.low_bits;
  const std::size_t packed = layout.form == index_form::bitmask ? 0 : std::size_t{layout.count} * layout.low_bits;
  std::size_t at = 0;
  const auto zeros = [&](std::size_t until) {
    for (; until - at >= 32; at += 32) out.put(0, 32);
    out.put(0, static_cast<unsigned>(until - at));
    at = until;
  };
  for (std::size_t i = 0; i < indices.size(); ++i) {
    zeros((indices[i] >> shift) + (layout.form == index_form::bitmask ? 0 : i));
    out.put(1, 1);
    ++at;
  }
  zeros(layout.bits - packed);
}

namespace detail {

/// Calls f(position) for every one among the bits [begin, end), until it returns false.
void for_ones(const bit_reader& in, std::size_t begin, std::size_t end, auto&& f) {
  for (std::size_t at = begin; at < end; at += 56) {
    const std::size_t width = std::min<std::size_t>(56, end - at);
    std::uint64_t word = in.window(at) & ((std::uint64_t{1} << width) - 1);
    for (; word != 0; word &= word - 1) {
      if (!f(at - begin + static_cast<std::size_t>(std::countr_zero(word)))) return;
    }
  }
}

inline bool read_packed(const bit_reader& in, std::size_t at, const index_layout& layout,
                        std::span<std::uint32_t> indices) {
  bool good = true;
  std::uint64_t next = 0;  // the smallest index that may follow
  for (std::uint32_t& index : indices) {
    index = in.get(at, layout.low_bits);
    good = good && index >= next && index < layout.bound;
    next = std::uint64_t{index} + 1;
    at += layout.low_bits;
  }
  return good;
}

}  // namespace detail

/// Reads the indices at bit `at`. False when no writer made these bits: indices that do not ascend, that reach the bound,
/// or are not as many as the layout says. `indices` are then unspecified.
inline bool read_indices(const bit_reader& in, std::size_t at, const index_layout& layout,
                         std::span<std::uint32_t> indices) {
  CAUSEWAY_EXPECT(indices.size() == layout.count);
  if (layout.form == index_form::packed) return detail::read_packed(in, at, layout, indices);
  const bool mask = layout.form == index_form::bitmask;
  const std::size_t ones = mask ? at : at + std::size_t{layout.count} * layout.low_bits;
  std::size_t found = 0;
  bool good = true;
  std::uint64_t next = 0;
  detail::for_ones(in, ones, at + layout.bits, [&](std::size_t position) {
    if (found == layout.count) return good = false;
    std::uint64_t index = position;
    if (!mask) {
      index = (std::uint64_t{position - found} << layout.low_bits) | in.get(at + found * layout.low_bits, layout.low_bits);
    }
    good = good && index >= next && index < layout.bound;
    next = index + 1;
    indices[found++] = static_cast<std::uint32_t>(index);
    return good;
  });
  return good && found == layout.count;
}

}}}  // namespace causeway::CAUSEWAY_ABI::compress

#endif  // CAUSEWAY_COMPRESS_INDEX_SET_HPP
