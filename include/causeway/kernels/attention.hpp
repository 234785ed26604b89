// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_ATTENTION_HPP
#define CAUSEWAY_KERNELS_ATTENTION_HPP

// Causal attention with grouped queries. Only the logarithm of each row's softmax denominator is kept for the backward
// pass, which makes the probabilities again from it: memory is linear in T.

#include <causeway/config/config.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/tensor/dtype.hpp>
#include <causeway/tensor/scratch.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::kernels {

/// Sizes of one attention call. Token (b, t) is row b*T + t; head h starts h*head_size elements into the row; strides are
/// elements between rows, so q, k and v may be parts of one packed [batch*T, 3C] matrix. Query head h reads key and value
/// head h / (heads / kv_heads).
struct attention_shape {
  std::int64_t batch = 0;
  std::int64_t T = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_size = 0;
  std::int64_t q_stride = 0;
  std::int64_t k_stride = 0;
  std::int64_t v_stride = 0;
  std::int64_t o_stride = 0;
  float scale = 1.0F;
};

namespace detail {

template <class Act>
float dot_row(const Act* a, const Act* b, std::int64_t n) {
  float sum = 0.0F;
  for (std::int64_t i = 0; i < n; ++i) sum += static_cast<float>(a[i]) * static_cast<float>(b[i]);
  return sum;
}

}  // namespace detail

/// o = softmax(scale * q kT, causal) v. Writes logsumexp [batch, heads, T] for the backward pass.
template <class Act>
void attention_forward(thread_pool& pool, scratch&, const attention_shape& s, const Act* q, const Act* k, const Act* v,
                       Act* o, float* logsumexp) {
  const std::int64_t group = s.heads / s.kv_heads;
  pool.for_range(s.batch * s.heads, 1, [&](index_range part) {
    std::vector<float> p(static_cast<std::size_t>(s.T));
    std::vector<float> sum(static_cast<std::size_t>(s.head_size));
    for (std::int64_t u = part.begin; u < part.end; ++u) {
      const std::int64_t b = u / s.heads;
      const std::int64_t h = u % s.heads;
      for (std::int64_t t = 0; t < s.T; ++t) {
        const Act* qr = q + (b * s.T + t) * s.q_stride + h * s.head_size;
        float top = -INFINITY;
        for (std::int64_t j = 0; j <= t; ++j) {
          const Act* kr = k + (b * s.T + j) * s.k_stride + h / group * s.head_size;
          p[static_cast<std::size_t>(j)] = s.scale * detail::dot_row(qr, kr, s.head_size);
          top = std::max(top, p[static_cast<std::size_t>(j)]);
        }
        float total = 0.0F;
        std::fill(sum.begin(), sum.end(), 0.0F);
        for (std::int64_t j = 0; j <= t; ++j) {
          const Act* vr = v + (b * s.T + j) * s.v_stride + h / group * s.head_size;
          const float e = std::exp(p[static_cast<std::size_t>(j)] - top);
          total += e;
          for (std::int64_t i = 0; i < s.head_size; ++i) sum[static_cast<std::size_t>(i)] += e * static_cast<float>(vr[i]);
        }
        Act* out = o + (b * s.T + t) * s.o_stride + h * s.head_size;
        for (std::int64_t i = 0; i < s.head_size; ++i) out[i] = Act(sum[static_cast<std::size_t>(i)] / total);
        logsumexp[u * s.T + t] = top + std::log(total);
      }
    }
  });
}

/// Gradients of attention_forward. `d_o` has o's layout; dq, dk, dv have q's, k's, v's and are overwritten.
template <class Act>
void attention_backward(thread_pool& pool, scratch&, const attention_shape& s, const Act* q, const Act* k, const Act* v,
                        const Act* o, const Act* d_o, const float* logsumexp, Act* dq, Act* dk, Act* dv) {
  const std::int64_t group = s.heads / s.kv_heads;
  const std::int64_t d = s.head_size;
  pool.for_range(s.batch * s.kv_heads, 1, [&](index_range part) {
    std::vector<float> sums(static_cast<std::size_t>((2 * s.T + 1) * d));
    for (std::int64_t u = part.begin; u < part.end; ++u) {
      const std::int64_t b = u / s.kv_heads;
      const std::int64_t kh = u % s.kv_heads;
      std::fill(sums.begin(), sums.end(), 0.0F);
      float* sk = sums.data();
      float* sv = sk + s.T * d;
      float* sq = sv + s.T * d;
      for (std::int64_t h = kh * group; h < (kh + 1) * group; ++h) {
        for (std::int64_t t = 0; t < s.T; ++t) {
          const std::int64_t row = b * s.T + t;
          const Act* qr = q + row * s.q_stride + h * d;
          const Act* gr = d_o + row * s.o_stride + h * d;
          const float correction = detail::dot_row(o + row * s.o_stride + h * d, gr, d);
          std::fill(sq, sq + d, 0.0F);
          for (std::int64_t j = 0; j <= t; ++j) {
            const Act* kr = k + (b * s.T + j) * s.k_stride + kh * d;
            const Act* vr = v + (b * s.T + j) * s.v_stride + kh * d;
            const float p = std::exp(s.scale * detail::dot_row(qr, kr, d) - logsumexp[(b * s.heads + h) * s.T + t]);
            const float ds = s.scale * p * (detail::dot_row(gr, vr, d) - correction);
            for (std::int64_t i = 0; i < d; ++i) {
              sv[j * d + i] += p * static_cast<float>(gr[i]);
              sk[j * d + i] += ds * static_cast<float>(qr[i]);
              sq[i] += ds * static_cast<float>(kr[i]);
            }
          }
          for (std::int64_t i = 0; i < d; ++i) dq[row * s.q_stride + h * d + i] = Act(sq[i]);
        }
      }
      for (std::int64_t t = 0; t < s.T; ++t) {
        for (std::int64_t i = 0; i < d; ++i) {
          dk[(b * s.T + t) * s.k_stride + kh * d + i] = Act(sk[t * d + i]);
          dv[(b * s.T + t) * s.v_stride + kh * d + i] = Act(sv[t * d + i]);
        }
      }
    }
  });
}

}  // namespace causeway::inline CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_ATTENTION_HPP
