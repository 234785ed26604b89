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

namespace causeway::inline CAUSEWAY_ABI::nn {

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

inline error wrong_batch(const token_limits& l, std::string_view what, const std::string& message) {
  return fail(errc::invalid_argument, std::string{l.name} + " " + std::string{what}, message);
}

inline error wrong_token(const token_limits& l, std::string_view what, std::int32_t token) {
  return wrong_batch(l, what,
                     "token " + std::to_string(token) + "; the vocabulary has " + std::to_string(l.vocabulary) +
                         ": the tokenizer and the model do not match");
}

}  // namespace detail

/// Inputs must make `batch` sequences of 1 to context tokens, each in [0, vocabulary).
[[nodiscard]] inline result<void> check_inputs(const token_limits& l, const micro_batch& b) {
  const auto n = static_cast<std::int64_t>(b.inputs.size());
  if (b.batch < 1 || n < b.batch || n % b.batch != 0) {
    return detail::wrong_batch(
        l, "inputs",
        std::to_string(n) + " tokens do not make " + std::to_string(b.batch) + " sequences of equal, positive length");
  }
  if (n / b.batch > l.context) {
    return detail::wrong_batch(l, "inputs",
                               "sequences of " + std::to_string(n / b.batch) + " tokens; the context is " +
                                   std::to_string(l.context) + ": cut them, or raise the context");
  }
  for (const std::int32_t token : b.inputs) {
    if (token < 0 || token >= l.vocabulary) return detail::wrong_token(l, "inputs", token);
  }
  return {};
}

/// There must be one target for each input, below the vocabulary.
[[nodiscard]] inline result<void> check_targets(const token_limits& l, const micro_batch& b) {
  if (b.targets.size() != b.inputs.size()) {
    return detail::wrong_batch(l, "targets",
                               std::to_string(b.targets.size()) + " targets for " + std::to_string(b.inputs.size()) +
                                   " inputs; give one each (negative: ignore)");
  }
  for (const std::int32_t token : b.targets) {
    if (token >= l.vocabulary) return detail::wrong_token(l, "targets", token);
  }
  return {};
}

/// Activations that another stage sent must be f32 [inputs, width].
[[nodiscard]] inline result<void> check_boundary(const token_limits& l, const micro_batch& b, const tensor& boundary,
                                                 std::int64_t width) {
  const tensor_shape expected{static_cast<std::int64_t>(b.inputs.size()), width};
  if (boundary && boundary.type() == dtype::f32 && boundary.shape() == expected) return {};
  return detail::wrong_batch(l, "boundary",
                             boundary ? std::string{to_string(boundary.type())} + " " + boundary.shape().text() +
                                            " arrived; this stage needs f32 " + expected.text()
                                      : "nothing arrived; this stage needs f32 " + expected.text());
}

}  // namespace causeway::inline CAUSEWAY_ABI::nn

#endif  // CAUSEWAY_NN_MICRO_BATCH_HPP
