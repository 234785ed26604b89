// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_BODIES_MEAN_BODIES_HPP
#define CAUSEWAY_CUDA_BODIES_MEAN_BODIES_HPP

// What collective/aggregator.hpp makes of a sum of messages, with the same bits: means and signs.

#include <causeway/compress/scale.hpp>
#include <causeway/config/config.hpp>
#include <causeway/cuda/bodies/codec_bodies.hpp>
#include <causeway/cuda/bodies/pack.hpp>

#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// y = factor · y, or of y / counts where there are counts and theirs is above 0; sets non_finite in *found where one is
/// not finite. Over the elements.
struct divide_body {
  float* y = nullptr;
  const float* counts = nullptr;
  float factor = 1.0F;
  std::uint32_t* found = nullptr;

  [[nodiscard]] bool aligned() const { return detail::on_packs(y, counts); }
  template <int N>
  CAUSEWAY_HD void run(std::int64_t i) const {
    float v[N], count[N] = {};
    detail::load(v, y + i);
    if (counts != nullptr) detail::load(count, counts + i);
    bool finite = true;
    for (int k = 0; k < N; ++k) {
      v[k] = detail::times(count[k] > 0.0F ? detail::over(v[k], count[k]) : v[k], factor);
      finite &= v[k] - v[k] == 0.0F;
    }
    detail::store(y + i, v);
    if (!finite) detail::mark(found, compress::detail::decoding::non_finite);
  }
};

/// y = -1, 0 or 1; 0 for NaN.
struct signs_body {
  float* y = nullptr;

  [[nodiscard]] bool aligned() const { return detail::on_packs(y); }
  template <int N>
  CAUSEWAY_HD void run(std::int64_t i) const {
    float v[N];
    detail::load(v, y + i);
    for (float& e : v) e = e > 0.0F ? 1.0F : e < 0.0F ? -1.0F : 0.0F;
    detail::store(y + i, v);
  }
};

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_BODIES_MEAN_BODIES_HPP
