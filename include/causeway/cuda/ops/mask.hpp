// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_OPS_MASK_HPP
#define CAUSEWAY_CUDA_OPS_MASK_HPP

// The list of coordinates of a random mask, made where a queue computes, by the bodies of mask_bodies.hpp.

#include <causeway/compress/mask.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/cuda/bodies/mask_bodies.hpp>
#include <causeway/cuda/ops/queue.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

static_assert(std::is_trivially_copyable_v<compress::detail::seeded_permutation>, "it is passed to kernels by value");

/// kept [part.end - part.begin], in the queue's memory, = the coordinates that `part` names in a row of n values,
/// ascending: what compress::shared_mask and random_k list. n is below 2^31. Takes a bit for each value.
template <Queue Q>
[[nodiscard]] result<void> list_permuted(Q& q, std::size_t n, const compress::permuted_part& part, std::uint32_t* kept) {
  CAUSEWAY_EXPECT(n < (std::size_t{1} << 31U) && part.begin <= part.end && part.end <= n);
  if (part.begin == part.end) return {};
  const std::size_t words = (n + 31) / 32;
  const auto count = static_cast<std::int64_t>(words);
  const std::int64_t tiles = mask_tiles(count);
  CAUSEWAY_ASSIGN(const auto bits, q.template take<std::uint32_t>(words));
  CAUSEWAY_ASSIGN(const auto offsets, q.template take<std::int32_t>(static_cast<std::size_t>(tiles)));
  CAUSEWAY_TRY(q.elements(count, clear_words_body{bits.data()}));
  const mask_mark_body mark{compress::detail::seeded_permutation{n, part.seed}, part.begin, bits.data()};
  CAUSEWAY_TRY(q.elements(static_cast<std::int64_t>(part.end - part.begin), mark));
  CAUSEWAY_TRY(q.groups(tiles, mask_count_body{bits.data(), count, offsets.data()}));
  constexpr std::int64_t most_threads = 4096;
  CAUSEWAY_TRY(q.rows(1, most_threads, mask_offset_body{offsets.data(), tiles}));
  return q.groups(tiles, mask_list_body{bits.data(), count, offsets.data(), kept});
}

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_OPS_MASK_HPP
