// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_CUDA_ATTENTION_CASE_HPP
#define CAUSEWAY_TESTS_CUDA_ATTENTION_CASE_HPP

// One attention call in a packed [rows, q | k | v] activation, what the CPU makes of it, and how two results compare.

#include <causeway/kernels/attention.hpp>

#include "cuda/attention_device.hpp"
#include "cuda/body_support.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace causeway_test {

struct attention_size {
  std::int64_t batch, T, heads, kv_heads, head_size;
};

/// Outputs begin as NaN: they are to be overwritten. Operands are rounded to bf16 for both types, so that the CPU's f32
/// result can be the measure of both.
template <class Act>
struct attention_case : attention_rows<Act> {
  using attention_rows<Act>::qkv, attention_rows<Act>::o, attention_rows<Act>::d_o, attention_rows<Act>::d_qkv;
  using attention_rows<Act>::logsumexp, attention_rows<Act>::correction;
  causeway::kernels::attention_shape shape;
  std::int64_t k_at, v_at;  ///< where k and v begin in a row

  explicit attention_case(const attention_size& s, float magnitude = 1.0F)
      : k_at{s.heads * s.head_size}, v_at{k_at + s.kv_heads * s.head_size} {
    const std::int64_t packed = v_at + s.kv_heads * s.head_size;
    shape = {s.batch, s.T, s.heads, s.kv_heads, s.head_size, packed, packed, packed, k_at, 0.0F};
    shape.scale = 1.0F / std::sqrt(static_cast<float>(s.head_size));
    const auto rows = static_cast<std::size_t>(s.batch * s.T);
    causeway::rng draw{static_cast<std::uint64_t>(s.T * 1000 + s.head_size)};
    const auto fill = [&](std::vector<Act>& x, std::int64_t columns, float spread) {
      for (std::size_t i = 0; i < rows * static_cast<std::size_t>(columns); ++i) {
        x.push_back(Act(static_cast<float>(causeway::bf16(draw.normal() * spread))));
      }
    };
    fill(qkv, packed, magnitude);
    fill(d_o, k_at, 1.0F);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    o.assign(d_o.size(), Act(nan));
    d_qkv.assign(qkv.size(), Act(nan));
    logsumexp.assign(static_cast<std::size_t>(s.batch * s.heads * s.T), nan);
    correction = logsumexp;
  }

  void forward_on_cpu() {
    causeway::thread_pool pool{1};
    causeway::scratch memory;
    const Act* p = qkv.data();
    causeway::kernels::attention_forward(pool, memory, shape, p, p + k_at, p + v_at, o.data(), logsumexp.data());
  }
  void backward_on_cpu() {
    causeway::thread_pool pool{1};
    causeway::scratch memory;
    const Act* p = qkv.data();
    Act* g = d_qkv.data();
    causeway::kernels::attention_backward(pool, memory, shape, p, p + k_at, p + v_at, static_cast<const Act*>(o.data()),
                                          static_cast<const Act*>(d_o.data()), logsumexp.data(), g, g + k_at, g + v_at);
  }
};

/// |x - y| / |y| over all values; infinite where anything is not finite.
template <class A, class B>
double relative_distance(const std::vector<A>& x, const std::vector<B>& y) {
  double off = 0, norm = 1e-30;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const auto a = static_cast<double>(static_cast<float>(x[i])), b = static_cast<double>(static_cast<float>(y[i]));
    if (!std::isfinite(a)) return std::numeric_limits<double>::infinity();
    off += (a - b) * (a - b);
    norm += b * b;
  }
  return x.size() == y.size() ? std::sqrt(off / norm) : std::numeric_limits<double>::infinity();
}

}  // namespace causeway_test

#endif  // CAUSEWAY_TESTS_CUDA_ATTENTION_CASE_HPP
