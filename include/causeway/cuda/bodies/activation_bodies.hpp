// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_BODIES_ACTIVATION_BODIES_HPP
#define CAUSEWAY_CUDA_BODIES_ACTIVATION_BODIES_HPP

// GELU, SwiGLU, rotary embedding and sums of activations, element by element: the formulas of kernels/activation.hpp and
// kernels/rotary.hpp. Products and sums may be fused, so results agree with the CPU's to rounding, not to the bit; `add`
// and `convert` have one operation and do.

#include <causeway/config/config.hpp>
#include <causeway/cuda/bodies/pack.hpp>

#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

namespace detail {

inline constexpr float gelu_double_scale = 1.5957691216057308F;  // 2·sqrt(2/pi)
inline constexpr float gelu_cube_factor = 0.044715F;

/// The tanh form is x · gate(x).
CAUSEWAY_HD inline float gelu_gate(float x) {
  return sigmoid_of_minus(x * (-gelu_double_scale * gelu_cube_factor * (x * x) - gelu_double_scale));
}

CAUSEWAY_HD inline float gelu_slope(float x) {
  const float gate = gelu_gate(x);
  const float slope = 3.0F * gelu_double_scale * gelu_cube_factor * (x * x) + gelu_double_scale;
  return gate + x * slope * (gate * (1.0F - gate));
}

}  // namespace detail

/// y = gelu(x). y may be x.
template <class T>
struct gelu_forward_body {
  const T* x = nullptr;
  T* y = nullptr;

  [[nodiscard]] bool aligned() const { return detail::on_packs(x, y); }
  template <int N>
  CAUSEWAY_HD void run(std::int64_t i) const {
    float v[N];
    detail::load(v, x + i);
    for (float& e : v) e *= detail::gelu_gate(e);
    detail::store(y + i, v);
  }
};

/// dx = dy · gelu'(x). dx may be dy.
template <class T>
struct gelu_backward_body {
  const T* x = nullptr;
  const T* dy = nullptr;
  T* dx = nullptr;

  [[nodiscard]] bool aligned() const { return detail::on_packs(x, dy, dx); }
  template <int N>
  CAUSEWAY_HD void run(std::int64_t i) const {
    float v[N], d[N];
    detail::load(v, x + i);
    detail::load(d, dy + i);
    for (int k = 0; k < N; ++k) d[k] *= detail::gelu_slope(v[k]);
    detail::store(dx + i, d);
  }
};

/// y = silu(gate) · up: gate_up [rows, 2·hidden] = [gate | up], y [rows, hidden]; over the elements of y.
template <class T>
struct swiglu_forward_body {
  const T* gate_up = nullptr;
  T* y = nullptr;
  std::int64_t hidden = 0;

  [[nodiscard]] bool aligned() const { return hidden % pack_width == 0 && detail::on_packs(gate_up, y); }
  template <int N>
  CAUSEWAY_HD void run(std::int64_t i) const {
    const T* const from = gate_up + i + i / hidden * hidden;
    float gate[N], up[N];
    detail::load(gate, from);
    detail::load(up, from + hidden);
    for (int k = 0; k < N; ++k) up[k] *= gate[k] * detail::sigmoid_of_minus(-gate[k]);
    detail::store(y + i, up);
  }
};

/// The gradient of swiglu_forward_body, over the elements of dy; dgate_up may be gate_up.
template <class T>
struct swiglu_backward_body {
  const T* gate_up = nullptr;
  const T* dy = nullptr;
  T* dgate_up = nullptr;
  std::int64_t hidden = 0;

  [[nodiscard]] bool aligned() const { return hidden % pack_width == 0 && detail::on_packs(gate_up, dy, dgate_up); }
  template <int N>
  CAUSEWAY_HD void run(std::int64_t i) const {
    const std::int64_t at = i + i / hidden * hidden;
    float gate[N], up[N], d[N];
    detail::load(gate, gate_up + at);
    detail::load(up, gate_up + at + hidden);
    detail::load(d, dy + i);
    for (int k = 0; k < N; ++k) {
      const float s = detail::sigmoid_of_minus(-gate[k]);
      up[k] *= d[k] * (s + gate[k] * (s * (1.0F - s)));
      gate[k] = d[k] * (gate[k] * s);
    }
    detail::store(dgate_up + at, up);
    detail::store(dgate_up + at + hidden, gate);
  }
};

/// y = a + b; y may be a or b. The bits of kernels::add.
template <class T>
struct add_body {
  const T* a = nullptr;
  const T* b = nullptr;
  T* y = nullptr;

  [[nodiscard]] bool aligned() const { return detail::on_packs(a, b, y); }
  template <int N>
  CAUSEWAY_HD void run(std::int64_t i) const {
    float v[N], w[N];
    detail::load(v, a + i);
    detail::load(w, b + i);
    for (int k = 0; k < N; ++k) v[k] += w[k];
    detail::store(y + i, v);
  }
};

/// out = in, rounded to nearest even. The bits of kernels::convert.
template <class In, class Out>
struct convert_body {
  const In* in = nullptr;
  Out* out = nullptr;

  [[nodiscard]] bool aligned() const { return detail::on_packs(in, out); }
  template <int N>
  CAUSEWAY_HD void run(std::int64_t i) const {
    float v[N];
    detail::load(v, in + i);
    detail::store(out + i, v);
  }
};

/// Rotates `heads` contiguous heads of every row in place, by the angles of a kernels::rotary_table copied to the device;
/// element i of a head is paired with i + half. Over rows · heads · half pairs, `sign` is -1 for the inverse, which is the
/// gradient. `x` points at the first head of row 0, row b·positions+t is `stride` elements further for each row.
template <class T>
struct rotary_body {
  const float* cosine = nullptr;
  const float* sine = nullptr;
  T* x = nullptr;
  std::int64_t positions = 1;
  std::int64_t stride = 0;
  std::int64_t heads = 1;
  std::int64_t half = 1;
  float sign = 1.0F;

  [[nodiscard]] bool aligned() const {
    return half % pack_width == 0 && stride % pack_width == 0 && detail::on_packs(cosine, sine) && detail::on_packs(x);
  }
  template <int N>
  CAUSEWAY_HD void run(std::int64_t i) const {
    const std::int64_t pair = i % half, head = i / half % heads, row = i / half / heads;
    const std::int64_t angle = row % positions * half + pair;
    T* const at = x + row * stride + head * 2 * half + pair;
    float first[N], second[N], c[N], s[N];
    detail::load(first, at);
    detail::load(second, at + half);
    detail::load(c, cosine + angle);
    detail::load(s, sine + angle);
    for (int k = 0; k < N; ++k) {
      const float f = first[k];
      first[k] = f * c[k] - second[k] * (sign * s[k]);
      second[k] = second[k] * c[k] + f * (sign * s[k]);
    }
    detail::store(at, first);
    detail::store(at + half, second);
  }
};

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_BODIES_ACTIVATION_BODIES_HPP
