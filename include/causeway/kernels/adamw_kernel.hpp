// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_ADAMW_KERNEL_HPP
#define CAUSEWAY_KERNELS_ADAMW_KERNEL_HPP

// AdamW over one piece, for those who write other things along with it.

#include <causeway/config/config.hpp>
#include <causeway/kernels/simd_math.hpp>
#include <causeway/kernels/targets.hpp>

#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels { namespace detail {

/// `c`: adamw_factors, which kernels/optimizer.hpp has beside what includes this. `copies`: the new values once more, in
/// other types.
struct adamw_kernel {
  static constexpr bool exact = true;
  template <class Factors, class... To>
  CAUSEWAY_ALWAYS_INLINE static void run(float* p, const float* g, float* m, float* v, std::int64_t count, Factors c,
                                         To*... copies) {
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
      (store(copies + i, value, part), ...);
    });
  }
};

}}}}  // namespace causeway::CAUSEWAY_ABI::kernels::detail

#endif  // CAUSEWAY_KERNELS_ADAMW_KERNEL_HPP
