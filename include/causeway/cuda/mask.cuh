// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_MASK_CUH
#define CAUSEWAY_CUDA_MASK_CUH

// The list of coordinates of a random mask, made on the device by the bodies of mask_bodies.hpp.

#include <causeway/compress/mask.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/cuda/elementwise.cuh>
#include <causeway/cuda/mask_bodies.hpp>
#include <causeway/cuda/memory.cuh>
#include <causeway/cuda/row_kernels.cuh>
#include <causeway/cuda/runtime.cuh>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace causeway::inline CAUSEWAY_ABI::cuda {

static_assert(std::is_trivially_copyable_v<compress::detail::seeded_permutation>, "it is passed to kernels by value");

/// kept [part.end - part.begin] = the coordinates that `part` names in a row of n values, ascending: what
/// compress::shared_mask lists. n is below 2^31. Takes a bit for each value from the arena.
[[nodiscard]] inline result<void> list_permuted(stream& s, arena& memory, std::size_t n,
                                                const compress::permuted_part& part, std::uint32_t* kept) {
  CAUSEWAY_EXPECT(n < (std::size_t{1} << 31U) && part.begin <= part.end && part.end <= n);
  if (part.begin == part.end) return {};
  const std::size_t words = (n + 31) / 32;
  const auto count = static_cast<std::int64_t>(words);
  const std::int64_t tiles = mask_tiles(count);
  CAUSEWAY_ASSIGN(const auto bits, memory.take<std::uint32_t>(words));
  CAUSEWAY_ASSIGN(const auto offsets, memory.take<std::int32_t>(static_cast<std::size_t>(tiles)));
  CAUSEWAY_TRY(check(cudaMemsetAsync(bits.data(), 0, words * sizeof(std::uint32_t), s.handle()), "clearing a bitmap"));
  const mask_mark_body mark{compress::detail::seeded_permutation{n, part.seed}, part.begin, bits.data()};
  CAUSEWAY_TRY(elementwise(s, static_cast<std::int64_t>(part.end - part.begin), mark));
  CAUSEWAY_TRY(for_each_block(s, tiles, mask_count_body{bits.data(), count, offsets.data()}));
  constexpr std::int64_t most_threads = 4096;
  CAUSEWAY_TRY(for_each_row(s, 1, most_threads, mask_offset_body{offsets.data(), tiles}));
  return for_each_block(s, tiles, mask_list_body{bits.data(), count, offsets.data(), kept});
}

}  // namespace causeway::inline CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_MASK_CUH
