// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_ORTHOGONALISE_CUH
#define CAUSEWAY_CUDA_ORTHOGONALISE_CUH

// Muon's orthogonalisation on the device: the CPU's products in the CPU's order, by cuBLASLt. The norm stays on the device,
// so the host waits for nothing.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/cuda/activation_bodies.hpp>
#include <causeway/cuda/elementwise.cuh>
#include <causeway/cuda/matmul.cuh>
#include <causeway/cuda/memory.cuh>
#include <causeway/cuda/orthogonalise_bodies.hpp>
#include <causeway/cuda/queue.cuh>
#include <causeway/cuda/reductions.hpp>
#include <causeway/cuda/runtime.cuh>
#include <causeway/kernels/newton_schulz.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace causeway::inline CAUSEWAY_ABI::cuda {

namespace detail {

/// The steps of kernels::newton_schulz in a stream.
template <class T>
struct newton_schulz_steps {
  stream& s;
  matmul& products;

  result<void> multiply(const kernels::gemm_args<T, T>& g) {
    matmul_args<T, T> args{.transpose_a = g.transpose_a, .transpose_b = g.transpose_b, .m = g.m, .n = g.n, .k = g.k};
    args.a = g.a, args.lda = g.lda, args.b = g.b, args.ldb = g.ldb, args.c = g.c, args.ldc = g.ldc;
    return products.multiply(s, args);
  }
  result<void> combine(T* a, const T* aa, std::int64_t side) {
    return elementwise(s, side * side, newton_schulz_body<T>{a, aa, side});
  }
};

}  // namespace detail

/// x [rows, columns] becomes the matrix with its singular vectors and singular values of about one: what optim::muon makes
/// of its momentum, before the scale. Products have operands of type T, f32 or bf16, and sums in f32; with bf16 the values
/// are within some hundredths of the CPU's. Takes 2 rows · columns + 2 min(rows, columns)² values of T from the arena.
template <class T>
[[nodiscard]] result<void> orthogonalise(stream& s, arena& memory, matmul& products, float* x, std::int64_t rows,
                                         std::int64_t columns, int iterations = 5) {
  const std::int64_t count = rows * columns, side = std::min(rows, columns);
  if (count == 0) return {};
  CAUSEWAY_ASSIGN(const auto first, memory.take<T>(static_cast<std::size_t>(count)));
  CAUSEWAY_ASSIGN(const auto second, memory.take<T>(static_cast<std::size_t>(count)));
  CAUSEWAY_ASSIGN(const auto a, memory.take<T>(static_cast<std::size_t>(side * side)));
  CAUSEWAY_ASSIGN(const auto aa, memory.take<T>(static_cast<std::size_t>(side * side)));
  CAUSEWAY_ASSIGN(const auto squares, memory.take<double>(1));
  device_queue q{s, memory};
  CAUSEWAY_TRY(total_of<summand::square>(q, x, count, squares.data()));
  CAUSEWAY_TRY(elementwise(s, count, divide_by_norm_body<T>{x, squares.data(), first.data()}));
  detail::newton_schulz_steps<T> steps{s, products};
  CAUSEWAY_ASSIGN(const T* const made, kernels::newton_schulz(steps, first.data(), second.data(), a.data(), aa.data(), rows,
                                                              columns, iterations));
  return elementwise(s, count, convert_body<T, float>{made, x});
}

}  // namespace causeway::inline CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_ORTHOGONALISE_CUH
