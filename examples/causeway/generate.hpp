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
#include <string_view>
#include <vector>

#include "chosen_model.hpp"
#include "settings.hpp"
#include "text_codec.hpp"

namespace app {

/// One token from `logits`: the likeliest at temperature 0, else drawn from the k likeliest, and of these from the
/// likeliest that have the share top_p of their probability together (Holtzman et al. 2020).
inline std::int32_t choose(std::span<const float> logits, const settings& s, causeway::rng& random) {
  const float temperature = s.sample.temperature;
  const std::int64_t top_k = s.sample.top_k;
  if (temperature <= 0) return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto better = [&](std::int32_t a, std::int32_t b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  };
  std::size_t kept = top_k > 0 ? std::min(order.size(), static_cast<std::size_t>(top_k)) : order.size();
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(), better);
  std::vector<double> weights(kept);
  const double top = static_cast<double>(logits[static_cast<std::size_t>(order[0])]);
  for (std::size_t i = 0; i < kept; ++i) {
    weights[i] = std::exp((static_cast<double>(logits[static_cast<std::size_t>(order[i])]) - top) /
                          static_cast<double>(temperature));
  }
  double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (s.sample.top_p < 1) {
    const double wanted = static_cast<double>(s.sample.top_p) * sum;
    kept = 0, sum = 0;
    while (sum < wanted && kept < weights.size()) sum += weights[kept++];
  }
  double draw = static_cast<double>(random.uniform()) * sum;
  for (std::size_t i = 0; i < kept; ++i) {
    draw -= weights[i];
    if (draw <= 0) return order[i];
  }
  return order[kept - 1];
}

/// How much of `text` ends with a whole character: the last one may still be in the making.
inline std::size_t whole_characters(std::string_view text) {
  for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0U) == 0x80U) continue;  // goes on with one
    const std::size_t length = byte >= 0xF0U ? 4 : byte >= 0xE0U ? 3 : byte >= 0xC0U ? 2 : 1;
    return length > back ? text.size() - back : text.size();
  }
  return text.size();
}

/// A text that is being written.
struct text_so_far {
  text_so_far(text_codec& codec, const settings& s)
      : tokens{codec.encode(s.sample.prompt)}, random{s.run.seed, causeway::mix(0x73616D706C65)} {
    if (tokens.empty()) tokens = codec.encode("\n");
  }

  /// What was not told yet, or what of it has whole characters.
  void tell(text_codec& codec, const text_sink& to, bool all) {
    if (!to) return;
    const std::string bytes = codec.bytes_of(std::span{tokens}.subspan(told));
    const std::size_t whole = all ? bytes.size() : whole_characters(bytes);
    if (whole < bytes.size()) return;  // some token ends within a character
    to(text_codec::shown(bytes));
    told = tokens.size();
  }

  std::vector<std::int32_t> tokens;
  causeway::rng random;
  std::size_t told = 0;
};

/// So many tokens more. The oldest fall out when the context is full.
template <class Model>
causeway::result<void> extend_text(Model& model, text_codec& codec, const settings& s, const text_sink& to,
                                   text_so_far& text, std::int64_t count) {
  const auto context = static_cast<std::size_t>(model.context_length());
  std::vector<float> logits(static_cast<std::size_t>(model.vocabulary()));
  auto past = model.make_cache();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::span<const std::int32_t> all{text.tokens};
    if (all.size() <= context) {
      CAUSEWAY_TRY(model.next_token_logits(all.subspan(static_cast<std::size_t>(past.length())), std::span{logits}, past));
    } else {  // every token has another position than before
      CAUSEWAY_TRY(model.next_token_logits(all.last(context), std::span{logits}));
    }
    const auto known = std::min(logits.size(), static_cast<std::size_t>(codec.vocabulary()));  // others have no text
    text.tokens.push_back(choose(std::span{logits}.first(known), s, text.random));
    text.tell(codec, to, false);
  }
  return {};
}

/// The prompt and what the model says after it.
template <class Model>
causeway::result<std::string> sample_text(Model& model, text_codec& codec, const settings& s, const text_sink& to) {
  CAUSEWAY_TRY(codec.check_special());
  text_so_far text{codec, s};
  text.tell(codec, to, false);
  CAUSEWAY_TRY(extend_text(model, codec, s, to, text, s.sample.tokens));
  text.tell(codec, to, true);
  return codec.decode(text.tokens);
}

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_GENERATE_HPP
