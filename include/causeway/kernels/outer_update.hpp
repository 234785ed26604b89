// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_OUTER_UPDATE_HPP
#define CAUSEWAY_KERNELS_OUTER_UPDATE_HPP

// Updates that outer optimizers make beside those of kernels/optimizer.hpp, in one pass over memory. Exact kernels as those
// are: the same bits on every processor. Padding (zero value, zero gradient, zero state) stays zero.

#include <causeway/config/config.hpp>
#include <causeway/kernels/targets.hpp>

#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

/// One push of delayed Nesterov. `share` is 1/N, `momentum_now` what the momentum is multiplied by in the movement.
struct delayed_nesterov_coefficients {
  float learning_rate = 0.7F;
  float share = 1.0F;
  float beta = 0.9F;
  float momentum_now = 0.0F;
  float gradient_scale = 1.0F;
};

/// One step of sign descent.
struct sign_coefficients {
  float learning_rate = 1e-3F;
  float momentum = 0.0F;
  float weight_decay = 0.0F;  ///< decoupled: p is multiplied by 1 - lr·wd
  float gradient_scale = 1.0F;
};

/// b += g; p -= lr·(share·g + momentum_now·m). With `refresh` first m = beta·m + share·b, and b = 0 afterwards. Moves 24
/// bytes an element, or 28. On the calling thread.
CAUSEWAY_DECL void delayed_nesterov_update(float* p, const float* g, float* m, float* b, std::int64_t count, bool refresh,
                                           const delayed_nesterov_coefficients& c, simd_level level = detect_simd_level());

/// p = p·(1 - lr·wd) - lr·sign(g), where sign(0) and the sign of a NaN are 0. Moves 12 bytes an element. On the calling
/// thread.
CAUSEWAY_DECL void sign_update(float* p, const float* g, std::int64_t count, const sign_coefficients& c,
                               simd_level level = detect_simd_level());

/// u = mu·u + (1 - mu)·g; p = p·(1 - lr·wd) - lr·sign(u). Moves 20 bytes an element. On the calling thread.
CAUSEWAY_DECL void sign_momentum_update(float* p, const float* g, float* u, std::int64_t count, const sign_coefficients& c,
                                        simd_level level = detect_simd_level());

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

#ifndef CAUSEWAY_COMPILED
#include <causeway/kernels/impl/outer_update.ipp>
#endif

#endif  // CAUSEWAY_KERNELS_OUTER_UPDATE_HPP
