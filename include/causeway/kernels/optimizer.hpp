// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_OPTIMIZER_HPP
#define CAUSEWAY_KERNELS_OPTIMIZER_HPP

// Parameter updates in one pass over memory. Exact kernels: every operation is rounded by itself, so replicas that apply
// the same update stay equal bit for bit on different processors. Each update exists twice: for the calling thread, over
// one piece, and for the pool. A piece's padding (zero value, zero gradient) stays zero.

#include <causeway/config/config.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/simd_math.hpp>
#include <causeway/kernels/targets.hpp>

#include <cstdint>

namespace causeway::inline CAUSEWAY_ABI::kernels {

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

struct adamw_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(float* p, const float* g, float* m, float* v, std::int64_t count,
                                         adamw_factors c) {
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      CAUSEWAY_EXACT_BODY
      f32x16 value, gradient, first, second;
      load(value, p + i, part);
      load(gradient, g + i, part);
      load(first, m + i, part);
      load(second, v + i, part);
      gradient *= c.gradient_scale;
      first = c.beta1 * first + c.rest1 * gradient;
      second = c.beta2 * second + c.rest2 * (gradient * gradient);
      store(m + i, first, part);
      store(v + i, second, part);
      square_root(second);
      value = value * c.decay - c.step * (first / (second * c.root_scale + c.epsilon));
      store(p + i, value, part);
    });
  }
};

struct sgd_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(float* p, const float* g, std::int64_t count, sgd_coefficients c) {
    const bool decays = c.weight_decay != 0.0F;
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      CAUSEWAY_EXACT_BODY
      f32x16 value, gradient;
      load(value, p + i, part);
      load(gradient, g + i, part);
      gradient *= c.gradient_scale;
      if (decays) gradient += c.weight_decay * value;
      store(p + i, value - c.learning_rate * gradient, part);
    });
  }
};

template <bool Nesterov>
struct momentum_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(float* p, const float* g, float* u, std::int64_t count, sgd_coefficients c) {
    const bool decays = c.weight_decay != 0.0F;
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      CAUSEWAY_EXACT_BODY
      f32x16 value, gradient, velocity;
      load(value, p + i, part);
      load(gradient, g + i, part);
      load(velocity, u + i, part);
      gradient *= c.gradient_scale;
      if (decays) gradient += c.weight_decay * value;
      velocity = c.momentum * velocity + gradient;
      store(u + i, velocity, part);
      if constexpr (Nesterov) velocity = gradient + c.momentum * velocity;
      store(p + i, value - c.learning_rate * velocity, part);
    });
  }
};

struct muon_momentum_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(float* x, const float* g, float* u, std::int64_t count, float momentum,
                                         float gradient_scale) {
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      CAUSEWAY_EXACT_BODY
      f32x16 gradient, velocity;
      load(gradient, g + i, part);
      load(velocity, u + i, part);
      gradient *= gradient_scale;
      velocity = momentum * velocity + gradient;
      store(u + i, velocity, part);
      store(x + i, gradient + momentum * velocity, part);
    });
  }
};

}  // namespace detail

/// AdamW (Loshchilov and Hutter 2019): m = b1·m + (1-b1)·g; v = b2·v + (1-b2)·g²;
/// p = p·(1 - lr·wd) - lr·mhat / (sqrt(vhat) + epsilon). Moves 28 bytes an element. On the calling thread.
inline void adamw_update(float* p, const float* g, float* m, float* v, std::int64_t count, const adamw_coefficients& c,
                         simd_level level = detect_simd_level()) {
  detail::dispatch<detail::adamw_kernel>(level, p, g, m, v, count, detail::factors_of(c));
}

inline void adamw_update(thread_pool& pool, float* p, const float* g, float* m, float* v, std::int64_t count,
                         const adamw_coefficients& c, simd_level level = detect_simd_level()) {
  detail::for_elements(pool, count, [&](index_range part) {
    adamw_update(p + part.begin, g + part.begin, m + part.begin, v + part.begin, part.size(), c, level);
  });
}

/// p -= lr·(g + wd·p). Exactly p - g for a rate of 1 and no decay. Moves 12 bytes an element. On the calling thread.
inline void sgd_update(float* p, const float* g, std::int64_t count, const sgd_coefficients& c,
                       simd_level level = detect_simd_level()) {
  detail::dispatch<detail::sgd_kernel>(level, p, g, count, c);
}

inline void sgd_update(thread_pool& pool, float* p, const float* g, std::int64_t count, const sgd_coefficients& c,
                       simd_level level = detect_simd_level()) {
  detail::for_elements(pool, count,
                       [&](index_range part) { sgd_update(p + part.begin, g + part.begin, part.size(), c, level); });
}

/// u = mu·u + g + wd·p; p -= lr·u. Moves 20 bytes an element. On the calling thread.
inline void momentum_update(float* p, const float* g, float* u, std::int64_t count, const sgd_coefficients& c,
                            simd_level level = detect_simd_level()) {
  detail::dispatch<detail::momentum_kernel<false>>(level, p, g, u, count, c);
}

inline void momentum_update(thread_pool& pool, float* p, const float* g, float* u, std::int64_t count,
                            const sgd_coefficients& c, simd_level level = detect_simd_level()) {
  detail::for_elements(pool, count, [&](index_range part) {
    momentum_update(p + part.begin, g + part.begin, u + part.begin, part.size(), c, level);
  });
}

/// PyTorch's Nesterov: g += wd·p; u = mu·u + g; p -= lr·(g + mu·u). Moves 20 bytes an element. On the calling thread.
inline void nesterov_update(float* p, const float* g, float* u, std::int64_t count, const sgd_coefficients& c,
                            simd_level level = detect_simd_level()) {
  detail::dispatch<detail::momentum_kernel<true>>(level, p, g, u, count, c);
}

inline void nesterov_update(thread_pool& pool, float* p, const float* g, float* u, std::int64_t count,
                            const sgd_coefficients& c, simd_level level = detect_simd_level()) {
  detail::for_elements(pool, count, [&](index_range part) {
    nesterov_update(p + part.begin, g + part.begin, u + part.begin, part.size(), c, level);
  });
}

/// The first half of Muon's step: u = mu·u + g; x = g + mu·u. Moves 20 bytes an element.
inline void muon_momentum(thread_pool& pool, float* x, const float* g, float* u, std::int64_t count, float momentum,
                          float gradient_scale, simd_level level = detect_simd_level()) {
  detail::for_elements(pool, count, [&](index_range part) {
    detail::dispatch<detail::muon_momentum_kernel>(level, x + part.begin, g + part.begin, u + part.begin, part.size(),
                                                   momentum, gradient_scale);
  });
}

}  // namespace causeway::inline CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_OPTIMIZER_HPP
