// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMPRESS_TOP_SELECTION_HPP
#define CAUSEWAY_COMPRESS_TOP_SELECTION_HPP

// Finds the k largest magnitudes of one chunk after another, for top_k. The answer is exact; only the way to it is guessed.
// One pass finds the few candidates that reach a threshold, and an ordinary selection works on those.

#include <causeway/compress/chunks.hpp>
#include <causeway/compress/sparsifier.hpp>
#include <causeway/kernels/cpu_features.hpp>
#include <causeway/kernels/simd_math.hpp>
#include <causeway/kernels/targets.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace compress { namespace detail {

using kernels::detail::i32x16;

/// Sets bit i of the result where lane i of v is at least `least`.
CAUSEWAY_ALWAYS_INLINE std::uint32_t lanes_reaching(const std::int32_t* p, std::int32_t least) {
  using i32x8 [[gnu::vector_size(32)]] = std::int32_t;
  using i32x4 [[gnu::vector_size(16)]] = std::int32_t;
  constexpr i32x16 bit_of_lane = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
  i32x16 v;
  std::memcpy(&v, p, sizeof v);
  const i32x16 bits = (v >= least) & bit_of_lane;
  const i32x8 half = __builtin_shufflevector(bits, bits, 0, 1, 2, 3, 4, 5, 6, 7) |
                     __builtin_shufflevector(bits, bits, 8, 9, 10, 11, 12, 13, 14, 15);
  const i32x4 quarter = __builtin_shufflevector(half, half, 0, 1, 2, 3) | __builtin_shufflevector(half, half, 4, 5, 6, 7);
  using two_words [[gnu::vector_size(16)]] = std::uint64_t;
  const auto pair = reinterpret_cast<two_words>(quarter);
  const std::uint64_t both = pair[0] | pair[1];
  return static_cast<std::uint32_t>(both | (both >> 32U));
}

/// Magnitudes of `rows` rows as non-negative integers of the same order.
struct magnitudes_of {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(const float* from, std::size_t stride, std::int32_t* to, std::int64_t rows,
                                         std::int64_t columns) {
    for (std::int64_t r = 0; r < rows; ++r, from += stride, to += columns) {
      std::int64_t i = 0;
      for (; i + 16 <= columns; i += 16) {
        __builtin_prefetch(from + i + columns);  // the next chunk's row, which no hardware expects
        i32x16 v;
        std::memcpy(&v, from + i, sizeof v);
        v &= 0x7FFFFFFF;
        std::memcpy(to + i, &v, sizeof v);
      }
      for (; i < columns; ++i) to[i] = static_cast<std::int32_t>(magnitude_bits(from[i]));
    }
  }
};

/// Writes the indices of all that reach `least`, ascending, and gives their number. `count` is a multiple of 64. Writes up
/// to `spare` more places: four at a time are quicker than asking each time whether there is one.
struct indices_reaching {
  static constexpr bool exact = true;
  static constexpr std::size_t spare = 4;
  CAUSEWAY_ALWAYS_INLINE static std::uint32_t run(const std::int32_t* magnitudes, std::int64_t count, std::int32_t least,
                                                  std::uint32_t* const to) {
    std::uint32_t found = 0;
    for (std::int64_t i = 0; i < count; i += 64) {
      std::uint64_t lanes = 0;
      for (unsigned part = 0; part < 64; part += 16) {
        lanes |= std::uint64_t{lanes_reaching(magnitudes + i + part, least)} << part;
      }
      const auto more = static_cast<std::uint32_t>(std::popcount(lanes));
      for (std::uint32_t written = 0; written == 0 || written < more; written += 4) {
        for (std::uint32_t j = 0; j < 4; ++j, lanes &= lanes - 1) {
          to[found + written + j] = static_cast<std::uint32_t>(i) + static_cast<std::uint32_t>(std::countr_zero(lanes));
        }
      }
      found += more;
    }
    return found;
  }
};

/// The lowest index of the largest. `count` is a multiple of 16, at least one.
struct index_of_largest {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static std::uint32_t run(const std::int32_t* magnitudes, std::int64_t count) {
    i32x16 most;
    std::memcpy(&most, magnitudes, sizeof most);
    for (std::int64_t i = 16; i < count; i += 16) {
      i32x16 v;
      std::memcpy(&v, magnitudes + i, sizeof v);
      most = v > most ? v : most;
    }
    std::int32_t largest = most[0];
    for (int lane = 1; lane < 16; ++lane) largest = most[lane] > largest ? most[lane] : largest;
    std::int64_t i = 0;
    std::uint32_t lanes = lanes_reaching(magnitudes, largest);
    while (lanes == 0) lanes = lanes_reaching(magnitudes + (i += 16), largest);
    return static_cast<std::uint32_t>(i) + static_cast<std::uint32_t>(std::countr_zero(lanes));
  }
};

/// Finds the largest of a chunk, exactly, ties to the lowest index.
class top_selection {
 public:
  top_selection(std::uint32_t size, kernels::simd_level level)
      : size_{size},
        padded_{(std::int64_t{size} + 63) / 64 * 64},
        magnitudes_(static_cast<std::size_t>(padded_)),
        candidates_(size + indices_reaching::spare),
        keys_(size),
        level_{level} {}

  /// Takes a chunk's values in, row by row.
  void load(const float* row, const chunk_grid& grid, std::size_t chunk) {
    kernels::detail::dispatch<magnitudes_of>(level_, row + grid.begin_of(chunk), grid.stride, magnitudes_.data(),
                                             std::int64_t{grid.rows}, std::int64_t{grid.columns});
    std::fill(magnitudes_.begin() + size_, magnitudes_.end(), taken);
  }

  /// Writes the ascending indices of the `k` largest to `top`.
  void find(std::uint32_t k, std::uint32_t* top) {
    if (k == size_) {
      for (std::uint32_t i = 0; i < k; ++i) top[i] = i;
    } else if (std::uint64_t{k} * size_ <= few) {
      take_one_by_one(k, top);
    } else {
      const std::uint32_t count = gather_candidates(k);
      for (std::uint32_t i = 0; i < count; ++i) keys_[i] = key(candidates_[i]);
      std::nth_element(keys_.begin(), keys_.begin() + (k - 1), keys_.begin() + count, descending);
      const std::uint64_t last = keys_[k - 1];
      guess_ = below(static_cast<std::int32_t>(last >> 32U));
      std::uint32_t kept = 0;
      for (std::uint32_t i = 0; i < count; ++i) {  // without a branch, which would be a random one
        const std::uint32_t index = candidates_[i];
        candidates_[kept] = index;
        kept += key(index) >= last ? 1U : 0U;
      }
      std::copy_n(candidates_.begin(), k, top);
    }
  }

 private:
  /// Orders by magnitude, then by index from the highest down. No two are equal.
  [[nodiscard]] std::uint64_t key(std::uint32_t index) const {
    return (std::uint64_t{static_cast<std::uint32_t>(magnitudes_[index])} << 32U) | (0xFFFFFFFFU - index);
  }

  /// About a sixteenth less: the exponent and mantissa of a float, read as an integer, are its logarithm.
  static std::int32_t below(std::int32_t magnitude) { return std::max(magnitude - (1 << 19), 0); }

  void take_one_by_one(std::uint32_t k, std::uint32_t* top) {
    for (std::uint32_t i = 0; i < k; ++i) {
      top[i] =
          kernels::detail::dispatch<index_of_largest>(level_, const_cast<const std::int32_t*>(magnitudes_.data()), padded_);
      magnitudes_[top[i]] = taken;
    }
    if (k > 1) std::sort(top, top + k);
  }

  /// All indices whose magnitude reaches a guessed one, at least k. Chunks resemble their neighbours, so the guess is a bit
  /// less than what the last chunk's selection had to reach; where that fails it comes from a sample of this one.
  std::uint32_t gather_candidates(std::uint32_t k) {
    if (guess_ > 0) {
      const std::uint32_t count = gather_reaching(guess_);
      if (count >= k && count <= 4 * std::uint64_t{k} + size_ / 8) return count;
    }
    const std::uint32_t sample = std::min(size_, sample_size);
    for (std::uint32_t i = 0; i < sample; ++i) sample_[i] = magnitudes_[std::uint64_t{i} * size_ / sample];
    auto rank = static_cast<std::uint32_t>(std::uint64_t{k} * sample / size_);
    for (rank += rank / 8 + 4;; rank *= 2) {
      std::int32_t least = 0;
      if (size_ > sample_size && rank < sample) {
        std::nth_element(sample_, sample_ + rank, sample_ + sample, descending);
        least = sample_[rank];
      }
      const std::uint32_t count = gather_reaching(least);
      if (count >= k) return count;
    }
  }

  std::uint32_t gather_reaching(std::int32_t least) {
    return kernels::detail::dispatch<indices_reaching>(level_, const_cast<const std::int32_t*>(magnitudes_.data()), padded_,
                                                       least, candidates_.data());
  }

  static constexpr std::uint32_t sample_size = 128;
  static constexpr std::uint64_t few = 1024;  // k · size up to which k searches for the largest are the quickest
  static constexpr std::int32_t taken = -1;   // less than any magnitude
  static constexpr auto descending = [](auto a, auto b) { return a > b; };

  std::uint32_t size_;
  std::int64_t padded_;
  std::int32_t guess_ = 0;
  std::int32_t sample_[sample_size] = {};
  std::vector<std::int32_t> magnitudes_;
  std::vector<std::uint32_t> candidates_;
  std::vector<std::uint64_t> keys_;
  kernels::simd_level level_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::compress::detail

CAUSEWAY_EXACT_KERNEL((const float*, std::size_t, std::int32_t*, std::int64_t, std::int64_t),
                      compress::detail::magnitudes_of)
CAUSEWAY_EXACT_KERNEL((const std::int32_t*, std::int64_t), compress::detail::index_of_largest)
CAUSEWAY_EXACT_KERNEL((const std::int32_t*, std::int64_t, std::int32_t, std::uint32_t*), compress::detail::indices_reaching)

#endif  // CAUSEWAY_COMPRESS_TOP_SELECTION_HPP
