// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_IMPL_ROW_HASH_IPP
#define CAUSEWAY_KERNELS_IMPL_ROW_HASH_IPP

#include <causeway/kernels/row_hash.hpp>

#include <causeway/core/hash.hpp>

#include <algorithm>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

CAUSEWAY_DECL std::uint64_t hash_of_pieces(std::span<const std::uint64_t> pieces) noexcept {
  return hasher{}.add_values(pieces).finish();
}

CAUSEWAY_DECL std::uint64_t row_hash(thread_pool& pool, std::span<const float> row) {
  std::vector<std::uint64_t> pieces(hash_pieces(row.size()));
  pool.for_range(static_cast<std::int64_t>(pieces.size()), 1, [&](index_range part) {
    for (auto i = static_cast<std::size_t>(part.begin); i < static_cast<std::size_t>(part.end); ++i) {
      const std::size_t begin = i * hash_piece;
      pieces[i] = hasher{}.add_values(row.subspan(begin, std::min(hash_piece, row.size() - begin))).finish();
    }
  });
  return hash_of_pieces(pieces);
}

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_IMPL_ROW_HASH_IPP
