// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_OPS_REDUCTIONS_HPP
#define CAUSEWAY_CUDA_OPS_REDUCTIONS_HPP

// What takes two kernels on the device: backward passes of norms, gradients of biases, the norm of all gradients. The
// partial sums between the two lie in memory of the queue.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/cuda/bodies/norm_bodies.hpp>
#include <causeway/cuda/bodies/reduce_bodies.hpp>
#include <causeway/cuda/ops/queue.hpp>

#include <cstddef>
#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// The gradient of a norm: dx as `body` says (its partials need not be set), and dgain [columns] and, where Centered, dbias
/// [columns] are added to; both may be null, and dbias is null where not Centered. Moves 12 bytes an element in f32, 10
/// with bf16, and 4 more to accumulate.
template <bool Centered, class Act, Queue Q>
[[nodiscard]] result<void> norm_backward(Q& q, norm_backward_body<Centered, Act> body, float* dgain, float* dbias) {
  if (body.rows == 0) return {};
  const std::int64_t blocks = norm_blocks(body.rows);
  const std::int64_t stride = body.columns * body.arrays;
  CAUSEWAY_ASSIGN(const auto partials, q.template take<float>(static_cast<std::size_t>(blocks * stride)));
  body.partials = partials.data();
  CAUSEWAY_TRY(q.rows_with_memory(blocks, body.columns, body));
  if (dgain == nullptr) return {};
  CAUSEWAY_TRY(q.elements(body.columns, column_total_body{partials.data(), dgain, blocks, stride}));
  if constexpr (Centered) {
    const column_total_body biases{partials.data() + body.columns, dbias, blocks, stride};
    CAUSEWAY_TRY(q.elements(body.columns, biases));
  }
  return {};
}

/// dbias [columns] += the column sums of dy [rows, columns]: the bits of kernels::bias_gradient. Reads 4 bytes an element
/// (f32), 2 (bf16).
template <class T, Queue Q>
[[nodiscard]] result<void> bias_gradient(Q& q, const T* dy, float* dbias, std::int64_t rows, std::int64_t columns) {
  if (rows == 0) return {};
  const std::int64_t count = column_blocks(rows) * columns;
  CAUSEWAY_ASSIGN(const auto partials, q.template take<float>(static_cast<std::size_t>(count)));
  CAUSEWAY_TRY(q.elements(count, column_partial_body<T>{dy, partials.data(), rows, columns}));
  return q.elements(columns, column_total_body{partials.data(), dbias, column_blocks(rows), columns});
}

/// *total = the sum of x, or of x², in f64. The same bits in every run and on every device. Reads 4 bytes an element.
template <summand What, Queue Q>
[[nodiscard]] result<void> total_of(Q& q, const float* x, std::int64_t count, double* total) {
  constexpr std::int64_t threads_for = 4096;  // 512 threads to a block
  CAUSEWAY_ASSIGN(const auto partials, q.template take<double>(static_cast<std::size_t>(total_blocks)));
  CAUSEWAY_TRY(q.rows(total_blocks, threads_for, total_partial_body<What>{x, partials.data(), count}));
  return q.rows(1, total_blocks, total_body{partials.data(), total});
}

/// norm[0] = the Euclidean norm of all gradients, norm[1] = the factor that brings it down to `most` (clip_body). Both stay
/// on the device; adamw_body takes the factor from there.
template <Queue Q>
[[nodiscard]] result<void> clip_by_norm(Q& q, const float* gradients, std::int64_t count, float most, float* norm) {
  CAUSEWAY_ASSIGN(const auto squares, q.template take<double>(1));
  CAUSEWAY_TRY(total_of<summand::square>(q, gradients, count, squares.data()));
  return q.elements(1, clip_body{squares.data(), norm, most});
}

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_OPS_REDUCTIONS_HPP
