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

namespace causeway { inline namespace CAUSEWAY_ABI { namespace nn {

/// Bytes, by purpose. Optimizer state is the optimizer's to say.
struct memory_estimate {
  std::size_t parameters = 0;
  std::size_t gradients = 0;
  std::size_t low_precision = 0;         ///< bf16 copies of the weights
  std::size_t activations = 0;           ///< kept between forward and backward, at their peak
  std::size_t activation_gradients = 0;  ///< made on the way back
  std::size_t logits = 0;                ///< one chunk of the output layer
  std::size_t scratch = 0;               ///< packed operands and partial sums of kernels

  CAUSEWAY_DECL [[nodiscard]] std::size_t total() const noexcept;
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

CAUSEWAY_DECL [[nodiscard]] memory_estimate estimate_memory(const model_sizes& s, const activation_bytes& family) noexcept;

}}}  // namespace causeway::CAUSEWAY_ABI::nn

#ifndef CAUSEWAY_COMPILED
#include <causeway/nn/impl/memory_estimate.ipp>
#endif

#endif  // CAUSEWAY_NN_MEMORY_ESTIMATE_HPP
