// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_TOP_K_CUH
#define CAUSEWAY_CUDA_TOP_K_CUH

// compress::top_k on the device: a block of threads for each chunk.

#include <causeway/compress/bit_stream.hpp>
#include <causeway/compress/top_k.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/cuda/row_kernels.cuh>
#include <causeway/cuda/runtime.cuh>
#include <causeway/cuda/top_k_body.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace causeway::inline CAUSEWAY_ABI::cuda {

/// kept [choice.most_kept(ctx, n)] = the coordinates that `choice` selects of a row of n values, in the order of
/// compress::top_k::select; `room` receives its choice.most_bytes(ctx, n) bytes. All on the device; room begins at a
/// multiple of 4, and the 3 bytes behind it may be touched. Reads the row from memory once, and from the cache up to 32
/// times.
[[nodiscard]] inline result<void> select(stream& s, const compress::top_k& choice, const compress::message_context& ctx,
                                         const float* row, std::size_t n, std::uint32_t* kept, std::span<std::byte> room) {
  const std::size_t bytes = choice.most_bytes(ctx, n);
  CAUSEWAY_EXPECT(room.size() >= bytes && reinterpret_cast<std::uintptr_t>(room.data()) % 4 == 0);
  CAUSEWAY_TRY(check(cudaMemsetAsync(room.data(), 0, bytes, s.handle()), "clearing the room for indices"));
  top_k_body body{.row = row, .kept = kept, .words = reinterpret_cast<std::uint32_t*>(room.data())};
  for (const compress::chunk_grid& grid : choice.grids(ctx, n)) {
    body.grid = grid;
    body.layout = choice.layout(grid);
    CAUSEWAY_TRY(for_each_row(s, static_cast<std::int64_t>(grid.count()), grid.size(), body));
    body.kept += grid.count() * body.layout.count;
    body.first_bit += 8 * compress::bytes_of_bits(grid.count() * body.layout.bits);
  }
  return {};
}

}  // namespace causeway::inline CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_TOP_K_CUH
