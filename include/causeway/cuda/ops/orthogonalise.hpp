// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_OPS_ORTHOGONALISE_HPP
#define CAUSEWAY_CUDA_OPS_ORTHOGONALISE_HPP

// Muon over a queue: its orthogonalisation, with the order of products and the coefficients of the CPU's
// (kernels/newton_schulz.hpp), and the step of a matrix that it is part of.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/cuda/bodies/activation_bodies.hpp>
#include <causeway/cuda/bodies/orthogonalise_bodies.hpp>
#include <causeway/cuda/bodies/update_bodies.hpp>
#include <causeway/cuda/engine.hpp>
#include <causeway/cuda/ops/products.hpp>
#include <causeway/cuda/ops/reductions.hpp>
#include <causeway/kernels/newton_schulz.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

namespace detail {

/// The steps of kernels::newton_schulz in a queue.
template <class T, ProductQueue Q>
struct newton_schulz_steps {
  Q& q;

  result<void> multiply(const kernels::gemm_args<T, T>& g) { return q.multiply(matmul_of<T, T>(product{g})); }
  result<void> combine(T* a, const T* aa, std::int64_t side) {
    return q.elements(side * side, newton_schulz_body<T>{a, aa, side});
  }
};

}  // namespace detail

/// x [rows, columns] becomes the matrix with its singular vectors and singular values of about one: what optim::muon makes
/// of its momentum, before the scale. Products have operands of type T, f32 or bf16, and sums in f32; with bf16 the values
/// are within some hundredths of the CPU's. Takes 2 rows · columns + 2 min(rows, columns)² values of T from the queue.
template <class T, ProductQueue Q>
[[nodiscard]] result<void> orthogonalise(Q& q, float* x, std::int64_t rows, std::int64_t columns, int iterations = 5) {
  const std::int64_t count = rows * columns, side = std::min(rows, columns);
  if (count == 0) return {};
  CAUSEWAY_ASSIGN(const auto first, q.template take<T>(static_cast<std::size_t>(count)));
  CAUSEWAY_ASSIGN(const auto second, q.template take<T>(static_cast<std::size_t>(count)));
  CAUSEWAY_ASSIGN(const auto a, q.template take<T>(static_cast<std::size_t>(side * side)));
  CAUSEWAY_ASSIGN(const auto aa, q.template take<T>(static_cast<std::size_t>(side * side)));
  CAUSEWAY_ASSIGN(const auto squares, q.template take<double>(1));
  CAUSEWAY_TRY(total_of<summand::square>(q, x, count, squares.data()));
  CAUSEWAY_TRY(q.elements(count, divide_by_norm_body<T>{x, squares.data(), first.data()}));
  detail::newton_schulz_steps<T, Q> steps{q};
  CAUSEWAY_ASSIGN(const T* const made, kernels::newton_schulz(steps, first.data(), second.data(), a.data(), aa.data(), rows,
                                                              columns, iterations));
  return q.elements(count, convert_body<T, float>{made, x});
}

/// One step of optim::muon for the matrix p [rows, columns] with gradient g and momentum u. Takes rows · columns values
/// from the queue beside what `orthogonalise` takes.
template <ProductQueue Q>
[[nodiscard]] result<void> muon_update(Q& q, float* p, const float* g, float* u, std::int64_t rows, std::int64_t columns,
                                       const muon_coefficients& c) {
  const std::int64_t count = rows * columns;
  CAUSEWAY_ASSIGN(const auto x, q.template take<float>(static_cast<std::size_t>(count)));
  CAUSEWAY_TRY(q.elements(count, muon_momentum_body{x.data(), g, u, c.momentum, c.gradient_scale}));
  CAUSEWAY_TRY(c.half ? orthogonalise<bf16>(q, x.data(), rows, columns, c.iterations)
                      : orthogonalise<float>(q, x.data(), rows, columns, c.iterations));
  const float tall = std::sqrt(std::max(1.0F, static_cast<float>(rows) / static_cast<float>(columns)));
  return q.elements(count, sgd_body{p, x.data(), {c.learning_rate, 0.0F, c.weight_decay, tall}});
}

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_OPS_ORTHOGONALISE_HPP
