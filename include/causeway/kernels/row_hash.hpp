// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_ROW_HASH_HPP
#define CAUSEWAY_KERNELS_ROW_HASH_HPP

// A checksum of a long row of values that many threads can make together, a device's too (cuda/hash_bodies.hpp): pieces are
// hashed apart, and their hashes again. It names what replicas hold.

#include <causeway/config/config.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/thread_pool.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::kernels {

/// Values of a piece; the last one may be shorter.
inline constexpr std::size_t hash_piece = 16384;

[[nodiscard]] constexpr std::size_t hash_pieces(std::size_t count) noexcept {
  return (count + hash_piece - 1) / hash_piece;
}

/// The hash of a row from those of its pieces.
[[nodiscard]] inline std::uint64_t hash_of_pieces(std::span<const std::uint64_t> pieces) noexcept {
  return hasher{}.add_values(pieces).finish();
}

/// The same for every number of threads. Reads 4 bytes a value.
[[nodiscard]] inline std::uint64_t row_hash(thread_pool& pool, std::span<const float> row) {
  std::vector<std::uint64_t> pieces(hash_pieces(row.size()));
  pool.for_range(static_cast<std::int64_t>(pieces.size()), 1, [&](index_range part) {
    for (auto i = static_cast<std::size_t>(part.begin); i < static_cast<std::size_t>(part.end); ++i) {
      const std::size_t begin = i * hash_piece;
      pieces[i] = hasher{}.add_values(row.subspan(begin, std::min(hash_piece, row.size() - begin))).finish();
    }
  });
  return hash_of_pieces(pieces);
}

}  // namespace causeway::inline CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_ROW_HASH_HPP
