// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_IMPL_OPTIMIZER_IPP
#define CAUSEWAY_KERNELS_IMPL_OPTIMIZER_IPP

#include <causeway/kernels/optimizer.hpp>

#include <causeway/kernels/adamw_kernel.hpp>
#include <causeway/kernels/simd_math.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

namespace detail {

// Whether weights decay is asked outside of the loop: GCC keeps vectors of 64 bytes that one of two ways changes in memory
// where the machine has no registers for them.
struct sgd_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(float* p, const float* g, std::int64_t count, sgd_coefficients c) {
    c.weight_decay != 0.0F ? pass<true>(p, g, count, c) : pass<false>(p, g, count, c);
  }
  template <bool Decays>
  CAUSEWAY_ALWAYS_INLINE static void pass(float* p, const float* g, std::int64_t count, sgd_coefficients c) {
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      CAUSEWAY_EXACT_BODY
      f32x16 value, gradient;
      load(value, p + i, part);
      load(gradient, g + i, part);
      gradient *= c.gradient_scale;
      if constexpr (Decays) gradient += c.weight_decay * value;
      store(p + i, value - c.learning_rate * gradient, part);
    });
  }
};

template <bool Nesterov>
struct momentum_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(float* p, const float* g, float* u, std::int64_t count, sgd_coefficients c) {
    c.weight_decay != 0.0F ? pass<true>(p, g, u, count, c) : pass<false>(p, g, u, count, c);
  }
  template <bool Decays>
  CAUSEWAY_ALWAYS_INLINE static void pass(float* p, const float* g, float* u, std::int64_t count, sgd_coefficients c) {
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      CAUSEWAY_EXACT_BODY
      f32x16 value, gradient, velocity;
      load(value, p + i, part);
      load(gradient, g + i, part);
      load(velocity, u + i, part);
      gradient *= c.gradient_scale;
      if constexpr (Decays) gradient += c.weight_decay * value;
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

CAUSEWAY_DECL void adamw_update(float* p, const float* g, float* m, float* v, std::int64_t count,
                                const adamw_coefficients& c, simd_level level) {
  detail::dispatch<detail::adamw_kernel>(level, p, g, m, v, count, detail::factors_of(c));
}

CAUSEWAY_DECL void adamw_update(thread_pool& pool, float* p, const float* g, float* m, float* v, std::int64_t count,
                                const adamw_coefficients& c, simd_level level) {
  detail::for_elements(pool, count, [&](index_range part) {
    adamw_update(p + part.begin, g + part.begin, m + part.begin, v + part.begin, part.size(), c, level);
  });
}

CAUSEWAY_DECL void sgd_update(float* p, const float* g, std::int64_t count, const sgd_coefficients& c, simd_level level) {
  detail::dispatch<detail::sgd_kernel>(level, p, g, count, c);
}

CAUSEWAY_DECL void sgd_update(thread_pool& pool, float* p, const float* g, std::int64_t count, const sgd_coefficients& c,
                              simd_level level) {
  detail::for_elements(pool, count,
                       [&](index_range part) { sgd_update(p + part.begin, g + part.begin, part.size(), c, level); });
}

CAUSEWAY_DECL void momentum_update(float* p, const float* g, float* u, std::int64_t count, const sgd_coefficients& c,
                                   simd_level level) {
  detail::dispatch<detail::momentum_kernel<false>>(level, p, g, u, count, c);
}

CAUSEWAY_DECL void nesterov_update(float* p, const float* g, float* u, std::int64_t count, const sgd_coefficients& c,
                                   simd_level level) {
  detail::dispatch<detail::momentum_kernel<true>>(level, p, g, u, count, c);
}

CAUSEWAY_DECL void nesterov_update(thread_pool& pool, float* p, const float* g, float* u, std::int64_t count,
                                   const sgd_coefficients& c, simd_level level) {
  detail::for_elements(pool, count, [&](index_range part) {
    nesterov_update(p + part.begin, g + part.begin, u + part.begin, part.size(), c, level);
  });
}

CAUSEWAY_DECL void muon_momentum(thread_pool& pool, float* x, const float* g, float* u, std::int64_t count, float momentum,
                                 float gradient_scale, simd_level level) {
  detail::for_elements(pool, count, [&](index_range part) {
    detail::dispatch<detail::muon_momentum_kernel>(level, x + part.begin, g + part.begin, u + part.begin, part.size(),
                                                   momentum, gradient_scale);
  });
}

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_IMPL_OPTIMIZER_IPP
