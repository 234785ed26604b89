// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_BODIES_ORTHOGONALISE_BODIES_HPP
#define CAUSEWAY_CUDA_BODIES_ORTHOGONALISE_BODIES_HPP

// What Muon's orthogonalisation does between its products (kernels/newton_schulz.hpp), with operands of f32 or bf16.

#include <causeway/config/config.hpp>
#include <causeway/cuda/bodies/pack.hpp>
#include <causeway/kernels/newton_schulz.hpp>

#include <cmath>
#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// to = x / (|x| + floor), where *squares is the sum of the squares of x. `to` may be x.
template <class T>
struct divide_by_norm_body {
  const float* x = nullptr;
  const double* squares = nullptr;
  T* to = nullptr;

  [[nodiscard]] bool aligned() const { return detail::on_packs(x) && detail::on_packs(to); }
  template <int N>
  CAUSEWAY_HD void run(std::int64_t i) const {
    constexpr kernels::newton_schulz_coefficients c{};
    const float factor = detail::over(1.0F, static_cast<float>(std::sqrt(*squares)) + c.floor);
    float v[N];
    detail::load(v, x + i);
    for (int k = 0; k < N; ++k) v[k] = detail::times(v[k], factor);
    detail::store(to + i, v);
  }
};

/// a = linear I + cubic a + quintic aa, of side x side values.
template <class T>
struct newton_schulz_body {
  T* a = nullptr;
  const T* aa = nullptr;
  std::int64_t side = 1;

  [[nodiscard]] bool aligned() const { return detail::on_packs(a) && detail::on_packs(aa); }
  template <int N>
  CAUSEWAY_HD void run(std::int64_t i) const {
    constexpr kernels::newton_schulz_coefficients c{};
    float v[N], w[N];
    detail::load(v, a + i);
    detail::load(w, aa + i);
    for (int k = 0; k < N; ++k) {
      v[k] = detail::times(c.cubic, v[k]) + detail::times(c.quintic, w[k]);
      if ((i + k) / side == (i + k) % side) v[k] += c.linear;
    }
    detail::store(a + i, v);
  }
};

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_BODIES_ORTHOGONALISE_BODIES_HPP
