// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_BODIES_UPDATE_BODIES_HPP
#define CAUSEWAY_CUDA_BODIES_UPDATE_BODIES_HPP

// Parameter updates and vector arithmetic, element by element, one rounding an operation: the bits of
// kernels/optimizer.hpp, kernels/outer_update.hpp, kernels/rows.hpp and kernels/elementwise.hpp. So a replica on a GPU and
// one on a CPU that apply the same update to the same numbers stay equal. Subnormal numbers are kept: do not build with
// nvcc's --use_fast_math or -ftz.

#include <causeway/config/config.hpp>
#include <causeway/cuda/bodies/pack.hpp>
#include <causeway/kernels/optimizer.hpp>
#include <causeway/kernels/outer_update.hpp>
#include <causeway/kernels/rows.hpp>
#include <causeway/tensor/dtype.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// One step of AdamW on f32 masters. `copy`, when not null, receives the new values in bf16, for the matrix products of the
/// next step. `gradient_scale`, when not null, is one number on the device that multiplies the coefficients' (clipping), so
/// that the host need not wait for the norm.
struct adamw_body {
  float* p = nullptr;
  const float* g = nullptr;
  float* m = nullptr;
  float* v = nullptr;
  bf16* copy = nullptr;
  const float* gradient_scale = nullptr;
  kernels::detail::adamw_factors c{};

  adamw_body(float* value, const float* gradient, float* first, float* second, const kernels::adamw_coefficients& how,
             bf16* rounded = nullptr, const float* scale = nullptr)
      : p{value},
        g{gradient},
        m{first},
        v{second},
        copy{rounded},
        gradient_scale{scale},
        c{kernels::detail::factors_of(how)} {}

  [[nodiscard]] bool aligned() const { return detail::on_packs(p, m, v) && detail::on_packs(g) && detail::on_packs(copy); }
  template <int N>
  CAUSEWAY_HD void run(std::int64_t i) const {
    using detail::over, detail::root, detail::times;
    const float scale = gradient_scale == nullptr ? c.gradient_scale : times(c.gradient_scale, *gradient_scale);
    float value[N], gradient[N], first[N], second[N];
    detail::load(value, p + i);
    detail::load(gradient, g + i);
    detail::load(first, m + i);
    detail::load(second, v + i);
    for (int k = 0; k < N; ++k) {
      const float d = times(gradient[k], scale);
      first[k] = times(c.beta1, first[k]) + times(c.rest1, d);
      second[k] = times(c.beta2, second[k]) + times(c.rest2, times(d, d));
      const float spread = times(root(second[k]), c.root_scale) + c.epsilon;
      value[k] = times(value[k], c.decay) - times(c.step, over(first[k], spread));
    }
    detail::store(m + i, first);
    detail::store(v + i, second);
    detail::store(p + i, value);
    if (copy != nullptr) detail::store(copy + i, value);
  }
};

/// Where weight decay ends and starts again in flat buffers, in order; what is before the first is decayed. Given to a
/// kernel by value, so a step is one launch however many pieces there are: a small model would wait for launches.
struct decay_turns {
  static constexpr std::size_t most = 512;  // even; a kernel may be given 4 KiB

  /// `from`: the element that indices count from. Turns are whole packs from there, as segments are.
  decay_turns(std::span<const std::int64_t> turns, std::int64_t from) : count{static_cast<std::uint32_t>(turns.size())} {
    CAUSEWAY_EXPECT(turns.size() <= most);
    for (std::size_t t = 0; t < turns.size(); ++t) {
      CAUSEWAY_EXPECT((turns[t] - from) % pack_width == 0);
      packs[t] = static_cast<std::uint32_t>((turns[t] - from) / pack_width);
    }
  }

  [[nodiscard]] CAUSEWAY_HD bool decays(std::int64_t i) const {
    const auto pack = static_cast<std::uint32_t>(i / pack_width);
    std::uint32_t passed = 0, end = count;
    while (passed < end) {
      const std::uint32_t middle = (passed + end) / 2;
      if (packs[middle] <= pack) {
        passed = middle + 1;
      } else {
        end = middle;
      }
    }
    return passed % 2 == 0;
  }

  std::uint32_t packs[most] = {};
  std::uint32_t count = 0;
};

/// adamw_body, without weight decay behind every second turn.
struct turning_adamw_body {
  adamw_body update;
  decay_turns turns;

  [[nodiscard]] bool aligned() const { return update.aligned(); }
  template <int N>
  CAUSEWAY_HD void run(std::int64_t i) const {
    adamw_body here = update;
    if (!turns.decays(i)) here.c.decay = 1.0F;
    here.run<N>(i);
  }
};

/// u = mu·u + g + wd·p; p -= lr·u, or with `Nesterov` p -= lr·(g + wd·p + mu·u): kernels::momentum_update and
/// kernels::nesterov_update. The outer step of DiLoCo is the latter.
template <bool Nesterov>
struct momentum_body {
  float* p = nullptr;
  const float* g = nullptr;
  float* u = nullptr;
  kernels::sgd_coefficients c{};

  [[nodiscard]] bool aligned() const { return detail::on_packs(p, u) && detail::on_packs(g); }
  template <int N>
  CAUSEWAY_HD void run(std::int64_t i) const {
    using detail::times;
    float value[N], gradient[N], velocity[N];
    detail::load(value, p + i);
    detail::load(gradient, g + i);
    detail::load(velocity, u + i);
    for (int k = 0; k < N; ++k) {
      float d = times(gradient[k], c.gradient_scale);
      if (c.weight_decay != 0.0F) d += times(c.weight_decay, value[k]);
      velocity[k] = times(c.momentum, velocity[k]) + d;
      value[k] -= times(c.learning_rate, Nesterov ? d + times(c.momentum, velocity[k]) : velocity[k]);
    }
    detail::store(u + i, velocity);
    detail::store(p + i, value);
  }
};

/// p -= lr·(g + wd·p): kernels::sgd_update.
struct sgd_body {
  float* p = nullptr;
  const float* g = nullptr;
  kernels::sgd_coefficients c{};

  [[nodiscard]] bool aligned() const { return detail::on_packs(p) && detail::on_packs(g); }
  template <int N>
  CAUSEWAY_HD void run(std::int64_t i) const {
    using detail::times;
    float value[N], gradient[N];
    detail::load(value, p + i);
    detail::load(gradient, g + i);
    for (int k = 0; k < N; ++k) {
      float d = times(gradient[k], c.gradient_scale);
      if (c.weight_decay != 0.0F) d += times(c.weight_decay, value[k]);
      value[k] -= times(c.learning_rate, d);
    }
    detail::store(p + i, value);
  }
};

/// The first half of Muon's step: u = mu·u + g; x = g + mu·u: kernels::muon_momentum.
struct muon_momentum_body {
  float* x = nullptr;
  const float* g = nullptr;
  float* u = nullptr;
  float momentum = 0.95F;
  float gradient_scale = 1.0F;

  [[nodiscard]] bool aligned() const { return detail::on_packs(x, u) && detail::on_packs(g); }
  template <int N>
  CAUSEWAY_HD void run(std::int64_t i) const {
    using detail::times;
    float gradient[N], velocity[N];
    detail::load(gradient, g + i);
    detail::load(velocity, u + i);
    for (int k = 0; k < N; ++k) {
      const float d = times(gradient[k], gradient_scale);
      velocity[k] = times(momentum, velocity[k]) + d;
      gradient[k] = d + times(momentum, velocity[k]);
    }
    detail::store(u + i, velocity);
    detail::store(x + i, gradient);
  }
};

/// y = alpha · y + beta · x: kernels::blend.
struct blend_body {
  float* y = nullptr;
  float alpha = 1.0F;
  const float* x = nullptr;
  float beta = 1.0F;

  [[nodiscard]] bool aligned() const { return detail::on_packs(y) && detail::on_packs(x); }
  template <int N>
  CAUSEWAY_HD void run(std::int64_t i) const {
    float v[N], w[N];
    detail::load(v, y + i);
    detail::load(w, x + i);
    for (int k = 0; k < N; ++k) v[k] = detail::times(alpha, v[k]) + detail::times(beta, w[k]);
    detail::store(y + i, v);
  }
};

/// kernels::compensate.
struct compensate_body {
  float* y = nullptr;
  const float* shared = nullptr;
  const float* at_send = nullptr;
  kernels::compensation c{};

  [[nodiscard]] bool aligned() const { return detail::on_packs(y) && detail::on_packs(shared, at_send); }
  template <int N>
  CAUSEWAY_HD void run(std::int64_t i) const {
    using detail::times;
    float value[N], target[N], sent[N];
    detail::load(value, y + i);
    detail::load(target, shared + i);
    detail::load(sent, at_send + i);
    for (int k = 0; k < N; ++k) {
      const float g = detail::over(sent[k] - value[k], c.steps);
      const float bend = times(times(times(c.lambda, g), g), target[k] - sent[k]);
      value[k] = target[k] - times(c.steps, g + bend);
    }
    detail::store(y + i, value);
  }
};

/// kernels::gossip_update.
struct gossip_body {
  float* shared = nullptr;
  float* velocity = nullptr;
  const float* mean = nullptr;
  const float* mean_shared = nullptr;
  kernels::gossip_coefficients c{};

  [[nodiscard]] bool aligned() const { return detail::on_packs(shared, velocity) && detail::on_packs(mean, mean_shared); }
  template <int N>
  CAUSEWAY_HD void run(std::int64_t i) const {
    using detail::times;
    float value[N], v[N], step[N], target[N];
    detail::load(value, shared + i);
    detail::load(v, velocity + i);
    detail::load(step, mean + i);
    detail::load(target, mean_shared + i);
    for (int k = 0; k < N; ++k) {
      v[k] = times(c.alpha, v[k]) - times(c.beta, step[k]) + times(c.gamma, target[k] - value[k]);
      value[k] += v[k];
    }
    detail::store(velocity + i, v);
    detail::store(shared + i, value);
  }
};

/// y = x where counts are not 0.
struct take_over_body {
  float* y = nullptr;
  const float* x = nullptr;
  const float* counts = nullptr;

  [[nodiscard]] bool aligned() const { return detail::on_packs(y) && detail::on_packs(x, counts); }
  template <int N>
  CAUSEWAY_HD void run(std::int64_t i) const {
    float v[N], came[N], weight[N];
    detail::load(v, y + i);
    detail::load(came, x + i);
    detail::load(weight, counts + i);
    for (int k = 0; k < N; ++k) {
      if (weight[k] != 0.0F) v[k] = came[k];
    }
    detail::store(y + i, v);
  }
};

/// y = a - b.
struct difference_body {
  float* y = nullptr;
  const float* a = nullptr;
  const float* b = nullptr;

  [[nodiscard]] bool aligned() const { return detail::on_packs(y) && detail::on_packs(a, b); }
  template <int N>
  CAUSEWAY_HD void run(std::int64_t i) const {
    float v[N], w[N];
    detail::load(v, a + i);
    detail::load(w, b + i);
    for (int k = 0; k < N; ++k) v[k] -= w[k];
    detail::store(y + i, v);
  }
};

/// y *= alpha.
struct scale_body {
  float* y = nullptr;
  float alpha = 1.0F;

  [[nodiscard]] bool aligned() const { return detail::on_packs(y); }
  template <int N>
  CAUSEWAY_HD void run(std::int64_t i) const {
    float v[N];
    detail::load(v, y + i);
    for (float& e : v) e = detail::times(alpha, e);
    detail::store(y + i, v);
  }
};

/// y = value.
struct fill_body {
  float* y = nullptr;
  float value = 0.0F;

  [[nodiscard]] bool aligned() const { return detail::on_packs(y); }
  template <int N>
  CAUSEWAY_HD void run(std::int64_t i) const {
    float v[N];
    for (float& e : v) e = value;
    detail::store(y + i, v);
  }
};

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_BODIES_UPDATE_BODIES_HPP
