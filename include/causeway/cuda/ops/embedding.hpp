// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_OPS_EMBEDDING_HPP
#define CAUSEWAY_CUDA_OPS_EMBEDDING_HPP

// The gradient of an embedding: a stable sort of the tokens, then the bodies of embedding_bodies.hpp; for positions a sum
// of columns over the batch. (The look-up is embedding_forward_body alone.)

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/cuda/bodies/embedding_bodies.hpp>
#include <causeway/cuda/bodies/reduce_bodies.hpp>
#include <causeway/cuda/ops/queue.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// dtoken[tokens[b,t]] += dx[b,t] and dposition[t] += dx[b,t], f32 [batch, T, C]; either may be null. Tokens must lie in
/// [0, vocabulary), and batch·T below 2^31. The bits of kernels::embedding_backward. Takes 12 bytes a token and the sort's
/// own from the queue.
template <SortingQueue Q>
[[nodiscard]] result<void> embedding_backward(Q& q, const std::int32_t* tokens, const float* dx, float* dtoken,
                                              float* dposition, std::int64_t batch, std::int64_t T, std::int64_t C,
                                              std::int64_t vocabulary) {
  const std::int64_t count = batch * T;
  CAUSEWAY_EXPECT(count < (std::int64_t{1} << 31U) && vocabulary > 0);
  if (count == 0) return {};
  if (dtoken != nullptr) {
    const auto n = static_cast<std::size_t>(count);
    CAUSEWAY_ASSIGN(const auto numbers, q.template take<std::int32_t>(n));
    CAUSEWAY_ASSIGN(const auto sorted, q.template take<std::int32_t>(n));
    CAUSEWAY_ASSIGN(const auto rows, q.template take<std::int32_t>(n));
    CAUSEWAY_TRY(q.elements(count, count_body{numbers.data()}));
    const auto bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(vocabulary - 1) | 1U));
    CAUSEWAY_TRY(q.sort_pairs(tokens, numbers.data(), sorted.data(), rows.data(), count, bits));
    CAUSEWAY_TRY(q.elements(count * C, embedding_backward_body{sorted.data(), rows.data(), dx, dtoken, count, C}));
  }
  if (dposition == nullptr) return {};
  return q.elements(T * C, column_total_body{dx, dposition, batch, T * C});
}

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_OPS_EMBEDDING_HPP
