// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NN_PREFIX_FEATURES_HPP
#define CAUSEWAY_NN_PREFIX_FEATURES_HPP

// What a model of modules sorts documents by (DiPaCo: Douillard et al. 2024, section 2.4): the mean of what the last block
// of a model makes of a document's first tokens.

#include <causeway/core/result.hpp>
#include <causeway/tensor/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace nn {

/// How many first tokens of a document the paper looks at.
inline constexpr std::int64_t usual_prefix = 32;

/// Appends a row of `width` features for each of `documents` prefixes of equal length, one after the other in `tokens`. The
/// model computes on the host; its part is the whole. Sums are in double, in the order of the tokens. Cost: a forward pass
/// over the tokens.
template <class Model>
result<void> prefix_features(Model& model, std::span<const std::int32_t> tokens, std::int64_t documents,
                             std::vector<float>& features) {
  CAUSEWAY_ASSIGN(const tensor hidden, model.hidden_states(tokens, documents));
  const auto length = static_cast<std::int64_t>(tokens.size()) / documents, width = model.width();
  std::vector<double> sums(static_cast<std::size_t>(width));
  const float* row = hidden.template data<float>();
  for (std::int64_t d = 0; d < documents; ++d) {
    sums.assign(sums.size(), 0.0);
    for (std::int64_t t = 0; t < length; ++t) {
      for (double& sum : sums) sum += static_cast<double>(*row++);
    }
    for (const double sum : sums) features.push_back(static_cast<float>(sum / static_cast<double>(length)));
  }
  return {};
}

}}}  // namespace causeway::CAUSEWAY_ABI::nn

#endif  // CAUSEWAY_NN_PREFIX_FEATURES_HPP
