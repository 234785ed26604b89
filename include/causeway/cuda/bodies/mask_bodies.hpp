// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_BODIES_MASK_BODIES_HPP
#define CAUSEWAY_CUDA_BODIES_MASK_BODIES_HPP

// Random coordinates that a seed names (compress::shared_mask, compress::random_k), listed on the device: the permutation
// is the CPU's own code, so both sides list the same. Each chosen coordinate sets its bit of a bitmap; the bits of each
// tile of words are counted, the counts summed up, and each tile writes its coordinates where the sums say. Then values are
// gathered from, or added to, the places listed.

#include <causeway/compress/mask.hpp>
#include <causeway/config/config.hpp>
#include <causeway/cuda/bodies/group.hpp>
#include <causeway/cuda/bodies/pack.hpp>

#include <atomic>
#include <bit>
#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// word = 0; over the words.
struct clear_words_body {
  std::uint32_t* words = nullptr;

  CAUSEWAY_HD void operator()(std::int64_t i) const { words[i] = 0; }
};

/// Sets the bits of the coordinates at places [first, first + count) of a permutation; over the count.
struct mask_mark_body {
  compress::detail::seeded_permutation permutation;
  std::uint64_t first = 0;
  std::uint32_t* words = nullptr;  ///< zeroed, a bit for each value of the row

  CAUSEWAY_HD void operator()(std::int64_t i) const {
    const std::uint64_t at = permutation(first + static_cast<std::uint64_t>(i));
    const std::uint32_t bit = 1U << (at % 32);
#if defined(__CUDA_ARCH__)
    atomicOr(words + at / 32, bit);
#else
    std::atomic_ref{words[at / 32]}.fetch_or(bit, std::memory_order_relaxed);
#endif
  }
};

namespace detail {

inline constexpr std::int64_t words_per_tile = 1024;

CAUSEWAY_HD inline std::int32_t set_bits(std::uint32_t word) {
#if defined(__CUDA_ARCH__)
  return __popc(word);
#else
  return std::popcount(word);
#endif
}

/// The place of the lowest bit of a word that is not 0.
CAUSEWAY_HD inline std::uint32_t lowest_bit(std::uint32_t word) {
#if defined(__CUDA_ARCH__)
  return static_cast<std::uint32_t>(__ffs(static_cast<int>(word)) - 1);
#else
  return static_cast<std::uint32_t>(std::countr_zero(word));
#endif
}

}  // namespace detail

/// Tiles that a bitmap of so many words is cut into.
constexpr std::int64_t mask_tiles(std::int64_t words) noexcept {
  return (words + detail::words_per_tile - 1) / detail::words_per_tile;
}

/// counts[tile] = the set bits of a tile of the bitmap, a tile to a group.
struct mask_count_body {
  const std::uint32_t* bits = nullptr;
  std::int64_t words = 0;
  std::int32_t* counts = nullptr;

  [[nodiscard]] static bool aligned() { return false; }
  template <int N, Group G>
  CAUSEWAY_HD void run(G& g, std::int64_t tile) const {
    const std::int64_t begin = tile * detail::words_per_tile;
    std::int32_t sum = 0;
    for (std::int64_t i = begin + g.rank(); i < begin + detail::words_per_tile && i < words; i += g.size()) {
      sum += detail::set_bits(bits[i]);
    }
    const auto all = g.sum(sum);
    if (g.rank() == 0) counts[tile] = all;
  }
};

/// counts[i] becomes the sum of the counts before it; one item for one group.
struct mask_offset_body {
  std::int32_t* counts = nullptr;
  std::int64_t tiles = 0;

  [[nodiscard]] static bool aligned() { return false; }
  template <int N, Group G>
  CAUSEWAY_HD void run(G& g, std::int64_t) const {
    std::int32_t total = 0;
    for (std::int64_t begin = 0; begin < tiles; begin += g.size()) {
      const std::int64_t i = begin + g.rank();
      const std::int32_t own = i < tiles ? counts[i] : 0;
      const std::int32_t before = total + g.before(own);
      if (i < tiles) counts[i] = before;
      total += g.sum(own);
    }
  }
};

/// Writes the coordinates of the set bits of a tile from kept[offsets[tile]] on, ascending; a tile to a group.
struct mask_list_body {
  const std::uint32_t* bits = nullptr;
  std::int64_t words = 0;
  const std::int32_t* offsets = nullptr;
  std::uint32_t* kept = nullptr;

  [[nodiscard]] static bool aligned() { return false; }
  template <int N, Group G>
  CAUSEWAY_HD void run(G& g, std::int64_t tile) const {
    std::uint32_t* to = kept + offsets[tile];
    for (std::int64_t step = 0; step < detail::words_per_tile; step += g.size()) {
      const std::int64_t place = step + g.rank(), i = tile * detail::words_per_tile + place;
      const std::uint32_t word = place < detail::words_per_tile && i < words ? bits[i] : 0;
      const std::int32_t own = detail::set_bits(word);
      std::uint32_t* next = to + g.before(own);
      for (std::uint32_t rest = word; rest != 0; rest &= rest - 1) {
        *next++ = static_cast<std::uint32_t>(i) * 32 + detail::lowest_bit(rest);
      }
      to += g.sum(own);
    }
  }
};

/// chosen[i] = row[kept[i]].
struct gather_body {
  const float* row = nullptr;
  const std::uint32_t* kept = nullptr;
  float* chosen = nullptr;

  CAUSEWAY_HD void operator()(std::int64_t i) const { chosen[i] = row[kept[i]]; }
};

/// sum[kept[i]] += weight · chosen[i], two roundings, as sparse::decode_add does; weight alone where `chosen` is null. No
/// two coordinates are equal, so no two threads meet. Nothing where the check of a message has left something in *refused.
struct scatter_add_body {
  const float* chosen = nullptr;
  const std::uint32_t* kept = nullptr;
  float* sum = nullptr;
  float weight = 1.0F;
  const std::uint32_t* refused = nullptr;

  CAUSEWAY_HD void operator()(std::int64_t i) const {
    if (refused != nullptr && *refused != 0) return;
    sum[kept[i]] += chosen == nullptr ? weight : detail::times(chosen[i], weight);
  }
};

/// kept[i] = first[kept[i]]: a selection within a selection as coordinates of the row.
struct place_body {
  const std::uint32_t* first = nullptr;
  std::uint32_t* kept = nullptr;
  const std::uint32_t* refused = nullptr;

  CAUSEWAY_HD void operator()(std::int64_t i) const {
    if (refused == nullptr || *refused == 0) kept[i] = first[kept[i]];
  }
};

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_BODIES_MASK_BODIES_HPP
