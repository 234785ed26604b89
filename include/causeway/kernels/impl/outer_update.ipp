// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_IMPL_OUTER_UPDATE_IPP
#define CAUSEWAY_KERNELS_IMPL_OUTER_UPDATE_IPP

#include <causeway/kernels/outer_update.hpp>

#include <causeway/kernels/simd_math.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

namespace detail {

template <bool Refresh>
struct delayed_nesterov_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(float* p, const float* g, float* m, float* b, std::int64_t count,
                                         delayed_nesterov_coefficients c) {
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      CAUSEWAY_EXACT_BODY
      f32x16 value, push, momentum, buffer;
      load(value, p + i, part);
      load(push, g + i, part);
      load(momentum, m + i, part);
      load(buffer, b + i, part);
      push *= c.gradient_scale;
      buffer += push;
      if constexpr (Refresh) {
        momentum = c.beta * momentum + c.share * buffer;
        store(m + i, momentum, part);
        broadcast(buffer, 0.0F);
      }
      store(b + i, buffer, part);
      store(p + i, value - c.learning_rate * (c.share * push + c.momentum_now * momentum), part);
    });
  }
};

template <bool Momentum>
struct sign_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(float* p, const float* g, float* u, std::int64_t count, sign_coefficients c) {
    const float rest = 1.0F - c.momentum;
    const float kept = 1.0F - c.learning_rate * c.weight_decay;
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      CAUSEWAY_EXACT_BODY
      f32x16 value, direction;
      load(value, p + i, part);
      load(direction, g + i, part);
      direction *= c.gradient_scale;
      if constexpr (Momentum) {
        f32x16 velocity;
        load(velocity, u + i, part);
        direction = c.momentum * velocity + rest * direction;
        store(u + i, direction, part);
      }
      f32x16 up, down, none;
      broadcast(none, 0.0F);
      broadcast(up, c.learning_rate);
      broadcast(down, -c.learning_rate);
      const f32x16 not_up = direction < none ? down : none;
      store(p + i, value * kept - (direction > none ? up : not_up), part);
    });
  }
};

}  // namespace detail

CAUSEWAY_DECL void delayed_nesterov_update(float* p, const float* g, float* m, float* b, std::int64_t count, bool refresh,
                                           const delayed_nesterov_coefficients& c, simd_level level) {
  if (refresh) return detail::dispatch<detail::delayed_nesterov_kernel<true>>(level, p, g, m, b, count, c);
  detail::dispatch<detail::delayed_nesterov_kernel<false>>(level, p, g, m, b, count, c);
}

CAUSEWAY_DECL void sign_update(float* p, const float* g, std::int64_t count, const sign_coefficients& c, simd_level level) {
  detail::dispatch<detail::sign_kernel<false>>(level, p, g, static_cast<float*>(nullptr), count, c);
}

CAUSEWAY_DECL void sign_momentum_update(float* p, const float* g, float* u, std::int64_t count, const sign_coefficients& c,
                                        simd_level level) {
  detail::dispatch<detail::sign_kernel<true>>(level, p, g, u, count, c);
}

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_IMPL_OUTER_UPDATE_IPP
