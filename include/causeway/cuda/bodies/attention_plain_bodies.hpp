// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_BODIES_ATTENTION_PLAIN_BODIES_HPP
#define CAUSEWAY_CUDA_BODIES_ATTENTION_PLAIN_BODIES_HPP

// Causal attention in f32 throughout, for any head size: what the tensor-core kernels are held against, and for models that
// are trained in f32. A group has one row of the result; its threads make the weights of as many tokens as there are
// threads, then each adds the weighted rows into columns of its own. The result itself holds the sums, so memory is linear
// in T. Every key is read again for every query: this is for exactness, not for speed.

#include <causeway/config/config.hpp>
#include <causeway/cuda/bodies/attention_backward_bodies.hpp>
#include <causeway/cuda/bodies/attention_forward_body.hpp>
#include <causeway/cuda/bodies/group.hpp>
#include <causeway/cuda/bodies/pack.hpp>
#include <causeway/kernels/attention_shape.hpp>

#include <cmath>
#include <cstdint>
#include <limits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

namespace detail {

/// Threads of a group at most: each has two values of the group's room.
inline constexpr int plain_threads = 32;

CAUSEWAY_HD inline float dot(const float* a, const float* b, std::int64_t count) {
  float sum = 0.0F;
  for (std::int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

/// to = keep · to + the sum over `rows` of weights[j] · (from + j · stride), in the calling thread's columns.
template <class G>
CAUSEWAY_HD void add_weighted(const G& g, float* to, float keep, const float* weights, const float* from,
                              std::int64_t stride, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t c = g.rank(); c < columns; c += g.size()) {
    float sum = to[c] * keep;
    for (std::int64_t j = 0; j < rows; ++j) sum += weights[j] * from[j * stride + c];
    to[c] = sum;
  }
}

template <class G>
CAUSEWAY_HD void set_columns(const G& g, float* to, std::int64_t columns, float value) {
  for (std::int64_t c = g.rank(); c < columns; c += g.size()) to[c] = value;
}

}  // namespace detail

/// o and logsumexp, as kernels::attention_forward in f32. An item is a query of a head.
struct attention_plain_forward_body {
  kernels::attention_shape shape;
  const float* q = nullptr;
  const float* k = nullptr;
  const float* v = nullptr;
  float* o = nullptr;
  float* logsumexp = nullptr;

  [[nodiscard]] std::int64_t items() const { return shape.batch * shape.heads * shape.T; }
  [[nodiscard]] static bool aligned() { return false; }

  template <int N, Group G>
  CAUSEWAY_HD void run(G& g, std::int64_t item) const {
    const std::int64_t t = item % shape.T, h = item / shape.T % shape.heads, b = item / shape.T / shape.heads;
    const std::int64_t kv_head = h / (shape.heads / shape.kv_heads), d = shape.head_size;
    const float* const query = detail::head_of(shape, q, shape.q_stride, b, h) + t * shape.q_stride;
    const float* const keys = detail::head_of(shape, k, shape.k_stride, b, kv_head);
    const float* const values = detail::head_of(shape, v, shape.v_stride, b, kv_head);
    float* const out = detail::head_of(shape, o, shape.o_stride, b, h) + t * shape.o_stride;
    float top = std::numeric_limits<float>::lowest(), sum = 0.0F;
    detail::set_columns(g, out, d, 0.0F);
    for (std::int64_t key = 0; key <= t; key += g.size()) {
      const std::int64_t own = key + g.rank(), rows = t + 1 - key < g.size() ? t + 1 - key : g.size();
      const float score = own <= t ? shape.scale * detail::dot(query, keys + own * shape.k_stride, d) : top;
      const float most = std::fmax(top, g.largest(score));
      const float keep = detail::exponential(top - most);
      const float p = own <= t ? detail::exponential(score - most) : 0.0F;
      g.room()[g.rank()] = p;
      sum = sum * keep + g.sum(p);
      top = most;
      detail::add_weighted(g, out, keep, g.room(), values + key * shape.v_stride, shape.v_stride, rows, d);
      g.sync();  // all have read the room before the next keys
    }
    for (std::int64_t c = g.rank(); c < d; c += g.size()) out[c] /= sum;
    if (g.rank() == 0) logsumexp[(b * shape.heads + h) * shape.T + t] = top + std::log(sum);
  }
};

/// dq, whose strides are q's. An item is a query of a head.
struct attention_plain_query_gradient_body {
  kernels::attention_shape shape;
  attention_gradient_operands<float> x;
  float* dq = nullptr;

  [[nodiscard]] std::int64_t items() const { return shape.batch * shape.heads * shape.T; }
  [[nodiscard]] static bool aligned() { return false; }

  template <int N, Group G>
  CAUSEWAY_HD void run(G& g, std::int64_t item) const {
    const std::int64_t t = item % shape.T, h = item / shape.T % shape.heads, b = item / shape.T / shape.heads;
    const std::int64_t kv_head = h / (shape.heads / shape.kv_heads), d = shape.head_size;
    const float* const query = detail::head_of(shape, x.q, shape.q_stride, b, h) + t * shape.q_stride;
    const float* const d_o = detail::head_of(shape, x.d_o, shape.o_stride, b, h) + t * shape.o_stride;
    const float* const keys = detail::head_of(shape, x.k, shape.k_stride, b, kv_head);
    const float* const values = detail::head_of(shape, x.v, shape.v_stride, b, kv_head);
    const std::int64_t line = (b * shape.heads + h) * shape.T + t;
    float* const out = detail::head_of(shape, dq, shape.q_stride, b, h) + t * shape.q_stride;
    detail::set_columns(g, out, d, 0.0F);
    for (std::int64_t key = 0; key <= t; key += g.size()) {
      const std::int64_t own = key + g.rank(), rows = t + 1 - key < g.size() ? t + 1 - key : g.size();
      if (own <= t) {
        const float score = shape.scale * detail::dot(query, keys + own * shape.k_stride, d);
        const float dp = detail::dot(d_o, values + own * shape.v_stride, d);
        g.room()[g.rank()] = shape.scale * detail::exponential(score - x.logsumexp[line]) * (dp - x.correction[line]);
      }
      g.sync();
      detail::add_weighted(g, out, 1.0F, g.room(), keys + key * shape.k_stride, shape.k_stride, rows, d);
      g.sync();
    }
  }
};

/// dk and dv, whose strides are k's and v's. An item is a key of a key head; the queries that see it come head by head.
struct attention_plain_key_gradient_body {
  kernels::attention_shape shape;
  attention_gradient_operands<float> x;
  float* dk = nullptr;
  float* dv = nullptr;

  [[nodiscard]] std::int64_t items() const { return shape.batch * shape.kv_heads * shape.T; }
  [[nodiscard]] static bool aligned() { return false; }

  template <int N, Group G>
  CAUSEWAY_HD void run(G& g, std::int64_t item) const {
    const std::int64_t at = item % shape.T, kv_head = item / shape.T % shape.kv_heads, b = item / shape.T / shape.kv_heads;
    const std::int64_t group = shape.heads / shape.kv_heads;
    float* const to_k = detail::head_of(shape, dk, shape.k_stride, b, kv_head) + at * shape.k_stride;
    float* const to_v = detail::head_of(shape, dv, shape.v_stride, b, kv_head) + at * shape.v_stride;
    detail::set_columns(g, to_k, shape.head_size, 0.0F);
    detail::set_columns(g, to_v, shape.head_size, 0.0F);
    for (std::int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) add_head(g, b, h, kv_head, at, to_k, to_v);
  }

 private:
  template <class G>
  CAUSEWAY_HD void add_head(G& g, std::int64_t b, std::int64_t h, std::int64_t kv_head, std::int64_t at, float* to_k,
                            float* to_v) const {
    const std::int64_t d = shape.head_size, line = (b * shape.heads + h) * shape.T;
    const float* const queries = detail::head_of(shape, x.q, shape.q_stride, b, h);
    const float* const d_o = detail::head_of(shape, x.d_o, shape.o_stride, b, h);
    const float* const key = detail::head_of(shape, x.k, shape.k_stride, b, kv_head) + at * shape.k_stride;
    const float* const value = detail::head_of(shape, x.v, shape.v_stride, b, kv_head) + at * shape.v_stride;
    float* const p = g.room();
    float* const ds = p + detail::plain_threads;
    for (std::int64_t t = at; t < shape.T; t += g.size()) {
      const std::int64_t own = t + g.rank(), rows = shape.T - t < g.size() ? shape.T - t : g.size();
      if (own < shape.T) {
        const float score = shape.scale * detail::dot(queries + own * shape.q_stride, key, d);
        const float dp = detail::dot(d_o + own * shape.o_stride, value, d);
        p[g.rank()] = detail::exponential(score - x.logsumexp[line + own]);
        ds[g.rank()] = shape.scale * p[g.rank()] * (dp - x.correction[line + own]);
      }
      g.sync();
      detail::add_weighted(g, to_v, 1.0F, p, d_o + t * shape.o_stride, shape.o_stride, rows, d);
      detail::add_weighted(g, to_k, 1.0F, ds, queries + t * shape.q_stride, shape.q_stride, rows, d);
      g.sync();
    }
  }
};

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_BODIES_ATTENTION_PLAIN_BODIES_HPP
