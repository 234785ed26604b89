// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_OPTIMIZER_HPP
#define CAUSEWAY_KERNELS_OPTIMIZER_HPP

// Parameter updates in one pass over memory. Exact kernels: every operation is rounded by itself, so replicas that apply
// the same update stay equal bit for bit on different processors. Each update exists twice: for the calling thread, over
// one piece, and for the pool. A piece's padding (zero value, zero gradient) stays zero.

#include <causeway/config/config.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/targets.hpp>

#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

/// One step of AdamW, in the order of operations of PyTorch's.
struct adamw_coefficients {
  float learning_rate = 1e-3F;
  float beta1 = 0.9F;
  float beta2 = 0.95F;
  float epsilon = 1e-8F;
  float weight_decay = 0.0F;
  float bias_correction1 = 1.0F;  ///< 1 - beta1^t
  float bias_correction2 = 1.0F;  ///< 1 - beta2^t
  float gradient_scale = 1.0F;    ///< multiplies the gradient first (1/batch, clipping)
};

/// One step of SGD, with momentum and Nesterov's form of it.
struct sgd_coefficients {
  float learning_rate = 1e-2F;
  float momentum = 0.0F;
  float weight_decay = 0.0F;
  float gradient_scale = 1.0F;
};

namespace detail {

/// What is computed from the coefficients once a piece.
struct adamw_factors {
  float gradient_scale, beta1, rest1, beta2, rest2, decay, step, root_scale, epsilon;
};

inline adamw_factors factors_of(const adamw_coefficients& c) noexcept {
  const double root = __builtin_sqrt(static_cast<double>(c.bias_correction2));
  return {c.gradient_scale,
          c.beta1,
          static_cast<float>(1.0 - static_cast<double>(c.beta1)),
          c.beta2,
          static_cast<float>(1.0 - static_cast<double>(c.beta2)),
          static_cast<float>(1.0 - static_cast<double>(c.learning_rate) * static_cast<double>(c.weight_decay)),
          static_cast<float>(static_cast<double>(c.learning_rate) / static_cast<double>(c.bias_correction1)),
          static_cast<float>(1.0 / root),
          c.epsilon};
}

}  // namespace detail

/// AdamW (Loshchilov and Hutter 2019): m = b1·m + (1-b1)·g; v = b2·v + (1-b2)·g²;
/// p = p·(1 - lr·wd) - lr·mhat / (sqrt(vhat) + epsilon). Moves 28 bytes an element. On the calling thread.
CAUSEWAY_DECL void adamw_update(float* p, const float* g, float* m, float* v, std::int64_t count,
                                const adamw_coefficients& c, simd_level level = detect_simd_level());

CAUSEWAY_DECL void adamw_update(thread_pool& pool, float* p, const float* g, float* m, float* v, std::int64_t count,
                                const adamw_coefficients& c, simd_level level = detect_simd_level());

/// p -= lr·(g + wd·p). Exactly p - g for a rate of 1 and no decay. Moves 12 bytes an element. On the calling thread.
CAUSEWAY_DECL void sgd_update(float* p, const float* g, std::int64_t count, const sgd_coefficients& c,
                              simd_level level = detect_simd_level());

CAUSEWAY_DECL void sgd_update(thread_pool& pool, float* p, const float* g, std::int64_t count, const sgd_coefficients& c,
                              simd_level level = detect_simd_level());

/// u = mu·u + g + wd·p; p -= lr·u. Moves 20 bytes an element. On the calling thread.
CAUSEWAY_DECL void momentum_update(float* p, const float* g, float* u, std::int64_t count, const sgd_coefficients& c,
                                   simd_level level = detect_simd_level());

/// PyTorch's Nesterov: g += wd·p; u = mu·u + g; p -= lr·(g + mu·u). Moves 20 bytes an element. On the calling thread.
CAUSEWAY_DECL void nesterov_update(float* p, const float* g, float* u, std::int64_t count, const sgd_coefficients& c,
                                   simd_level level = detect_simd_level());

CAUSEWAY_DECL void nesterov_update(thread_pool& pool, float* p, const float* g, float* u, std::int64_t count,
                                   const sgd_coefficients& c, simd_level level = detect_simd_level());

/// The first half of Muon's step: u = mu·u + g; x = g + mu·u. Moves 20 bytes an element.
CAUSEWAY_DECL void muon_momentum(thread_pool& pool, float* x, const float* g, float* u, std::int64_t count, float momentum,
                                 float gradient_scale, simd_level level = detect_simd_level());

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

#ifndef CAUSEWAY_COMPILED
#include <causeway/kernels/impl/optimizer.ipp>
#endif

#endif  // CAUSEWAY_KERNELS_OPTIMIZER_HPP
