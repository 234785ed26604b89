// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_ROW_HASH_HPP
#define CAUSEWAY_KERNELS_ROW_HASH_HPP

// A checksum of a long row of values that many threads can make together, a device's too (cuda/bodies/hash_bodies.hpp):
// pieces are hashed apart, and their hashes again. It names what replicas hold.

#include <causeway/config/config.hpp>
#include <causeway/core/thread_pool.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

/// Values of a piece; the last one may be shorter.
inline constexpr std::size_t hash_piece = 16384;

[[nodiscard]] constexpr std::size_t hash_pieces(std::size_t count) noexcept {
  return (count + hash_piece - 1) / hash_piece;
}

/// The hash of a row from those of its pieces.
CAUSEWAY_DECL [[nodiscard]] std::uint64_t hash_of_pieces(std::span<const std::uint64_t> pieces) noexcept;

/// The same for every number of threads. Reads 4 bytes a value.
CAUSEWAY_DECL [[nodiscard]] std::uint64_t row_hash(thread_pool& pool, std::span<const float> row);

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

#ifndef CAUSEWAY_COMPILED
#include <causeway/kernels/impl/row_hash.ipp>
#endif

#endif  // CAUSEWAY_KERNELS_ROW_HASH_HPP
