// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_OPTIM_ADAM_STATE_HPP
#define CAUSEWAY_OPTIM_ADAM_STATE_HPP

// What Adam and its kin keep of each parameter, and how a gradient moves it.

#include <causeway/config/config.hpp>
#include <causeway/kernels/simd_math.hpp>
#include <causeway/kernels/targets.hpp>
#include <causeway/optim/optimizer.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace optim { namespace detail {

/// Both moments, in the layout of the parameters, and the steps that were made. 8 bytes a parameter.
template <class Clock>
struct adam_state {
  state_buffer first;
  state_buffer second;
  Clock clock;

  void reset(std::int64_t length) {
    first = state_buffer{length};
    second = state_buffer{length};
    clock = {};
  }

  [[nodiscard]] std::array<std::span<float>, 2> moments() noexcept {
    const auto length = static_cast<std::size_t>(first.size());
    return {std::span{first.data(), length}, std::span{second.data(), length}};
  }

  template <class Archive>
  void serialize(Archive& ar) {
    ar(first, second, clock);
  }
};

/// gradient = gradient_scale·g; m = beta1·m + rest1·gradient; v = beta2·v + rest2·gradient², of the lanes at `i`: what
/// optimizers of other steps than AdamW's begin with. Leaves the gradient, m and the root of v.
template <class Part, class Factors>
CAUSEWAY_ALWAYS_INLINE void move_moments(kernels::detail::f32x16& gradient, kernels::detail::f32x16& first,
                                         kernels::detail::f32x16& root, const float* g, float* m, float* v, std::int64_t i,
                                         Part part, const Factors& c) {
  CAUSEWAY_EXACT_BODY
  using kernels::detail::load, kernels::detail::store;
  load(gradient, g + i, part);
  load(first, m + i, part);
  load(root, v + i, part);
  gradient *= c.gradient_scale;
  first = c.beta1 * first + c.rest1 * gradient;
  root = c.beta2 * root + c.rest2 * (gradient * gradient);
  store(m + i, first, part);
  store(v + i, root, part);
  kernels::detail::square_root(root);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::optim::detail

#endif  // CAUSEWAY_OPTIM_ADAM_STATE_HPP
