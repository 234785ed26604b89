// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_CUDA_ORTHOGONALISE_HOST_HPP
#define CAUSEWAY_TESTS_CUDA_ORTHOGONALISE_HOST_HPP

// The device's orthogonalisation with products of the host, and the direction that optim::muon steps in.

#include <causeway/cuda/bodies/orthogonalise_bodies.hpp>
#include <causeway/cuda/bodies/reduce_bodies.hpp>
#include <causeway/optim/muon.hpp>
#include <causeway/tensor/parameters.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace causeway_test {

template <class T>
struct steps_here {
  causeway::result<void> multiply(const causeway::kernels::gemm_args<T, T>& g) {
    for (std::int64_t i = 0; i < g.m; ++i) {
      for (std::int64_t j = 0; j < g.n; ++j) {
        float sum = 0;
        for (std::int64_t k = 0; k < g.k; ++k) {
          sum += static_cast<float>(g.a[g.transpose_a ? k * g.lda + i : i * g.lda + k]) *
                 static_cast<float>(g.b[g.transpose_b ? j * g.ldb + k : k * g.ldb + j]);
        }
        g.c[i * g.ldc + j] = T(sum);
      }
    }
    return {};
  }
  causeway::result<void> combine(T* a, const T* aa, std::int64_t side) {
    causeway::cuda::run_here(causeway::cuda::newton_schulz_body<T>{a, aa, side}, side * side);
    return {};
  }
};

template <class T>
std::vector<float> orthogonalise_here(const std::vector<float>& x, std::int64_t rows, std::int64_t columns) {
  const auto side = static_cast<std::size_t>(std::min(rows, columns));
  std::vector<T> first(x.size()), second(x.size()), a(side * side), aa(side * side);
  double squares = 0;
  for (const float v : x) squares += static_cast<double>(v) * static_cast<double>(v);
  causeway::cuda::run_here(causeway::cuda::divide_by_norm_body<T>{x.data(), &squares, first.data()}, rows * columns);
  steps_here<T> steps;
  const auto made =
      causeway::kernels::newton_schulz(steps, first.data(), second.data(), a.data(), aa.data(), rows, columns, 5);
  std::vector<float> out;
  for (std::size_t i = 0; i < x.size(); ++i) out.push_back(static_cast<float>(made.value()[i]));
  return out;
}

/// What one step of optim::muon with the gradient x takes from zeros, at a rate of one and without momentum, before its
/// scale for tall matrices.
inline std::vector<float> muon_direction(const std::vector<float>& x, std::int64_t rows, std::int64_t columns) {
  causeway::thread_pool pool{1};
  causeway::parameter_store store;
  store.add("w", causeway::parameter_kind::matrix, rows, columns);
  store.allocate();
  std::fill(store.values().begin(), store.values().end(), 0.0F);
  std::copy(x.begin(), x.end(), store.gradients().begin());
  causeway::optim::muon<> optimizer{{.momentum = 0.0F}};
  optimizer.reset(store.length());
  optimizer.step(pool, store.view(), {.learning_rate = 1.0F});
  const float tall = std::sqrt(std::max(1.0F, static_cast<float>(rows) / static_cast<float>(columns)));
  std::vector<float> out;
  for (std::size_t i = 0; i < x.size(); ++i) out.push_back(-store.values()[i] / tall);
  return out;
}

}  // namespace causeway_test

#endif  // CAUSEWAY_TESTS_CUDA_ORTHOGONALISE_HOST_HPP
