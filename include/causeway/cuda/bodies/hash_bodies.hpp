// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_BODIES_HASH_BODIES_HPP
#define CAUSEWAY_CUDA_BODIES_HASH_BODIES_HPP

// kernels::row_hash on the device: a thread for each of the eight lanes of a piece, then one for each piece.

#include <causeway/config/config.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/kernels/row_hash.hpp>

#include <bit>
#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// lanes [8 · pieces] of a row of n values; over the lanes. Neighbours read neighbouring words.
struct hash_lanes_body {
  const float* row = nullptr;
  std::int64_t n = 0;
  std::uint64_t* lanes = nullptr;
  causeway::detail::hash_lanes first = causeway::detail::first_lanes(0);

  CAUSEWAY_HD void operator()(std::int64_t index) const {
    constexpr std::int64_t piece = kernels::hash_piece, stripe = 16;
    const std::int64_t begin = index / 8 * piece, end = n - begin < piece ? n : begin + piece;
    const std::int64_t place = index % 8 * 2;
    std::uint64_t lane = first[static_cast<std::size_t>(index % 8)];
    for (std::int64_t at = begin; at < end; at += stripe) lane = causeway::detail::mixed_in(lane, word(at + place));
    lanes[index] = lane;
  }

 private:
  /// Two neighbours as they lie in memory; zero beyond the end, as in the hasher's last stripe.
  [[nodiscard]] CAUSEWAY_HD std::uint64_t word(std::int64_t i) const {
    const std::uint32_t low = i < n ? std::bit_cast<std::uint32_t>(row[i]) : 0U;
    const std::uint32_t high = i + 1 < n ? std::bit_cast<std::uint32_t>(row[i + 1]) : 0U;
    return std::uint64_t{high} << 32U | low;
  }
};

/// hashes [pieces] from the lanes; over the pieces.
struct hash_pieces_body {
  const std::uint64_t* lanes = nullptr;
  std::int64_t n = 0;
  std::uint64_t* hashes = nullptr;

  CAUSEWAY_HD void operator()(std::int64_t i) const {
    constexpr std::int64_t piece = kernels::hash_piece;
    const std::int64_t values = n - i * piece < piece ? n - i * piece : piece;
    std::uint64_t own[8];
    for (int k = 0; k < 8; ++k) own[k] = lanes[8 * i + k];
    hashes[i] = causeway::detail::joined(own, static_cast<std::uint64_t>(values) * sizeof(float));
  }
};

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_BODIES_HASH_BODIES_HPP
