// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_REDUCTIONS_CUH
#define CAUSEWAY_CUDA_REDUCTIONS_CUH

// What takes two kernels on the device: backward passes of norms, gradients of biases, the norm of all gradients. The
// partial sums between the two lie in the arena.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/cuda/elementwise.cuh>
#include <causeway/cuda/memory.cuh>
#include <causeway/cuda/norm_bodies.hpp>
#include <causeway/cuda/reduce_bodies.hpp>
#include <causeway/cuda/row_kernels.cuh>
#include <causeway/cuda/runtime.cuh>

#include <cstddef>
#include <cstdint>

namespace causeway::inline CAUSEWAY_ABI::cuda {

/// The gradient of a norm: dx as `body` says (its partials need not be set), and dgain [columns] and, where Centered, dbias
/// [columns] are added to. dbias is null where not Centered. Moves 12 bytes an element in f32, 10 with bf16, and 4 more to
/// accumulate.
template <bool Centered, class Act>
[[nodiscard]] result<void> norm_backward(stream& s, arena& memory, norm_backward_body<Centered, Act> body, float* dgain,
                                         float* dbias) {
  if (body.rows == 0) return {};
  const std::int64_t blocks = norm_blocks(body.rows);
  const std::int64_t stride = body.columns * body.arrays;
  CAUSEWAY_ASSIGN(const auto partials, memory.take<float>(static_cast<std::size_t>(blocks * stride)));
  body.partials = partials.data();
  CAUSEWAY_TRY(for_each_row_with_memory(s, blocks, body.columns, body));
  CAUSEWAY_TRY(elementwise(s, body.columns, column_total_body{partials.data(), dgain, blocks, stride}));
  if constexpr (Centered) {
    const column_total_body biases{partials.data() + body.columns, dbias, blocks, stride};
    CAUSEWAY_TRY(elementwise(s, body.columns, biases));
  }
  return {};
}

/// dbias [columns] += the column sums of dy [rows, columns]: the bits of kernels::bias_gradient. Reads 4 bytes an element
/// (f32), 2 (bf16).
template <class T>
[[nodiscard]] result<void> bias_gradient(stream& s, arena& memory, const T* dy, float* dbias, std::int64_t rows,
                                         std::int64_t columns) {
  if (rows == 0) return {};
  const std::int64_t count = column_blocks(rows) * columns;
  CAUSEWAY_ASSIGN(const auto partials, memory.take<float>(static_cast<std::size_t>(count)));
  CAUSEWAY_TRY(elementwise(s, count, column_partial_body<T>{dy, partials.data(), rows, columns}));
  return elementwise(s, columns, column_total_body{partials.data(), dbias, column_blocks(rows), columns});
}

/// *total = the sum of x, or of x², in f64. The same bits in every run and on every device. Reads 4 bytes an element.
template <summand What>
[[nodiscard]] result<void> total_of(stream& s, arena& memory, const float* x, std::int64_t count, double* total) {
  constexpr std::int64_t threads_for = 4096;  // 512 threads to a block
  CAUSEWAY_ASSIGN(const auto partials, memory.take<double>(static_cast<std::size_t>(total_blocks)));
  CAUSEWAY_TRY(for_each_row(s, total_blocks, threads_for, total_partial_body<What>{x, partials.data(), count}));
  return for_each_row(s, 1, total_blocks, total_body{partials.data(), total});
}

/// norm[0] = the Euclidean norm of all gradients, norm[1] = the factor that brings it down to `most` (clip_body). Both stay
/// on the device; adamw_body takes the factor from there.
[[nodiscard]] inline result<void> clip_by_norm(stream& s, arena& memory, const float* gradients, std::int64_t count,
                                               float most, float* norm) {
  CAUSEWAY_ASSIGN(const auto squares, memory.take<double>(1));
  CAUSEWAY_TRY(total_of<summand::square>(s, memory, gradients, count, squares.data()));
  return elementwise(s, 1, clip_body{squares.data(), norm, most});
}

}  // namespace causeway::inline CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_REDUCTIONS_CUH
