// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_OPS_ATTENTION_HPP
#define CAUSEWAY_CUDA_OPS_ATTENTION_HPP

// Causal attention on the device, with the arguments of kernels::attention_forward and attention_backward: bf16 on tensor
// cores for heads of 64 and 128 values, f32 by a plain path for any. The same bits in every run.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/cuda/bodies/attention_backward_bodies.hpp>
#include <causeway/cuda/bodies/attention_forward_body.hpp>
#include <causeway/cuda/bodies/attention_key_gradient_body.hpp>
#include <causeway/cuda/bodies/attention_plain_bodies.hpp>
#include <causeway/cuda/ops/queue.hpp>
#include <causeway/kernels/attention_shape.hpp>
#include <causeway/tensor/dtype.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

namespace detail {

/// 16-row tiles of a warp, and rows of the tiles that the block walks over: what fits into the registers of two blocks of
/// four warps without spilling, on sm_80 and sm_90 (docs/design/cuda.md has the figures). Not chosen by measurement yet.
template <int HeadSize>
struct attention_tuning;
template <>
struct attention_tuning<64> {
  using forward = attention_forward_body<64, 2, 4, 64>;
  using query_gradient = attention_query_gradient_body<64, 2, 4, 32>;
  using key_gradient = attention_key_gradient_body<64, 1, 4, 64>;
};
template <>
struct attention_tuning<128> {
  using forward = attention_forward_body<128, 2, 4, 48>;
  using query_gradient = attention_query_gradient_body<128, 1, 4, 32>;
  using key_gradient = attention_key_gradient_body<128, 1, 4, 32>;
};
inline constexpr int attention_blocks = 2;  // of a multiprocessor

/// Whether the copies of 16 bytes can be made.
template <class... T>
result<void> expect_chunks(const kernels::attention_shape& s, const T*... p) {
  const bool even = (s.q_stride | s.k_stride | s.v_stride | s.o_stride) % 8 == 0;
  if (even && ((reinterpret_cast<std::uintptr_t>(p) % 16 == 0) && ...)) return {};
  return fail(errc::invalid_argument, "attention on the device",
              "rows of q, k, v and o must begin at multiples of 16 bytes; let widths be multiples of 8");
}

/// f(tuning) for the head size.
template <class F>
result<void> with_head_size(std::int64_t size, F&& f) {
  if (size == 64) return f(attention_tuning<64>{});
  if (size == 128) return f(attention_tuning<128>{});
  return fail(errc::unsupported, "attention on the device",
              "heads of " + std::to_string(size) + " values in bf16; use 64 or 128, or f32");
}

}  // namespace detail

/// o = softmax(scale q kᵀ, causal) v; writes logsumexp [batch, heads, T] for the backward pass. errc::unsupported for other
/// heads than 64 and 128. Starts one kernel; needs no memory.
template <Queue Q>
[[nodiscard]] result<void> attention_forward(Q& on, const kernels::attention_shape& shape, const bf16* q, const bf16* k,
                                             const bf16* v, bf16* o, float* logsumexp) {
  kernels::expect_valid(shape);
  CAUSEWAY_TRY(detail::expect_chunks(shape, q, k, v, o));
  return detail::with_head_size(shape.head_size, [&]<class Tuning>(Tuning) {
    return on.template tiles<detail::attention_blocks>(typename Tuning::forward{shape, q, k, v, o, logsumexp});
  });
}
template <Queue Q>
[[nodiscard]] result<void> attention_forward(Q& on, const kernels::attention_shape& shape, const float* q, const float* k,
                                             const float* v, float* o, float* logsumexp) {
  kernels::expect_valid(shape);
  const attention_plain_forward_body body{shape, q, k, v, o, logsumexp};
  return on.groups(body.items(), body);
}

/// Gradients of attention_forward: dq, dk and dv have the strides of q, k and v and are overwritten; d_o has o's. Takes one
/// f32 a row and head from the queue. Starts three kernels.
template <Queue Q>
[[nodiscard]] result<void> attention_backward(Q& on, const kernels::attention_shape& shape, const bf16* q, const bf16* k,
                                              const bf16* v, const bf16* o, const bf16* d_o, const float* logsumexp,
                                              bf16* dq, bf16* dk, bf16* dv) {
  kernels::expect_valid(shape);
  CAUSEWAY_TRY(detail::expect_chunks(shape, q, k, v, o, d_o, dq, dk, dv));
  return detail::with_head_size(shape.head_size, [&]<class Tuning>(Tuning) -> result<void> {
    const auto rows = static_cast<std::size_t>(shape.batch * shape.heads * shape.T);
    CAUSEWAY_ASSIGN(const auto correction, on.template take<float>(rows));
    const attention_gradient_operands<bf16> x{q, k, v, o, d_o, logsumexp, correction.data()};
    const attention_correction_body<bf16> corrections{shape, x};
    CAUSEWAY_TRY(on.groups(corrections.items(), corrections));
    CAUSEWAY_TRY(on.template tiles<detail::attention_blocks>(typename Tuning::key_gradient{shape, x, dk, dv}));
    return on.template tiles<detail::attention_blocks>(typename Tuning::query_gradient{shape, x, dq});
  });
}
template <Queue Q>
[[nodiscard]] result<void> attention_backward(Q& on, const kernels::attention_shape& shape, const float* q, const float* k,
                                              const float* v, const float* o, const float* d_o, const float* logsumexp,
                                              float* dq, float* dk, float* dv) {
  kernels::expect_valid(shape);
  const auto rows = static_cast<std::size_t>(shape.batch * shape.heads * shape.T);
  CAUSEWAY_ASSIGN(const auto correction, on.template take<float>(rows));
  const attention_gradient_operands<float> x{q, k, v, o, d_o, logsumexp, correction.data()};
  const attention_correction_body<float> corrections{shape, x};
  CAUSEWAY_TRY(on.groups(corrections.items(), corrections));
  const attention_plain_key_gradient_body keys{shape, x, dk, dv};
  CAUSEWAY_TRY(on.groups(keys.items(), keys));
  const attention_plain_query_gradient_body queries{shape, x, dq};
  return on.groups(queries.items(), queries);
}

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_OPS_ATTENTION_HPP
