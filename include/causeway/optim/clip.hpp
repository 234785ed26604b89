// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_OPTIM_CLIP_HPP
#define CAUSEWAY_OPTIM_CLIP_HPP

// Clipping by the global norm (Pascanu et al. 2013). The norm is a sum in f64 in a fixed order that depends on neither
// threads nor processor; the factor is folded into the optimizer's gradient_scale, so gradients are not written again.

#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/reduce.hpp>

#include <cmath>
#include <span>
#include <string>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace optim {

/// The Euclidean norm of all gradients. Reads 4 bytes an element. NaN or infinite if a gradient is, or if the norm itself
/// is beyond f32.
inline float global_norm(thread_pool& pool, std::span<const float> gradients) {
  return static_cast<float>(kernels::euclidean_norm(pool, gradients));
}

/// The factor that brings `norm` down to `max_norm`: at most 1, and 1 where clipping is off (max_norm <= 0).
constexpr float clip_scale(float norm, float max_norm) noexcept {
  return max_norm > 0.0F && norm > max_norm ? max_norm / norm : 1.0F;
}

/// Fails with errc::non_finite when `norm` is NaN or infinite; such gradients must not reach an optimizer.
inline result<void> check_norm(float norm, std::string where) {
  if (std::isfinite(norm)) return {};
  return fail(errc::non_finite, std::move(where),
              "the gradient norm is not finite; skip the step, or lower the learning rate or lengthen its warm-up");
}

}}}  // namespace causeway::CAUSEWAY_ABI::optim

#endif  // CAUSEWAY_OPTIM_CLIP_HPP
