// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NN_MICRO_BATCH_HPP
#define CAUSEWAY_NN_MICRO_BATCH_HPP

// The tokens of one forward and backward pass, and the checks they must pass before any kernel sees them: tokens come from
// files and peers, so a wrong one is an error, not a crash.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/tensor/dtype.hpp>
#include <causeway/tensor/shape.hpp>
#include <causeway/tensor/tensor.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace nn {

/// `batch` sequences of equal length, at most the model's context, one after the other.
struct micro_batch {
  std::span<const std::int32_t> inputs;
  std::span<const std::int32_t> targets;  ///< as many as inputs; negative: this position does not count
  std::int64_t batch = 1;
  float grad_scale = 1.0F;  ///< what gradients are multiplied by; 1 / tokens for the gradient of the mean
  std::uint64_t dropout_stream = 0;
};

/// What a model accepts.
struct token_limits {
  std::string_view name;  ///< of the model, for messages
  std::int64_t context = 0;
  std::int64_t vocabulary = 0;
};

namespace detail {

CAUSEWAY_DECL error wrong_batch(const token_limits& l, std::string_view what, const std::string& message);

CAUSEWAY_DECL error wrong_token(const token_limits& l, std::string_view what, std::int32_t token);

}  // namespace detail

/// Inputs must make `batch` sequences of 1 to context tokens, each in [0, vocabulary).
CAUSEWAY_DECL [[nodiscard]] result<void> check_inputs(const token_limits& l, const micro_batch& b);

/// There must be one target for each input, below the vocabulary.
CAUSEWAY_DECL [[nodiscard]] result<void> check_targets(const token_limits& l, const micro_batch& b);

/// Activations that another stage sent must be f32 [inputs, width].
CAUSEWAY_DECL [[nodiscard]] result<void> check_boundary(const token_limits& l, const micro_batch& b, const tensor& boundary,
                                                        std::int64_t width);

}}}  // namespace causeway::CAUSEWAY_ABI::nn

#ifndef CAUSEWAY_COMPILED
#include <causeway/nn/impl/micro_batch.ipp>
#endif

#endif  // CAUSEWAY_NN_MICRO_BATCH_HPP
