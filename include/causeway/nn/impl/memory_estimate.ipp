// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NN_IMPL_MEMORY_ESTIMATE_IPP
#define CAUSEWAY_NN_IMPL_MEMORY_ESTIMATE_IPP

#include <causeway/nn/memory_estimate.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace nn {

CAUSEWAY_DECL std::size_t memory_estimate::total() const noexcept {
  return parameters + gradients + low_precision + activations + activation_gradients + logits + scratch;
}

CAUSEWAY_DECL memory_estimate estimate_memory(const model_sizes& s, const activation_bytes& family) noexcept {
  const auto bytes = [&s](std::int64_t columns, std::size_t each) { return pooled_bytes(s.rows, columns, each); };
  const std::size_t size = s.low ? 2 : 4;
  const auto layers = static_cast<std::size_t>(s.layers);
  const auto length = static_cast<std::size_t>(s.parameters);
  memory_estimate e;
  e.parameters = e.gradients = length * sizeof(float);
  e.low_precision = s.low ? length * 2 : 0;
  // All blocks, or the inputs of all blocks and one block; then the end of the stream and what the output layer reads.
  e.activations = (s.recompute ? layers * bytes(s.width, 4) + family.block : layers * family.block) + bytes(s.width, 4) +
                  bytes(s.width, size) + 2 * bytes(1, 4);
  // The gradient of the stream and of one norm's output, in bf16 mode a rounded copy, and the block's largest.
  e.activation_gradients = bytes(s.width, 4) + bytes(s.width, size) + (s.low ? bytes(s.width, size) : 0) + family.transient;
  const std::int64_t chunk = kernels::detail::rows_per_chunk(s.rows, s.vocabulary);
  e.logits = static_cast<std::size_t>(chunk * s.vocabulary) * (s.low ? 6 : 4);
  // Products pack blocks of both operands; the widest layer's is width × 4·width.
  e.scratch = (std::size_t{4} << 20U) + 16 * static_cast<std::size_t>(s.width * s.width);
  return e;
}

}}}  // namespace causeway::CAUSEWAY_ABI::nn

#endif  // CAUSEWAY_NN_IMPL_MEMORY_ESTIMATE_IPP
