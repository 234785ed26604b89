// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_NORM_HPP
#define CAUSEWAY_KERNELS_NORM_HPP

// Layer normalisation (Ba et al. 2016) and RMS normalisation (Zhang and Sennrich 2019) over the rows of a matrix. A row is
// read from memory once and revisited in the first-level cache; the variance is taken about the mean, not from the sum of
// squares. The sums run in f32 lanes; the gradients of gain and bias go through one partial sum per block of rows, added in
// order, and blocks depend on the number of rows alone: the result is the same bits for any number of threads.

#include <causeway/config/config.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/column_sum.hpp>
#include <causeway/kernels/convert.hpp>
#include <causeway/kernels/simd_math.hpp>
#include <causeway/kernels/targets.hpp>
#include <causeway/tensor/scratch.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

namespace detail {

CAUSEWAY_ALWAYS_INLINE float row_sum(const float* x, std::int64_t columns) {
  return sum_lanes(
      columns, [&](f32x8& v, std::int64_t i) CAUSEWAY_INLINE_LAMBDA { std::memcpy(&v, x + i, sizeof v); },
      [&](std::int64_t i) CAUSEWAY_INLINE_LAMBDA { return x[i]; });
}

CAUSEWAY_ALWAYS_INLINE float row_sum_of_squares(const float* x, float center, std::int64_t columns) {
  return sum_lanes(
      columns,
      [&](f32x8& v, std::int64_t i) CAUSEWAY_INLINE_LAMBDA {
        std::memcpy(&v, x + i, sizeof v);
        v -= center;
        v *= v;
      },
      [&](std::int64_t i) CAUSEWAY_INLINE_LAMBDA { return (x[i] - center) * (x[i] - center); });
}

/// `Centered` is layer normalisation; without it, RMS normalisation (no mean, no bias).
template <bool Centered>
struct norm_forward_kernel {
  static constexpr bool exact = false;
  template <class Out>
  CAUSEWAY_ALWAYS_INLINE static void run(const float* x, const float* gain, const float* bias, Out* y, float* mean,
                                         float* rstd, std::int64_t rows, std::int64_t columns, float epsilon) {
    const auto count = static_cast<float>(columns);
    for (std::int64_t row = 0; row < rows; ++row, x += columns, y += columns) {
      const float center = Centered ? row_sum(x, columns) / count : 0.0F;
      const float scale = 1.0F / std::sqrt(row_sum_of_squares(x, center, columns) / count + epsilon);
      if constexpr (Centered) mean[row] = center;
      rstd[row] = scale;
      for_lanes(columns, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
        f32x16 v, g, b{};
        load(v, x + i, part);
        load(g, gain + i, part);
        if constexpr (Centered) load(b, bias + i, part);
        store(y + i, (v - center) * scale * g + b, part);
      });
    }
  }
};

template <bool Centered>
struct norm_backward_kernel {
  static constexpr bool exact = false;

  /// dgain += dy·xhat and dbias += dy for one row; also the row's sums of dy·gain and dy·gain·xhat.
  template <class In>
  CAUSEWAY_ALWAYS_INLINE static void parameters(const float* x, const float* gain, const In* dy, float* dgain, float* dbias,
                                                std::int64_t columns, float center, float scale, float& sum,
                                                float& sum_xhat) {
    lane_sum sums, sums_xhat;
    for_lanes(columns, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      f32x16 v, g, d, dg;
      load(v, x + i, part);
      load(g, gain + i, part);
      load(d, dy + i, part);  // zero beyond the tail, so the sums are right there too
      load(dg, dgain + i, part);
      const f32x16 xhat = (v - center) * scale;
      store(dgain + i, dg + d * xhat, part);
      if constexpr (Centered) {
        f32x16 db;
        load(db, dbias + i, part);
        store(dbias + i, db + d, part);
        sums.add(d * g);
      }
      sums_xhat.add(d * g * xhat);
    });
    sum = sums.total();
    sum_xhat = sums_xhat.total();
  }

  template <class In>
  CAUSEWAY_ALWAYS_INLINE static void run(const float* x, const float* gain, const float* mean, const float* rstd,
                                         const In* dy, float* dx, bool accumulate, float* dgain, float* dbias,
                                         std::int64_t rows, std::int64_t columns) {
    const float inverse = 1.0F / static_cast<float>(columns);
    for (std::int64_t row = 0; row < rows; ++row, x += columns, dy += columns, dx += columns) {
      const float center = Centered ? mean[row] : 0.0F;
      const float scale = rstd[row];
      float sum = 0.0F;
      float sum_xhat = 0.0F;
      parameters(x, gain, dy, dgain, dbias, columns, center, scale, sum, sum_xhat);
      sum *= inverse;
      sum_xhat *= inverse;
      const auto input = [&](auto accumulates) CAUSEWAY_INLINE_LAMBDA {
        for_lanes(columns, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
          f32x16 v, g, d, before{};
          load(v, x + i, part);
          load(g, gain + i, part);
          load(d, dy + i, part);
          if constexpr (accumulates) load(before, dx + i, part);
          const f32x16 xhat = (v - center) * scale;
          store(dx + i, before + scale * (d * g - sum - xhat * sum_xhat), part);
        });
      };
      accumulate ? input(std::true_type{}) : input(std::false_type{});
    }
  }
};

template <bool Centered, class Out>
void norm_forward(thread_pool& pool, const float* x, const float* gain, const float* bias, Out* y, float* mean, float* rstd,
                  std::int64_t rows, std::int64_t columns, float epsilon, simd_level level) {
  for_rows(pool, rows, columns, [&](index_range part) {
    dispatch<norm_forward_kernel<Centered>>(level, x + part.begin * columns, gain, bias, y + part.begin * columns,
                                            Centered ? mean + part.begin : mean, rstd + part.begin, part.size(), columns,
                                            epsilon);
  });
}

template <bool Centered, class In>
void norm_backward(thread_pool& pool, scratch& memory, const float* x, const float* gain, const float* mean,
                   const float* rstd, const In* dy, float* dx, bool accumulate_dx, float* dgain, float* dbias,
                   std::int64_t rows, std::int64_t columns, simd_level level) {
  constexpr std::int64_t arrays = Centered ? 2 : 1;
  const std::int64_t blocks = row_blocks(rows);
  const std::int64_t stride = (columns + 15) / 16 * 16;  // blocks write different cache lines
  auto frame = memory.open();
  auto* partials = frame.template take<float>(static_cast<std::size_t>(blocks * arrays * stride));
  for_rows(pool, blocks, (rows + blocks - 1) / blocks * columns, [&](index_range part) {
    for (std::int64_t block = part.begin; block < part.end; ++block) {
      const index_range r = share_of(rows, static_cast<unsigned>(block), static_cast<unsigned>(blocks));
      float* gains = partials + block * arrays * stride;
      std::fill_n(gains, arrays * stride, 0.0F);
      dispatch<norm_backward_kernel<Centered>>(level, x + r.begin * columns, gain, Centered ? mean + r.begin : mean,
                                               rstd + r.begin, dy + r.begin * columns, dx + r.begin * columns,
                                               accumulate_dx, gains, gains + (arrays - 1) * stride, r.size(), columns);
    }
  });
  if (dgain == nullptr) return;
  dispatch<column_sum_kernel>(level, static_cast<const float*>(partials), dgain, blocks, columns, arrays * stride);
  if constexpr (Centered) {
    dispatch<column_sum_kernel>(level, static_cast<const float*>(partials + stride), dbias, blocks, columns,
                                arrays * stride);
  }
}

}  // namespace detail

/// y = (x - mean) / sqrt(variance + epsilon) · gain + bias, row by row; also stores mean[rows] and rstd[rows] for the
/// backward pass. x [rows, columns], gain and bias [columns]. Moves 8 bytes an element (Out f32), 6 (bf16).
template <Activation Out>
void layer_norm_forward(thread_pool& pool, const float* x, const float* gain, const float* bias, Out* y, float* mean,
                        float* rstd, std::int64_t rows, std::int64_t columns, float epsilon,
                        simd_level level = detect_simd_level()) {
  detail::norm_forward<true>(pool, x, gain, bias, y, mean, rstd, rows, columns, epsilon, level);
}

/// The gradient of layer_norm_forward. dx is overwritten, or added to with `accumulate_dx` (the residual stream); dgain and
/// dbias are always added to, or both null. Moves 12 bytes an element (In f32), 10 (bf16), and 4 more to accumulate.
template <Activation In>
void layer_norm_backward(thread_pool& pool, scratch& memory, const float* x, const float* gain, const float* mean,
                         const float* rstd, const In* dy, float* dx, bool accumulate_dx, float* dgain, float* dbias,
                         std::int64_t rows, std::int64_t columns, simd_level level = detect_simd_level()) {
  detail::norm_backward<true>(pool, memory, x, gain, mean, rstd, dy, dx, accumulate_dx, dgain, dbias, rows, columns, level);
}

/// y = x / sqrt(mean of x² + epsilon) · gain, row by row; also stores rstd[rows]. Moves 8 bytes an element (Out f32), 6
/// (bf16).
template <Activation Out>
void rms_norm_forward(thread_pool& pool, const float* x, const float* gain, Out* y, float* rstd, std::int64_t rows,
                      std::int64_t columns, float epsilon, simd_level level = detect_simd_level()) {
  detail::norm_forward<false>(pool, x, gain, nullptr, y, nullptr, rstd, rows, columns, epsilon, level);
}

/// The gradient of rms_norm_forward; as layer_norm_backward.
template <Activation In>
void rms_norm_backward(thread_pool& pool, scratch& memory, const float* x, const float* gain, const float* rstd,
                       const In* dy, float* dx, bool accumulate_dx, float* dgain, std::int64_t rows, std::int64_t columns,
                       simd_level level = detect_simd_level()) {
  detail::norm_backward<false>(pool, memory, x, gain, nullptr, rstd, dy, dx, accumulate_dx, dgain, nullptr, rows, columns,
                               level);
}

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

CAUSEWAY_FAST_KERNEL((const float*, const float*, const float*, float*, float*, float*, std::int64_t, std::int64_t, float),
                     norm_forward_kernel<true>)
CAUSEWAY_FAST_KERNEL((const float*, const float*, const float*, const float*, const float*, float*, bool, float*, float*,
                      std::int64_t, std::int64_t),
                     norm_backward_kernel<true>)
CAUSEWAY_FAST_KERNEL((const float*, const float*, const float*, bf16*, float*, float*, std::int64_t, std::int64_t, float),
                     norm_forward_kernel<true>)
CAUSEWAY_FAST_KERNEL((const float*, const float*, const float*, const float*, const bf16*, float*, bool, float*, float*,
                      std::int64_t, std::int64_t),
                     norm_backward_kernel<true>)
CAUSEWAY_FAST_KERNEL((const float*, const float*, const float*, float*, float*, float*, std::int64_t, std::int64_t, float),
                     norm_forward_kernel<false>)
CAUSEWAY_FAST_KERNEL((const float*, const float*, const float*, const float*, const float*, float*, bool, float*, float*,
                      std::int64_t, std::int64_t),
                     norm_backward_kernel<false>)
CAUSEWAY_FAST_KERNEL((const float*, const float*, const float*, bf16*, float*, float*, std::int64_t, std::int64_t, float),
                     norm_forward_kernel<false>)
CAUSEWAY_FAST_KERNEL((const float*, const float*, const float*, const float*, const bf16*, float*, bool, float*, float*,
                      std::int64_t, std::int64_t),
                     norm_backward_kernel<false>)

#endif  // CAUSEWAY_KERNELS_NORM_HPP
