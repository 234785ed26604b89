// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_CROSS_ENTROPY_HPP
#define CAUSEWAY_KERNELS_CROSS_ENTROPY_HPP

// The output layer and its loss in one: logits are made for a chunk of rows at a time, turned into their own gradient and
// used at once, so that the [rows, V] matrix never exists.

#include <causeway/config/config.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/gemm.hpp>
#include <causeway/tensor/dtype.hpp>
#include <causeway/tensor/scratch.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace causeway::inline CAUSEWAY_ABI::kernels {

namespace detail {

/// -log softmax(logits)[target]; writes grad_scale * (softmax - onehot) unless `gradient` is null. May work in place.
template <class Act>
double cross_entropy_row(const float* logits, Act* gradient, std::int64_t V, std::int32_t target, float grad_scale) {
  if (target < 0) {
    if (gradient != nullptr) std::fill(gradient, gradient + V, Act(0.0F));
    return 0.0;
  }
  const float top = *std::max_element(logits, logits + V);
  double sum = 0.0;
  for (std::int64_t j = 0; j < V; ++j) sum += std::exp(logits[j] - top);
  const double loss = std::log(sum) + static_cast<double>(top) - static_cast<double>(logits[target]);
  if (gradient == nullptr) return loss;
  const float factor = static_cast<float>(1.0 / sum);
  for (std::int64_t j = 0; j < V; ++j) {
    const float p = std::exp(logits[j] - top) * factor;
    gradient[j] = Act(grad_scale * (j == target ? p - 1.0F : p));
  }
  return loss;
}

}  // namespace detail

/// Sum over rows of -log softmax(x wT)[target]; rows with a negative target are ignored. x is [rows, C], w is [V, C].
/// dx (overwritten) and dw (added to), when not null, receive the gradient of grad_scale times that sum.
template <class Act, class G>
double cross_entropy(thread_pool& pool, scratch& memory, G& gemm, const Act* x, const Act* w, const std::int32_t* targets,
                     std::int64_t rows, std::int64_t C, std::int64_t V, float grad_scale, Act* dx, float* dw) {
  const std::int64_t chunk = std::min(rows, std::max<std::int64_t>(64, (std::int64_t{4} << 20) / V));
  auto frame = memory.open();
  float* logits = frame.template take<float>(static_cast<std::size_t>(chunk * V));
  double* losses = frame.template take<double>(static_cast<std::size_t>(chunk));
  Act* gradient = nullptr;
  const bool training = dx != nullptr || dw != nullptr;
  if (training) {
    if constexpr (std::is_same_v<Act, float>) {
      gradient = logits;
    } else {
      gradient = frame.template take<Act>(static_cast<std::size_t>(chunk * V));
    }
  }
  double total = 0.0;
  for (std::int64_t begin = 0; begin < rows; begin += chunk) {
    const std::int64_t n = std::min(chunk, rows - begin);
    gemm_args<Act, float> forward;
    forward.transpose_b = true;
    forward.m = n, forward.n = V, forward.k = C;
    forward.a = x + begin * C, forward.lda = C, forward.b = w, forward.ldb = C, forward.c = logits, forward.ldc = V;
    gemm.multiply(pool, memory, forward);
    pool.for_range(n, 1, [&](index_range part) {
      for (std::int64_t r = part.begin; r < part.end; ++r)
        losses[r] = detail::cross_entropy_row(logits + r * V, training ? gradient + r * V : nullptr, V, targets[begin + r],
                                              grad_scale);
    });
    for (std::int64_t r = 0; r < n; ++r) total += losses[r];
    if (dx != nullptr) {
      gemm_args<Act, Act> back;
      back.m = n, back.n = C, back.k = V;
      back.a = gradient, back.lda = V, back.b = w, back.ldb = C, back.c = dx + begin * C, back.ldc = C;
      gemm.multiply(pool, memory, back);
    }
    if (dw != nullptr) {
      gemm_args<Act, float> outer;
      outer.transpose_a = true, outer.accumulate = true;
      outer.m = V, outer.n = C, outer.k = n;
      outer.a = gradient, outer.lda = V, outer.b = x + begin * C, outer.ldb = C, outer.c = dw, outer.ldc = C;
      gemm.multiply(pool, memory, outer);
    }
  }
  return total;
}

}  // namespace causeway::inline CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_CROSS_ENTROPY_HPP
