// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_OPS_DCT_HPP
#define CAUSEWAY_CUDA_OPS_DCT_HPP

// compress::dct_tiles where a queue computes. The bases are made on the host and copied once.

#include <causeway/compress/chunks.hpp>
#include <causeway/compress/dct.hpp>
#include <causeway/compress/message.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/cuda/bodies/dct_body.hpp>
#include <causeway/cuda/ops/queue.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// The transforms that compress::dct_tiles makes, to the bit, for any options. Keeps the bases that it has met, 32 KiB for
/// each side, in memory of the queue, which must outlive it. Reads and writes 4 bytes a value; 256 operations a value for
/// tiles of 64 by 64. One thread at a time.
template <InwardQueue Q>
class dct {
 public:
  /// coefficients [n] = the transforms of the chunks of values [n], both in the queue's memory; they may be the same.
  [[nodiscard]] result<void> forward(Q& q, const compress::dct_tiles& how, std::span<const compress::matrix_range> matrices,
                                     const float* values, float* coefficients, std::size_t n) {
    return apply(q, how, matrices, values, coefficients, n, true);
  }
  [[nodiscard]] result<void> inverse(Q& q, const compress::dct_tiles& how, std::span<const compress::matrix_range> matrices,
                                     float* row, std::size_t n) {
    return apply(q, how, matrices, row, row, n, false);
  }

 private:
  static constexpr std::size_t tile_size = dct_body::pitch * dct_body::pitch;
  using lease = std::remove_cvref_t<decltype(std::declval<Q&>().template take<float>(1).value())>;

  result<void> apply(Q& q, const compress::dct_tiles& how, std::span<const compress::matrix_range> matrices,
                     const float* from, float* to, std::size_t n, bool forward) {
    constexpr std::int64_t for_256_threads = 2048;
    for (const compress::chunk_grid& grid : compress::cut_into_chunks(how.chunks(), matrices, n)) {
      dct_body body{.grid = grid, .from = from, .to = to};
      CAUSEWAY_ASSIGN(const float* const of_columns, basis(q, grid.columns));
      body.right = of_columns + (forward ? tile_size : 0);
      if (grid.rows > 1) {
        CAUSEWAY_ASSIGN(const float* const of_rows, basis(q, grid.rows));
        body.left = of_rows + (forward ? 0 : tile_size);
      }
      CAUSEWAY_TRY(q.rows_with_memory(body.items(), for_256_threads, body));
    }
    return {};
  }

  /// The basis of a side, and behind it its transpose.
  result<const float*> basis(Q& q, std::size_t side) {
    const auto known = bases_.find(side);
    if (known != bases_.end()) return known->second.data();
    const auto made = std::make_unique<compress::detail::dct_basis>();
    compress::detail::fill_dct_basis(*made, side);
    CAUSEWAY_ASSIGN(auto room, q.template take<float>(2 * tile_size));
    CAUSEWAY_TRY(q.copy_in(room.data(), made->forward.at, sizeof made->forward.at));
    CAUSEWAY_TRY(q.copy_in(room.data() + tile_size, made->transposed.at, sizeof made->transposed.at));
    return bases_.emplace(side, std::move(room)).first->second.data();
  }

  std::map<std::size_t, lease> bases_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_OPS_DCT_HPP
