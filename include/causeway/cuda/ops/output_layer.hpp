// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_OPS_OUTPUT_LAYER_HPP
#define CAUSEWAY_CUDA_OPS_OUTPUT_LAYER_HPP

// The output layer and its loss over a queue. Logits of a large vocabulary would be the largest tensor of a model, so a
// chunk of rows at a time goes through logits, loss and both gradients.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/cuda/bodies/cross_entropy_body.hpp>
#include <causeway/cuda/ops/products.hpp>
#include <causeway/cuda/ops/reductions.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// The most bytes of f32 logits at a time: enough rows for a product to fill a large device.
inline constexpr std::int64_t output_layer_bytes = std::int64_t{1} << 30U;

/// Rows of logits are padded to whole 16-byte pieces of bf16, which products need to be quick.
constexpr std::int64_t logit_stride(std::int64_t V) noexcept { return (V + 7) / 8 * 8; }

constexpr std::int64_t output_layer_rows(std::int64_t rows, std::int64_t V, std::int64_t bytes) noexcept {
  const std::int64_t most = std::max<std::int64_t>(64, bytes / (4 * logit_stride(V)));
  const std::int64_t chunks = std::max<std::int64_t>(1, (rows + most - 1) / most);
  return (rows + chunks - 1) / chunks;
}

namespace detail {

/// Rows [begin, begin + rows): logits = x wᵀ, their losses and gradient, dx = gradient w, dw += gradientᵀ x.
template <class Act>
struct output_chunk {
  const Act* x;
  const Act* w;
  const std::int32_t* targets;
  float* losses;
  float* logits;
  Act* gradient;  ///< null: only the loss
  std::int64_t rows, C, V;
  float scale;
  Act* dx;
  float* dw;
};

template <class Act, ProductQueue Q>
result<void> run_chunk(Q& q, const output_chunk<Act>& c) {
  const std::int64_t stride = logit_stride(c.V);
  matmul_args<Act, float> scores{.transpose_b = true, .m = c.rows, .n = c.V, .k = c.C};
  scores.a = c.x, scores.lda = c.C, scores.b = c.w, scores.ldb = c.C, scores.c = c.logits, scores.ldc = stride;
  CAUSEWAY_TRY(q.multiply(scores));
  const cross_entropy_body<float, Act> loss{c.logits, c.gradient, c.targets, c.losses, c.V, stride, c.scale};
  CAUSEWAY_TRY(q.rows(c.rows, c.V, loss));
  if (c.dx != nullptr) {
    matmul_args<Act, Act> inputs{.m = c.rows, .n = c.C, .k = c.V};
    inputs.a = c.gradient, inputs.lda = stride, inputs.b = c.w, inputs.ldb = c.C, inputs.c = c.dx, inputs.ldc = c.C;
    CAUSEWAY_TRY(q.multiply(inputs));
  }
  if (c.dw == nullptr) return {};
  matmul_args<Act, float> weights{.transpose_a = true, .m = c.V, .n = c.C, .k = c.rows};
  weights.a = c.gradient, weights.lda = stride, weights.b = c.x, weights.ldb = c.C, weights.c = c.dw, weights.ldc = c.C;
  weights.accumulate = true;
  return q.multiply(weights);
}

}  // namespace detail

/// *loss = Σ over rows of -log softmax(x wᵀ)[target], in f64, rows with a negative target left out; dx (overwritten) and dw
/// (added to) receive the gradient of grad_scale times that sum: kernels::cross_entropy in the queue. x [rows, C], w [V,
/// C]; all memory is the queue's. Takes the logits of a chunk, half as much again where Act is bf16, and 4 bytes a row.
template <class Act, ProductQueue Q>
[[nodiscard]] result<void> output_layer(Q& q, const Act* x, const Act* w, const std::int32_t* targets, std::int64_t rows,
                                        std::int64_t C, std::int64_t V, float grad_scale, Act* dx, float* dw, double* loss,
                                        std::int64_t bytes = output_layer_bytes) {
  const std::int64_t chunk = output_layer_rows(rows, V, bytes);
  const bool training = dx != nullptr || dw != nullptr;
  const auto count = static_cast<std::size_t>(chunk * logit_stride(V));
  CAUSEWAY_ASSIGN(const auto logits, q.template take<float>(count));
  CAUSEWAY_ASSIGN(const auto losses, q.template take<float>(static_cast<std::size_t>(std::max<std::int64_t>(rows, 1))));
  constexpr bool in_place = std::is_same_v<Act, float>;
  CAUSEWAY_ASSIGN(const auto separate, q.template take<Act>(in_place || !training ? 1 : count));
  Act* gradient = separate.data();
  if constexpr (in_place) gradient = logits.data();
  for (std::int64_t begin = 0; begin < rows; begin += chunk) {
    const detail::output_chunk<Act> part{x + begin * C,
                                         w,
                                         targets + begin,
                                         losses.data() + begin,
                                         logits.data(),
                                         training ? gradient : nullptr,
                                         std::min(chunk, rows - begin),
                                         C,
                                         V,
                                         grad_scale,
                                         dx == nullptr ? nullptr : dx + begin * C,
                                         dw};
    CAUSEWAY_TRY(detail::run_chunk(q, part));
  }
  return total_of<summand::value>(q, losses.data(), rows, loss);
}

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_OPS_OUTPUT_LAYER_HPP
