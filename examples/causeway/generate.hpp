// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_GENERATE_HPP
#define CAUSEWAY_EXAMPLES_GENERATE_HPP

// Text from a trained model.

#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "corpus.hpp"
#include "settings.hpp"

namespace app {

/// One token from `logits`: the likeliest at temperature 0, else drawn from the k likeliest.
inline std::int32_t choose(std::span<const float> logits, float temperature, std::int64_t top_k, causeway::rng& random) {
  if (temperature <= 0) return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto better = [&](std::int32_t a, std::int32_t b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  };
  const std::size_t kept = top_k > 0 ? std::min(order.size(), static_cast<std::size_t>(top_k)) : order.size();
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(), better);
  std::vector<double> weights(kept);
  const double top = static_cast<double>(logits[static_cast<std::size_t>(order[0])]);
  for (std::size_t i = 0; i < kept; ++i) {
    weights[i] = std::exp((static_cast<double>(logits[static_cast<std::size_t>(order[i])]) - top) /
                          static_cast<double>(temperature));
  }
  double draw = static_cast<double>(random.uniform()) * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (std::size_t i = 0; i < kept; ++i) {
    draw -= weights[i];
    if (draw <= 0) return order[i];
  }
  return order[kept - 1];
}

/// The prompt and what the model says after it. The oldest tokens fall out when the context is full.
template <class Model>
causeway::result<std::string> sample_text(Model& model, text_codec& codec, const settings& s) {
  std::vector<std::int32_t> tokens = codec.encode(s.sample.prompt);
  if (tokens.empty()) tokens = codec.encode("\n");
  const auto context = static_cast<std::size_t>(model.context_length());
  std::vector<float> logits(static_cast<std::size_t>(model.vocabulary()));
  causeway::rng random{s.run.seed, causeway::mix(0x73616D706C65)};
  for (std::int64_t i = 0; i < s.sample.tokens; ++i) {
    const std::size_t first = tokens.size() > context ? tokens.size() - context : 0;
    CAUSEWAY_TRY(model.next_token_logits(std::span<const std::int32_t>{tokens}.subspan(first), std::span{logits}));
    tokens.push_back(choose(logits, s.sample.temperature, s.sample.top_k, random));
  }
  return codec.decode(tokens);
}

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_GENERATE_HPP
