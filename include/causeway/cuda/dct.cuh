// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_DCT_CUH
#define CAUSEWAY_CUDA_DCT_CUH

// compress::dct_tiles on the device. The bases are made on the host and copied once.

#include <causeway/compress/chunks.hpp>
#include <causeway/compress/dct.hpp>
#include <causeway/compress/message.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/cuda/dct_body.hpp>
#include <causeway/cuda/row_kernels.cuh>
#include <causeway/cuda/runtime.cuh>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>

namespace causeway::inline CAUSEWAY_ABI::cuda {

/// The transform that a compress::dct_tiles with the same options makes, to the bit. The first call that meets a side waits
/// for its basis to be copied. Reads and writes 4 bytes a value; 256 operations a value for tiles of 64 by 64. One thread
/// at a time.
class dct {
 public:
  explicit dct(const compress::dct_tiles& how) : chunks_{how.chunks()} {}

  /// coefficients [n] = the transforms of the chunks of values [n], both on the device; they may be the same.
  [[nodiscard]] result<void> forward(stream& s, std::span<const compress::matrix_range> matrices, const float* values,
                                     float* coefficients, std::size_t n) {
    return apply(s, matrices, values, coefficients, n, true);
  }
  [[nodiscard]] result<void> inverse(stream& s, std::span<const compress::matrix_range> matrices, float* row,
                                     std::size_t n) {
    return apply(s, matrices, row, row, n, false);
  }

 private:
  static constexpr std::size_t tile_size = dct_body::pitch * dct_body::pitch;

  result<void> apply(stream& s, std::span<const compress::matrix_range> matrices, const float* from, float* to,
                     std::size_t n, bool forward) {
    constexpr std::int64_t for_256_threads = 2048;
    for (const compress::chunk_grid& grid : compress::cut_into_chunks(chunks_, matrices, n)) {
      dct_body body{.grid = grid, .from = from, .to = to};
      CAUSEWAY_ASSIGN(const float* const of_columns, basis(s, grid.columns));
      body.right = of_columns + (forward ? tile_size : 0);
      if (grid.rows > 1) {
        CAUSEWAY_ASSIGN(const float* const of_rows, basis(s, grid.rows));
        body.left = of_rows + (forward ? 0 : tile_size);
      }
      CAUSEWAY_TRY(for_each_row_with_memory(s, body.items(), for_256_threads, body));
    }
    return {};
  }

  /// The basis of a side, and behind it its transpose.
  result<const float*> basis(stream& s, std::size_t side) {
    const auto known = bases_.find(side);
    if (known != bases_.end()) return known->second.data();
    const auto made = std::make_unique<compress::detail::dct_basis>();
    compress::detail::fill_dct_basis(*made, side);
    CAUSEWAY_ASSIGN(auto buffer, device_buffer<float>::create(2 * tile_size));
    for (const auto* part : {&made->forward, &made->transposed}) {
      float* const at = buffer.data() + (part == &made->forward ? 0 : tile_size);
      CAUSEWAY_TRY(check(cudaMemcpyAsync(at, part->at, sizeof part->at, cudaMemcpyHostToDevice, s.handle()),
                         "copying a basis to the device"));
    }
    CAUSEWAY_TRY(s.synchronize());
    return bases_.emplace(side, std::move(buffer)).first->second.data();
  }

  compress::chunking chunks_;
  std::map<std::size_t, device_buffer<float>> bases_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_DCT_CUH
