// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_BODIES_TOP_K_BODY_HPP
#define CAUSEWAY_CUDA_BODIES_TOP_K_BODY_HPP

// The largest magnitudes of each chunk, as compress::top_k chooses and writes them: the same coordinates, the same bytes. A
// group of threads has a chunk. The magnitude of the k-th largest is found bit by bit from the top, by counting what
// reaches it, so the answer is exact, takes at most 31 counts of a chunk that lies in the cache, and needs no memory. Then
// all larger ones are kept, and of the equal ones those that come first.

#include <causeway/compress/chunks.hpp>
#include <causeway/compress/index_set.hpp>
#include <causeway/config/config.hpp>
#include <causeway/cuda/bodies/group.hpp>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

namespace detail {

/// Sets the bits of `value` from bit `at` of a row of words on, where they are still zero; others may set their own bits of
/// the same words meanwhile.
CAUSEWAY_HD inline void set_bits_at(std::uint32_t* words, std::uint64_t at, std::uint32_t value) {
  const std::uint64_t shifted = std::uint64_t{value} << (at % 32);
  const std::uint32_t parts[2] = {static_cast<std::uint32_t>(shifted), static_cast<std::uint32_t>(shifted >> 32U)};
  for (int k = 0; k < 2; ++k) {
    if (parts[k] == 0) continue;
#if defined(__CUDA_ARCH__)
    atomicOr(words + at / 32 + k, parts[k]);
#else
    std::atomic_ref{words[at / 32 + static_cast<unsigned>(k)]}.fetch_or(parts[k], std::memory_order_relaxed);
#endif
  }
}

/// Writes the `place`-th of a chunk's ascending indices where compress::write_indices does, for a chunk at bit `at`.
CAUSEWAY_HD inline void write_index(std::uint32_t* words, std::uint64_t at, const compress::index_layout& layout,
                                    std::uint32_t place, std::uint32_t index) {
  const bool mask = layout.form == compress::index_form::bitmask;
  if (!mask) {
    const auto low = static_cast<std::uint32_t>((std::uint64_t{1} << layout.low_bits) - 1);
    set_bits_at(words, at + std::uint64_t{place} * layout.low_bits, index & low);
  }
  if (layout.form == compress::index_form::packed) return;
  const std::uint64_t ones = mask ? at : at + std::uint64_t{layout.count} * layout.low_bits;
  set_bits_at(words, ones + (mask ? index : (index >> layout.low_bits) + place), 1);
}

}  // namespace detail

/// kept [chunks, layout.count] = the coordinates in the row of what each chunk keeps, ascending within it; and their
/// indices are written to `words`, zeroed before, of which the grid's begin at bit `first_bit`. A chunk to a group.
struct top_k_body {
  const float* row = nullptr;
  compress::chunk_grid grid{};
  compress::index_layout layout{};
  std::uint32_t* kept = nullptr;
  std::uint32_t* words = nullptr;
  std::uint64_t first_bit = 0;

  [[nodiscard]] static bool aligned() { return false; }

  template <int N, Group G>
  CAUSEWAY_HD void run(G& g, std::int64_t chunk) const {
    const auto size = static_cast<std::int32_t>(grid.size()), count = static_cast<std::int32_t>(layout.count);
    const float* const from = row + grid.begin_of(static_cast<std::size_t>(chunk));
    const std::int32_t least = magnitude_of_last(g, from, size, count);
    std::int32_t larger = 0;
    for (std::int32_t i = g.rank(); i < size; i += g.size()) larger += magnitude(from, i) > least ? 1 : 0;
    std::int32_t equal_left = count - g.sum(larger), done = 0;
    for (std::int32_t step = 0; step < size; step += g.size()) {
      const std::int32_t i = step + g.rank();
      const std::int32_t own = i < size ? magnitude(from, i) : -1;
      const std::int32_t equal = own == least ? 1 : 0;
      const std::int32_t equal_before = g.before(equal);  // all threads ask, whatever theirs is
      const std::int32_t keep = own > least || (equal != 0 && equal_before < equal_left) ? 1 : 0;
      const std::int32_t place = done + g.before(keep);
      if (keep != 0) write(chunk, place, i);
      equal_left -= g.sum(equal);
      done += g.sum(keep);
    }
  }

 private:
  /// Of value i of the chunk, as an integer of the same order; NaN is above infinity.
  [[nodiscard]] CAUSEWAY_HD std::int32_t magnitude(const float* from, std::int32_t i) const {
    return std::bit_cast<std::int32_t>(from[offset(static_cast<std::uint32_t>(i))]) & 0x7FFFFFFF;
  }
  [[nodiscard]] CAUSEWAY_HD std::size_t offset(std::uint32_t i) const {
    return grid.rows == 1 ? i : i / grid.columns * grid.stride + i % grid.columns;
  }

  /// The largest magnitude that at least `count` values reach.
  template <class G>
  CAUSEWAY_HD std::int32_t magnitude_of_last(G& g, const float* from, std::int32_t size, std::int32_t count) const {
    std::int32_t least = 0;
    for (int bit = 30; bit >= 0; --bit) {
      const std::int32_t more = least | std::int32_t{1} << bit;
      std::int32_t reach = 0;
      for (std::int32_t i = g.rank(); i < size; i += g.size()) reach += magnitude(from, i) >= more ? 1 : 0;
      reach = g.sum(reach);
      if (reach >= count) least = more;
      if (reach == count) return least;  // just these
    }
    return least;
  }

  CAUSEWAY_HD void write(std::int64_t chunk, std::int32_t place, std::int32_t i) const {
    const auto index = static_cast<std::uint32_t>(i), at = static_cast<std::uint32_t>(place);
    const auto number = static_cast<std::uint64_t>(chunk);
    kept[number * layout.count + at] = static_cast<std::uint32_t>(grid.begin_of(number) + offset(index));
    detail::write_index(words, first_bit + number * layout.bits, layout, at, index);
  }
};

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_BODIES_TOP_K_BODY_HPP
