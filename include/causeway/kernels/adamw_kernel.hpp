// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_ADAMW_KERNEL_HPP
#define CAUSEWAY_KERNELS_ADAMW_KERNEL_HPP

// AdamW over one piece, for those who write other things along with it, and what other optimizers have in common with it.

#include <causeway/config/config.hpp>
#include <causeway/kernels/simd_math.hpp>
#include <causeway/kernels/targets.hpp>

#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels { namespace detail {

/// gradient = gradient_scale·g; m = beta1·m + rest1·gradient; v = beta2·v + rest2·gradient², of the lanes at `i`: what
/// Adam and its kin begin with. Leaves the gradient, m and the root of v.
template <class Part, class Factors>
CAUSEWAY_ALWAYS_INLINE void move_moments(f32x16& gradient, f32x16& first, f32x16& root, const float* g, float* m, float* v,
                                         std::int64_t i, Part part, const Factors& c) {
  CAUSEWAY_EXACT_BODY
  load(gradient, g + i, part);
  load(first, m + i, part);
  load(root, v + i, part);
  gradient *= c.gradient_scale;
  first = c.beta1 * first + c.rest1 * gradient;
  root = c.beta2 * root + c.rest2 * (gradient * gradient);
  store(m + i, first, part);
  store(v + i, root, part);
  square_root(root);
}

/// `c`: adamw_factors, which kernels/optimizer.hpp has beside what includes this. `copies`: the new values once more, in
/// other types.
struct adamw_kernel {
  static constexpr bool exact = true;
  template <class Factors, class... To>
  CAUSEWAY_ALWAYS_INLINE static void run(float* p, const float* g, float* m, float* v, std::int64_t count, Factors c,
                                         To*... copies) {
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      CAUSEWAY_EXACT_BODY
      f32x16 value, gradient, first, root;
      load(value, p + i, part);
      move_moments(gradient, first, root, g, m, v, i, part, c);
      value = value * c.decay - c.step * (first / (root * c.root_scale + c.epsilon));
      store(p + i, value, part);
      (store(copies + i, value, part), ...);
    });
  }
};

}}}}  // namespace causeway::CAUSEWAY_ABI::kernels::detail

#endif  // CAUSEWAY_KERNELS_ADAMW_KERNEL_HPP
