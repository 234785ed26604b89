// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NN_MEMORY_ESTIMATE_HPP
#define CAUSEWAY_NN_MEMORY_ESTIMATE_HPP

// How much memory a training step needs, from the shape alone: so that a peer can refuse a model before it starts, or
// choose recomputation. Counted as the tape really keeps things, size classes of the pool included.

#include <causeway/config/config.hpp>
#include <causeway/kernels/cross_entropy.hpp>
#include <causeway/nn/pass.hpp>

#include <cstddef>
#include <cstdint>

namespace causeway::inline CAUSEWAY_ABI::nn {

/// Bytes, by purpose. Optimizer state is the optimizer's to say.
struct memory_estimate {
  std::size_t parameters = 0;
  std::size_t gradients = 0;
  std::size_t low_precision = 0;         ///< bf16 copies of the weights
  std::size_t activations = 0;           ///< kept between forward and backward, at their peak
  std::size_t activation_gradients = 0;  ///< made on the way back
  std::size_t logits = 0;                ///< one chunk of the output layer
  std::size_t scratch = 0;               ///< packed operands and partial sums of kernels

  [[nodiscard]] std::size_t total() const noexcept {
    return parameters + gradients + low_precision + activations + activation_gradients + logits + scratch;
  }
};

/// What an estimate depends on.
struct model_sizes {
  std::int64_t rows = 0;  ///< batch · T
  std::int64_t width = 0;
  std::int64_t layers = 0;
  std::int64_t vocabulary = 0;
  std::int64_t parameters = 0;  ///< length of the flat buffer
  bool low = false;
  bool recompute = false;
};

[[nodiscard]] inline memory_estimate estimate_memory(const model_sizes& s, const activation_bytes& family) noexcept {
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

}  // namespace causeway::inline CAUSEWAY_ABI::nn

#endif  // CAUSEWAY_NN_MEMORY_ESTIMATE_HPP
