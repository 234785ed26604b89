// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_ACTIVATION_HPP
#define CAUSEWAY_KERNELS_ACTIVATION_HPP

// GELU in its tanh form (Hendrycks and Gimpel 2016), SwiGLU (Shazeer 2020), and the gradient of a bias. Backward passes
// compute the inner function again from the saved input, which is cheaper than reading it back from memory.

#include <causeway/config/config.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/column_sum.hpp>
#include <causeway/kernels/convert.hpp>
#include <causeway/kernels/simd_math.hpp>
#include <causeway/kernels/targets.hpp>
#include <causeway/tensor/scratch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

namespace detail {

// 0.5·x·(1 + tanh(u)) is x·sigmoid(2u), which keeps its relative accuracy where tanh(u) nears -1.
inline constexpr float gelu_double_scale = 1.5957691216057308F;  // 2·sqrt(2/pi)
inline constexpr float gelu_cube_factor = 0.044715F;

template <class Floats>
CAUSEWAY_ALWAYS_INLINE void gelu_gate(Floats& gate, const Floats& x) {
  gate = x * (-gelu_double_scale * gelu_cube_factor * (x * x) - gelu_double_scale);
  sigmoid_of_minus(gate);
}

struct gelu_forward_kernel {
  static constexpr bool exact = false;
  template <class T>
  CAUSEWAY_ALWAYS_INLINE static void run(const T* x, T* y, std::int64_t count) {
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      f32x16 v, gate;
      load(v, x + i, part);
      gelu_gate(gate, v);
      store(y + i, v * gate, part);
    });
  }
};

struct gelu_backward_kernel {
  static constexpr bool exact = false;
  template <class T>
  CAUSEWAY_ALWAYS_INLINE static void run(const T* x, const T* dy, T* dx, std::int64_t count) {
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      f32x16 v, gate, d;
      load(v, x + i, part);
      load(d, dy + i, part);
      gelu_gate(gate, v);
      const f32x16 slope = 3.0F * gelu_double_scale * gelu_cube_factor * (v * v) + gelu_double_scale;
      store(dx + i, d * (gate + v * slope * (gate * (1.0F - gate))), part);
    });
  }
};

struct swiglu_forward_kernel {
  static constexpr bool exact = false;
  template <class T>
  CAUSEWAY_ALWAYS_INLINE static void run(const T* gate_up, T* y, std::int64_t rows, std::int64_t hidden) {
    for (std::int64_t row = 0; row < rows; ++row, gate_up += 2 * hidden, y += hidden) {
      for_lanes(hidden, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
        f32x16 gate, up;
        load(gate, gate_up + i, part);
        load(up, gate_up + hidden + i, part);
        f32x16 s = -gate;
        sigmoid_of_minus(s);
        store(y + i, gate * s * up, part);
      });
    }
  }
};

struct swiglu_backward_kernel {
  static constexpr bool exact = false;
  template <class T>
  CAUSEWAY_ALWAYS_INLINE static void run(const T* gate_up, const T* dy, T* dgate_up, std::int64_t rows,
                                         std::int64_t hidden) {
    for (std::int64_t row = 0; row < rows; ++row, gate_up += 2 * hidden, dgate_up += 2 * hidden, dy += hidden) {
      for_lanes(hidden, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
        f32x16 gate, up, d;
        load(gate, gate_up + i, part);
        load(up, gate_up + hidden + i, part);
        load(d, dy + i, part);
        f32x16 s = -gate;
        sigmoid_of_minus(s);
        store(dgate_up + i, d * up * (s + gate * (s * (1.0F - s))), part);
        store(dgate_up + hidden + i, d * (gate * s), part);
      });
    }
  }
};

}  // namespace detail

/// y = gelu(x), the tanh form. Moves 8 bytes an element (f32), 4 (bf16). y may be x.
template <Activation T>
void gelu_forward(thread_pool& pool, const T* x, T* y, std::int64_t count, simd_level level = detect_simd_level()) {
  detail::for_elements(pool, count, [&](index_range part) {
    detail::dispatch<detail::gelu_forward_kernel>(level, x + part.begin, y + part.begin, part.size());
  });
}

/// dx = dy · gelu'(x). Moves 12 bytes an element (f32), 6 (bf16). dx may be dy.
template <Activation T>
void gelu_backward(thread_pool& pool, const T* x, const T* dy, T* dx, std::int64_t count,
                   simd_level level = detect_simd_level()) {
  detail::for_elements(pool, count, [&](index_range part) {
    detail::dispatch<detail::gelu_backward_kernel>(level, x + part.begin, dy + part.begin, dx + part.begin, part.size());
  });
}

/// y = silu(gate) · up, with gate_up [rows, 2·hidden] = [gate | up] and y [rows, hidden]. Moves 12 bytes an element of y
/// (f32), 6 (bf16).
template <Activation T>
void swiglu_forward(thread_pool& pool, const T* gate_up, T* y, std::int64_t rows, std::int64_t hidden,
                    simd_level level = detect_simd_level()) {
  detail::for_rows(pool, rows, hidden, [&](index_range part) {
    detail::dispatch<detail::swiglu_forward_kernel>(level, gate_up + part.begin * 2 * hidden, y + part.begin * hidden,
                                                    part.size(), hidden);
  });
}

/// The gradient of swiglu_forward; dgate_up may be gate_up. Moves 20 bytes an element of dy (f32), 10 (bf16).
template <Activation T>
void swiglu_backward(thread_pool& pool, const T* gate_up, const T* dy, T* dgate_up, std::int64_t rows, std::int64_t hidden,
                     simd_level level = detect_simd_level()) {
  detail::for_rows(pool, rows, hidden, [&](index_range part) {
    detail::dispatch<detail::swiglu_backward_kernel>(level, gate_up + part.begin * 2 * hidden, dy + part.begin * hidden,
                                                     dgate_up + part.begin * 2 * hidden, part.size(), hidden);
  });
}

/// dbias[columns] += the column sums of dy [rows, columns]. Reads 4 bytes an element (f32), 2 (bf16). Goes through one
/// partial sum per block of rows, so the result does not depend on the number of threads.
template <Activation T>
void bias_gradient(thread_pool& pool, scratch& memory, const T* dy, float* dbias, std::int64_t rows, std::int64_t columns,
                   simd_level level = detect_simd_level()) {
  const std::int64_t blocks = detail::row_blocks(rows);
  const std::int64_t stride = (columns + 15) / 16 * 16;  // blocks write different cache lines
  auto frame = memory.open();
  auto* partials = frame.template take<float>(static_cast<std::size_t>(blocks * stride));
  detail::for_rows(pool, blocks, (rows + blocks - 1) / blocks * columns, [&](index_range part) {
    for (std::int64_t block = part.begin; block < part.end; ++block) {
      const index_range r = share_of(rows, static_cast<unsigned>(block), static_cast<unsigned>(blocks));
      std::fill_n(partials + block * stride, stride, 0.0F);
      detail::dispatch<detail::column_sum_kernel>(level, dy + r.begin * columns, partials + block * stride, r.size(),
                                                  columns, columns);
    }
  });
  detail::dispatch<detail::column_sum_kernel>(level, static_cast<const float*>(partials), dbias, blocks, columns, stride);
}

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

CAUSEWAY_FAST_KERNEL((const float*, float*, std::int64_t), gelu_forward_kernel)
CAUSEWAY_FAST_KERNEL((const float*, const float*, float*, std::int64_t), gelu_backward_kernel)
CAUSEWAY_FAST_KERNEL((const float*, float*, std::int64_t, std::int64_t), swiglu_forward_kernel)
CAUSEWAY_FAST_KERNEL((const float*, const float*, float*, std::int64_t, std::int64_t), swiglu_backward_kernel)
CAUSEWAY_FAST_KERNEL((const bf16*, bf16*, std::int64_t), gelu_forward_kernel)
CAUSEWAY_FAST_KERNEL((const bf16*, const bf16*, bf16*, std::int64_t), gelu_backward_kernel)
CAUSEWAY_FAST_KERNEL((const bf16*, bf16*, std::int64_t, std::int64_t), swiglu_forward_kernel)
CAUSEWAY_FAST_KERNEL((const bf16*, const bf16*, bf16*, std::int64_t, std::int64_t), swiglu_backward_kernel)

#endif  // CAUSEWAY_KERNELS_ACTIVATION_HPP
