// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_BODIES_TOP_K_READ_BODY_HPP
#define CAUSEWAY_CUDA_BODIES_TOP_K_READ_BODY_HPP

// The indices of compress::top_k, read from bits that anybody may have sent: the same coordinates, and the same bits are
// refused. A group of threads has a chunk. Packed indices are read side by side, each with the one before it; in the other
// forms each thread has 32 bits, and the number of ones before them says whose indices they are.

#include <causeway/compress/chunks.hpp>
#include <causeway/compress/index_set.hpp>
#include <causeway/config/config.hpp>
#include <causeway/cuda/bodies/codec_bodies.hpp>
#include <causeway/cuda/bodies/group.hpp>
#include <causeway/cuda/bodies/mask_bodies.hpp>

#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// Set in the word that a message's check leaves its findings in, beside compress::detail::decoding: indices that repeat,
/// descend or leave the row.
inline constexpr std::uint32_t bad_indices = 4;

namespace detail {

/// The number of `bits` (0 to 32) bits from bit `at` of a row of words on.
CAUSEWAY_HD inline std::uint32_t get_bits_at(const std::uint32_t* words, std::uint64_t at, unsigned bits) {
  if (bits == 0) return 0;
  const auto shift = static_cast<unsigned>(at % 32);
  std::uint64_t both = words[at / 32];
  if (shift + bits > 32) both |= std::uint64_t{words[at / 32 + 1]} << 32U;
  return static_cast<std::uint32_t>((both >> shift) & ((std::uint64_t{1} << bits) - 1));
}

}  // namespace detail

/// kept [chunks, layout.count] = the coordinates in the row that the bits from `first_bit` on name, ascending within each
/// chunk; *found (zeroed before) has bad_indices where no writer made the bits, those behind the last chunk included. A
/// chunk to a group.
struct top_k_read_body {
  const std::uint32_t* words = nullptr;
  compress::chunk_grid grid{};
  compress::index_layout layout{};
  std::uint32_t* kept = nullptr;
  std::uint64_t first_bit = 0;
  std::uint32_t* found = nullptr;

  [[nodiscard]] static bool aligned() { return false; }

  template <int N, Group G>
  CAUSEWAY_HD void run(G& g, std::int64_t chunk) const {
    const auto number = static_cast<std::uint64_t>(chunk);
    const place_of_chunk at{first_bit + number * layout.bits, kept + number * layout.count,
                            static_cast<std::uint32_t>(grid.begin_of(number))};
    const bool good = layout.form == compress::index_form::packed ? read_packed(g, at) : read_ones(g, at);
    const bool last = number + 1 == grid.count();
    if (!good || (last && g.rank() == 0 && !ends_in_zeros(at.bit + layout.bits))) detail::mark(found, bad_indices);
  }

 private:
  struct place_of_chunk {
    std::uint64_t bit;
    std::uint32_t* kept;
    std::uint32_t begin;  ///< coordinate
  };

  [[nodiscard]] CAUSEWAY_HD std::int32_t count() const { return static_cast<std::int32_t>(layout.count); }
  [[nodiscard]] CAUSEWAY_HD std::uint32_t coordinate(const place_of_chunk& at, std::uint32_t index) const {
    if (grid.rows == 1) return at.begin + index;
    return at.begin + index / grid.columns * static_cast<std::uint32_t>(grid.stride) + index % grid.columns;
  }

  template <class G>
  CAUSEWAY_HD bool read_packed(const G& g, const place_of_chunk& at) const {
    bool good = true;
    for (std::int32_t i = g.rank(); i < count(); i += g.size()) {
      const std::uint64_t bit = at.bit + static_cast<std::uint64_t>(i) * layout.low_bits;
      const std::uint32_t index = detail::get_bits_at(words, bit, layout.low_bits);
      const bool ascends = i == 0 || index > detail::get_bits_at(words, bit - layout.low_bits, layout.low_bits);
      good = good && ascends && index < layout.bound;
      at.kept[i] = coordinate(at, index);
    }
    return good;
  }

  /// A bitmask's ones, or the stops of unary numbers behind the packed low bits.
  template <class G>
  CAUSEWAY_HD bool read_ones(G& g, const place_of_chunk& at) const {
    const bool mask = layout.form == compress::index_form::bitmask;
    const std::uint64_t low = mask ? 0 : std::uint64_t{layout.count} * layout.low_bits, length = layout.bits - low;
    bool good = true;
    std::int32_t done = 0;
    for (std::uint64_t step = 0; step < length; step += 32 * static_cast<std::uint64_t>(g.size())) {
      const std::uint64_t first = step + 32 * static_cast<std::uint64_t>(g.rank());
      const unsigned width = first >= length ? 0 : length - first < 32 ? static_cast<unsigned>(length - first) : 32U;
      const std::uint32_t own = width == 0 ? 0 : detail::get_bits_at(words, at.bit + low + first, width);
      std::int32_t place = done + g.before(detail::set_bits(own));
      for (std::uint32_t rest = own; rest != 0; rest &= rest - 1, ++place) {
        if (place < count()) good = write(at, place, first + detail::lowest_bit(rest), mask) && good;
      }
      done += g.sum(detail::set_bits(own));
    }
    if (done != count()) return false;
    for (std::int32_t i = g.rank(); i < count(); i += g.size()) {  // all are there: sum() has waited for them
      good = good && (i == 0 || at.kept[i] > at.kept[i - 1]);
    }
    return good;
  }

  CAUSEWAY_HD bool write(const place_of_chunk& at, std::int32_t place, std::uint64_t position, bool mask) const {
    std::uint64_t index = position;
    if (!mask) {
      const auto number = static_cast<std::uint64_t>(place);
      const std::uint64_t bit = at.bit + number * layout.low_bits;
      index = ((position - number) << layout.low_bits) | detail::get_bits_at(words, bit, layout.low_bits);
    }
    at.kept[place] = coordinate(at, static_cast<std::uint32_t>(index));
    return index < layout.bound;
  }

  /// Whether the byte in which bit `end` would lie is zero from there on.
  [[nodiscard]] CAUSEWAY_HD bool ends_in_zeros(std::uint64_t end) const {
    const auto used = static_cast<unsigned>(end % 8);
    return used == 0 || detail::get_bits_at(words, end, 8 - used) == 0;
  }
};

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_BODIES_TOP_K_READ_BODY_HPP
