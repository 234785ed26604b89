// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_DECODE_HPP
#define CAUSEWAY_KERNELS_DECODE_HPP

// One token more of a text whose earlier tokens are known: its rotary turn, and its attention to their keys and values.
// Reads each of these once, so it costs as much as memory does.

#include <causeway/config/config.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/attention_shape.hpp>
#include <causeway/kernels/convert.hpp>
#include <causeway/kernels/rotary.hpp>
#include <causeway/kernels/simd_math.hpp>
#include <causeway/kernels/targets.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

namespace detail {

struct decode_kernel {
  static constexpr bool exact = false;

  /// One head: out = Σ softmax(q·k · scale) v over `count` rows of keys and values; `weights` has room for as many.
  template <class T>
  CAUSEWAY_ALWAYS_INLINE static void run(const attention_shape& s, const T* q, const T* keys, const T* values,
                                         std::int64_t count, T* out, float* weights) {
    float top = -std::numeric_limits<float>::infinity();
    for (std::int64_t t = 0; t < count; ++t) {
      f32x16 sums{};
      for_lanes(s.head_size, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
        f32x16 a, b;
        load(a, q + i, part);
        load(b, keys + t * s.k_stride + i, part);
        sums += a * b;
      });
      float dot = 0.0F;
      for (std::int64_t i = 0; i < vector_lanes; ++i) dot += sums[i];
      weights[t] = dot * s.scale;
      top = std::max(top, weights[t]);
    }
    float total = 0.0F;
    for (std::int64_t t = 0; t < count; ++t) {
      weights[t] = std::exp(weights[t] - top);
      total += weights[t];
    }
    for_lanes(s.head_size, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      f32x16 mean{};
      for (std::int64_t t = 0; t < count; ++t) {
        f32x16 v;
        load(v, values + t * s.v_stride + i, part);
        mean += weights[t] * v;
      }
      store(out + i, mean / total, part);
    });
  }
};

}  // namespace detail

/// Attention of one query row to `count` rows of keys and values, of which the last is its own. `shape` as for
/// attention_forward; its batch, T and strides of q and out are not looked at.
template <Activation Act>
void decode_attention(thread_pool& pool, const attention_shape& shape, const Act* q, const Act* keys, const Act* values,
                      std::int64_t count, Act* out, simd_level level = detect_simd_level()) {
  std::vector<float> weights(static_cast<std::size_t>(shape.heads * count));
  const std::int64_t shared = shape.heads / shape.kv_heads;
  detail::for_rows(pool, shape.heads, shape.head_size * count, [&](index_range part) {
    for (std::int64_t h = part.begin; h < part.end; ++h) {
      const std::int64_t from = h / shared * shape.head_size, to = h * shape.head_size;
      detail::dispatch<detail::decode_kernel>(level, shape, q + to, keys + from, values + from, count, out + to,
                                              weights.data() + h * count);
    }
  });
}

/// Rotates `heads` contiguous heads of one row, which is at `position` of its text, in place.
template <Activation Act>
void rotary_turn(const rotary_table& table, Act* row, std::int64_t heads, std::int64_t position,
                 simd_level level = detect_simd_level()) {
  CAUSEWAY_EXPECT(position >= 0 && position < table.positions());
  const std::int64_t size = table.head_size(), first = position * (size / 2);
  detail::dispatch<detail::rotary_kernel>(level, table.cosine() + first, table.sine() + first, row, std::int64_t{0},
                                          std::int64_t{1}, std::int64_t{1}, heads * size, heads, size, 1.0F);
}

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

CAUSEWAY_FAST_KERNEL((attention_shape, const float*, const float*, const float*, std::int64_t, float*, float*),
                     decode_kernel)
CAUSEWAY_FAST_KERNEL((attention_shape, const bf16*, const bf16*, const bf16*, std::int64_t, bf16*, float*), decode_kernel)

#endif  // CAUSEWAY_KERNELS_DECODE_HPP
