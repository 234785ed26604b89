// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NN_IMPL_MICRO_BATCH_IPP
#define CAUSEWAY_NN_IMPL_MICRO_BATCH_IPP

#include <causeway/nn/micro_batch.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace nn { namespace detail {

CAUSEWAY_DECL error wrong_batch(const token_limits& l, std::string_view what, const std::string& message) {
  return fail(errc::invalid_argument, std::string{l.name} + " " + std::string{what}, message);
}

CAUSEWAY_DECL error wrong_token(const token_limits& l, std::string_view what, std::int32_t token) {
  return wrong_batch(l, what,
                     "token " + std::to_string(token) + "; the vocabulary has " + std::to_string(l.vocabulary) +
                         ": the tokenizer and the model do not match");
}

}}}}  // namespace causeway::CAUSEWAY_ABI::nn::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace nn {

CAUSEWAY_DECL result<void> check_inputs(const token_limits& l, const micro_batch& b) {
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

CAUSEWAY_DECL result<void> check_targets(const token_limits& l, const micro_batch& b) {
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

CAUSEWAY_DECL result<void> check_boundary(const token_limits& l, const micro_batch& b, const tensor& boundary,
                                          std::int64_t width) {
  const tensor_shape expected{static_cast<std::int64_t>(b.inputs.size()), width};
  if (boundary && boundary.type() == dtype::f32 && boundary.shape() == expected) return {};
  return detail::wrong_batch(l, "boundary",
                             boundary ? std::string{to_string(boundary.type())} + " " + boundary.shape().text() +
                                            " arrived; this stage needs f32 " + expected.text()
                                      : "nothing arrived; this stage needs f32 " + expected.text());
}

}}}  // namespace causeway::CAUSEWAY_ABI::nn

#endif  // CAUSEWAY_NN_IMPL_MICRO_BATCH_IPP
