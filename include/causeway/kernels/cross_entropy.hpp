// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_CROSS_ENTROPY_HPP
#define CAUSEWAY_KERNELS_CROSS_ENTROPY_HPP

// The output layer and its loss in one: logits are made for a chunk of rows at a time, turned into their own gradient and
// used at once, so that the [rows, V] matrix never exists.

#include <causeway/config/config.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/gemm.hpp>
#include <causeway/kernels/simd_math.hpp>
#include <causeway/kernels/targets.hpp>
#include <causeway/tensor/dtype.hpp>
#include <causeway/tensor/scratch.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

namespace detail {

/// Memory for one chunk of logits. Every chunk reads the whole of w twice and reads and writes the whole of dw, so chunks
/// must be long: with GPT-2's vocabulary a step takes 5 % longer at half of this.
inline constexpr std::int64_t logits_bytes = std::int64_t{64} << 20U;

/// Rows of a chunk: as many as `logits_bytes` allows, but at least 64, and all chunks nearly equal.
constexpr std::int64_t rows_per_chunk(std::int64_t rows, std::int64_t V) noexcept {
  const std::int64_t most = std::max<std::int64_t>(64, logits_bytes / (4 * V));
  const std::int64_t chunks = std::max<std::int64_t>(1, (rows + most - 1) / most);
  const std::int64_t equal = (rows + chunks - 1) / chunks;
  return std::min(std::max<std::int64_t>(1, rows), (equal + 7) / 8 * 8);
}

struct row_maximum_kernel {
  static constexpr bool exact = false;
  CAUSEWAY_ALWAYS_INLINE static float run(const float* x, std::int64_t count) {
    f32x16 top[2];
    broadcast(top[0], -std::numeric_limits<float>::infinity());
    top[1] = top[0];
    std::int64_t i = 0;
    for (; i + 2 * vector_lanes <= count; i += 2 * vector_lanes) {
      f32x16 a, b;
      load(a, x + i, whole{});
      load(b, x + i + vector_lanes, whole{});
      top[0] = a > top[0] ? a : top[0];
      top[1] = b > top[1] ? b : top[1];
    }
    top[0] = top[0] > top[1] ? top[0] : top[1];
    float best = top[0][0];
    for (int lane = 1; lane < vector_lanes; ++lane) best = top[0][lane] > best ? top[0][lane] : best;
    for (; i < count; ++i) best = x[i] > best ? x[i] : best;
    return best;
  }
};

/// x = e^(x - top); returns the sum. Sums of 512 in f32, those in f64.
struct row_exponential_kernel {
  static constexpr bool exact = false;
  CAUSEWAY_ALWAYS_INLINE static double run(float* x, std::int64_t count, float top) {
    double sum = 0.0;
    for (std::int64_t begin = 0; begin < count; begin += 512) {
      const std::int64_t end = std::min(count, begin + 512);
      f32x16 part{};
      std::int64_t i = begin;
      for (; i + vector_lanes <= end; i += vector_lanes) {
        f32x16 v;
        load(v, x + i, whole{});
        v = v - top;
        exponential(v);
        store(x + i, v, whole{});
        part += v;
      }
      sum += static_cast<double>(horizontal_sum(part));
      if (i < end) sum += last(x + i, end - i, top);
    }
    return sum;
  }

 private:
  CAUSEWAY_ALWAYS_INLINE static double last(float* x, std::int64_t count, float top) {
    f32x16 v;
    load(v, x, tail{count});
    v = v - top;
    exponential(v);
    store(x, v, tail{count});
    double sum = 0.0;
    for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]);
    return sum;
  }
};

/// y = factor * x; y may be x.
template <class Act>
struct row_scale_kernel {
  static constexpr bool exact = false;
  CAUSEWAY_ALWAYS_INLINE static void run(const float* x, Act* y, std::int64_t count, float factor) {
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      f32x16 v;
      load(v, x + i, part);
      v = v * factor;
      store(y + i, v, part);
    });
  }
};

/// -log softmax(logits)[target]. Destroys the logits; `gradient`, when not null, receives scale * (softmax - onehot) and
/// may be the logits themselves.
template <class Act>
double cross_entropy_row(float* logits, Act* gradient, std::int64_t V, std::int32_t target, float scale, simd_level level) {
  if (target < 0) {
    if (gradient != nullptr) std::fill(gradient, gradient + V, Act(0.0F));
    return 0.0;
  }
  CAUSEWAY_EXPECT(target < V);
  const auto chosen = static_cast<double>(logits[target]);
  const float top = dispatch<row_maximum_kernel>(level, static_cast<const float*>(logits), V);
  const double sum = dispatch<row_exponential_kernel>(level, logits, V, top);
  if (gradient != nullptr) {
    const double factor = static_cast<double>(scale) / sum;
    const double at_target = static_cast<double>(logits[target]) * factor - static_cast<double>(scale);
    dispatch<row_scale_kernel<Act>>(level, static_cast<const float*>(logits), gradient, V, static_cast<float>(factor));
    gradient[target] = Act(static_cast<float>(at_target));
  }
  return std::log(sum) + static_cast<double>(top) - chosen;
}

/// One chunk's operands: `rows` rows of x, and the tiles for their logits and gradients.
template <class Act>
struct cross_entropy_chunk {
  const Act* x;
  const Act* w;
  const std::int32_t* targets;
  std::int64_t rows;
  std::int64_t C;
  std::int64_t V;
  float* logits;
  Act* gradient;  ///< null: only the loss
  double* losses;
};

/// The loss of a chunk; leaves the gradient with respect to the logits in `gradient`.
template <class Act, class G>
double chunk_loss(thread_pool& pool, scratch& memory, G& gemm, const cross_entropy_chunk<Act>& c, float scale,
                  simd_level level) {
  gemm_args<Act, float> product;
  product.transpose_b = true;
  product.m = c.rows, product.n = c.V, product.k = c.C;
  product.a = c.x, product.lda = c.C;
  product.b = c.w, product.ldb = c.C;
  product.c = c.logits, product.ldc = c.V;
  gemm.multiply(pool, memory, product);
  for_rows(pool, c.rows, c.V, [&](index_range part) {
    for (std::int64_t r = part.begin; r < part.end; ++r) {
      Act* gradient = c.gradient == nullptr ? nullptr : c.gradient + r * c.V;
      c.losses[r] = cross_entropy_row(c.logits + r * c.V, gradient, c.V, c.targets[r], scale, level);
    }
  });
  double sum = 0.0;
  for (std::int64_t r = 0; r < c.rows; ++r) sum += c.losses[r];
  return sum;
}

/// dx = gradient w (overwritten) and dw += gradientT x; either may be null.
template <class Act, class G>
void chunk_gradients(thread_pool& pool, scratch& memory, G& gemm, const cross_entropy_chunk<Act>& c, Act* dx, float* dw) {
  if (dx != nullptr) {
    gemm_args<Act, Act> product;
    product.m = c.rows, product.n = c.C, product.k = c.V;
    product.a = c.gradient, product.lda = c.V;
    product.b = c.w, product.ldb = c.C;
    product.c = dx, product.ldc = c.C;
    gemm.multiply(pool, memory, product);
  }
  if (dw != nullptr) {
    gemm_args<Act, float> product;
    product.transpose_a = true, product.accumulate = true;
    product.m = c.V, product.n = c.C, product.k = c.rows;
    product.a = c.gradient, product.lda = c.V;
    product.b = c.x, product.ldb = c.C;
    product.c = dw, product.ldc = c.C;
    gemm.multiply(pool, memory, product);
  }
}

}  // namespace detail

/// Sum over rows of -log softmax(x wT)[target]; rows with a negative target are ignored. x is [rows, C], w is [V, C].
/// dx (overwritten) and dw (added to) receive the gradient of `grad_scale` times that sum; without both only the loss is
/// computed. Row losses are added in f64, in the order of the rows. Working memory: 64 MiB of logits (at least 64 rows,
/// at most all), half as much again for their gradient when Act is bf16.
template <class Act, Gemm G>
double cross_entropy(thread_pool& pool, scratch& memory, G& gemm, const Act* x, const Act* w, const std::int32_t* targets,
                     std::int64_t rows, std::int64_t C, std::int64_t V, float grad_scale, Act* dx, float* dw,
                     simd_level level = detect_simd_level()) {
  const std::int64_t size = detail::rows_per_chunk(rows, V);
  auto frame = memory.open();
  float* logits = frame.template take<float>(static_cast<std::size_t>(size * V));
  double* losses = frame.template take<double>(static_cast<std::size_t>(size));
  Act* gradient = nullptr;
  if (dx != nullptr || dw != nullptr) {
    if constexpr (std::is_same_v<Act, float>) {
      gradient = logits;
    } else {
      gradient = frame.template take<Act>(static_cast<std::size_t>(size * V));
    }
  }
  double loss = 0.0;
  for (std::int64_t begin = 0; begin < rows; begin += size) {
    const detail::cross_entropy_chunk<Act> chunk{
        x + begin * C, w, targets + begin, std::min(size, rows - begin), C, V, logits, gradient, losses};
    loss += detail::chunk_loss(pool, memory, gemm, chunk, grad_scale, level);
    detail::chunk_gradients(pool, memory, gemm, chunk, dx == nullptr ? nullptr : dx + begin * C, dw);
  }
  return loss;
}

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

CAUSEWAY_FAST_KERNEL((const float*, std::int64_t), row_maximum_kernel)
CAUSEWAY_FAST_KERNEL((float*, std::int64_t, float), row_exponential_kernel)
CAUSEWAY_FAST_KERNEL((const float*, float*, std::int64_t, float), row_scale_kernel<float>)
CAUSEWAY_FAST_KERNEL((const float*, bf16*, std::int64_t, float), row_scale_kernel<bf16>)

#endif  // CAUSEWAY_KERNELS_CROSS_ENTROPY_HPP
