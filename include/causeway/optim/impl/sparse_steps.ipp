// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_OPTIM_IMPL_SPARSE_STEPS_IPP
#define CAUSEWAY_OPTIM_IMPL_SPARSE_STEPS_IPP

#include <causeway/optim/sparse_steps.hpp>

#include <algorithm>
#include <cmath>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace optim {

CAUSEWAY_DECL void sparse_sgd::step(thread_pool& pool, parameter_view view, step_options step) {
  const bool momentum = options_.momentum != 0.0F;
  CAUSEWAY_EXPECT(!momentum || velocity_.size() == static_cast<std::int64_t>(view.values.size()));
  detail::for_all_pieces(pool, view, [&](std::int64_t begin, std::int64_t count, bool decay) {
    const float weight_decay = decay ? options_.weight_decay : 0.0F;
    for (std::int64_t i = begin; i < begin + count; ++i) {
      const float g = view.gradients[static_cast<std::size_t>(i)];
      if (g == 0) continue;
      float& p = view.values[static_cast<std::size_t>(i)];
      float u = step.gradient_scale * g + weight_decay * p;
      if (momentum) u = velocity_.data()[i] = options_.momentum * velocity_.data()[i] + u;
      p -= step.learning_rate * u;
    }
  });
}

CAUSEWAY_DECL void sparse_adam::step(thread_pool& pool, parameter_view view, step_options step) {
  CAUSEWAY_EXPECT(state_.first.size() == static_cast<std::int64_t>(view.values.size()));
  if (std::all_of(view.gradients.begin(), view.gradients.end(), [](float g) { return g == 0; })) return;
  const kernels::adamw_coefficients c = state_.clock.advance(options_, step);
  detail::for_all_pieces(pool, view, [&](std::int64_t begin, std::int64_t count, bool decay) {
    const float weight_decay = decay ? c.weight_decay : 0.0F;
    for (std::int64_t i = begin; i < begin + count; ++i) {
      float g = view.gradients[static_cast<std::size_t>(i)];
      if (g == 0) continue;
      float& p = view.values[static_cast<std::size_t>(i)];
      float &m = state_.first.data()[i], &v = state_.second.data()[i];
      g = c.gradient_scale * g + weight_decay * p;
      m = c.beta1 * m + (1 - c.beta1) * g;
      v = c.beta2 * v + (1 - c.beta2) * g * g;
      p -= c.learning_rate * (m / c.bias_correction1) / (std::sqrt(v / c.bias_correction2) + c.epsilon);
    }
  });
}

}}}  // namespace causeway::CAUSEWAY_ABI::optim

#endif  // CAUSEWAY_OPTIM_IMPL_SPARSE_STEPS_IPP
