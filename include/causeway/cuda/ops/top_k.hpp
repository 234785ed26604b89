// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_OPS_TOP_K_HPP
#define CAUSEWAY_CUDA_OPS_TOP_K_HPP

// compress::top_k where a queue computes: a block of threads for each chunk, both ways.

#include <causeway/compress/bit_stream.hpp>
#include <causeway/compress/top_k.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/cuda/bodies/mask_bodies.hpp>
#include <causeway/cuda/bodies/top_k_body.hpp>
#include <causeway/cuda/bodies/top_k_read_body.hpp>
#include <causeway/cuda/ops/queue.hpp>

#include <cstddef>
#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

namespace detail {

/// Runs `body` over the chunks of all grids of a row, with the grid and the places that are its own.
template <Queue Q, class Body>
result<void> for_grids(Q& q, const compress::top_k& choice, const compress::message_context& ctx, std::size_t n,
                       Body body) {
  for (const compress::chunk_grid& grid : choice.grids(ctx, n)) {
    body.grid = grid;
    body.layout = choice.layout(grid);
    CAUSEWAY_TRY(q.rows(static_cast<std::int64_t>(grid.count()), grid.size(), body));
    body.kept += grid.count() * body.layout.count;
    body.first_bit += 8 * compress::bytes_of_bits(grid.count() * body.layout.bits);
  }
  return {};
}

}  // namespace detail

/// Words of 32 bits that hold the index bytes of a row.
[[nodiscard]] inline std::size_t index_words(std::size_t bytes) noexcept { return (bytes + 3) / 4; }

/// kept [choice.most_kept(ctx, n)] = the coordinates that `choice` selects of a row of n values, in the order of
/// compress::top_k::select; `words` receive its choice.most_bytes(ctx, n) bytes, and zeros behind. All in the queue's
/// memory. Reads the row from memory once, and from the cache up to 32 times.
template <Queue Q>
[[nodiscard]] result<void> select(Q& q, const compress::top_k& choice, const compress::message_context& ctx,
                                  const float* row, std::size_t n, std::uint32_t* kept, std::uint32_t* words) {
  const auto count = static_cast<std::int64_t>(index_words(choice.most_bytes(ctx, n)));
  CAUSEWAY_TRY(q.elements(count, clear_words_body{words}));
  return detail::for_grids(q, choice, ctx, n, top_k_body{.row = row, .kept = kept, .words = words});
}

/// The way back, from bytes that anybody may have sent: *found (zeroed before) has bad_indices where compress::top_k::read
/// refuses them, and `kept` is then unspecified.
template <Queue Q>
[[nodiscard]] result<void> read_indices(Q& q, const compress::top_k& choice, const compress::message_context& ctx,
                                        const std::uint32_t* words, std::size_t n, std::uint32_t* kept,
                                        std::uint32_t* found) {
  return detail::for_grids(q, choice, ctx, n, top_k_read_body{.words = words, .kept = kept, .found = found});
}

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_OPS_TOP_K_HPP
