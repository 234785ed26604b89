// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_DATA_IMPL_SAMPLER_IPP
#define CAUSEWAY_DATA_IMPL_SAMPLER_IPP

// Bodies of data/sampler.hpp.

#include <causeway/data/sampler.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace data {

CAUSEWAY_DECL result<sampler> sampler::make(std::int64_t tokens, const sampler_options& options) {
  const std::int64_t length = options.context_length;
  if (length <= 0) return fail(errc::invalid_argument, "context_length", "must be positive");
  if (tokens < length + 1) {
    return fail(errc::bad_text, "training tokens",
                "too short: " + std::to_string(tokens) + " tokens, one window of context length " + std::to_string(length) +
                    " needs " + std::to_string(length + 1) + ". Give more text, or shorten the context");
  }
  const std::int64_t windows = (tokens - 1) / length;
  const auto missing = [&](std::uint32_t window) { return window >= windows; };
  const bool others = std::any_of(options.only.begin(), options.only.end(), missing);
  if (others || (!options.only.empty() && options.shift_grid)) {
    return fail(errc::invalid_argument, "sampler",
                others ? "`only` names windows that are none of the " + std::to_string(windows)
                       : "`only` names windows of a grid that stays: set shift_grid = false");
  }
  return sampler{tokens, options};
}

CAUSEWAY_DECL sample sampler::sample_at(std::uint64_t n) const noexcept {
  const auto count = static_cast<std::uint64_t>(windows_);
  const std::uint64_t epoch = n / count;
  const permutation order{count, options_.seed, mix(epoch, order_stream)};
  const std::uint64_t at = order(n % count);
  const auto window = static_cast<std::int64_t>(options_.only.empty() ? at : options_.only[at]);
  return {epoch, window, offset_of(epoch) + window * options_.context_length};
}

CAUSEWAY_DECL std::int64_t sampler::offset_of(std::uint64_t epoch) const noexcept {
  if (!shifted_) return 0;
  return static_cast<std::int64_t>(
      rng{options_.seed, mix(epoch, shift_stream)}.below(static_cast<std::uint64_t>(options_.context_length)));
}

CAUSEWAY_DECL std::uint64_t sampler::hash() const noexcept {
  const std::uint64_t whole = mix(mix(options_.seed, static_cast<std::uint64_t>(options_.context_length), shifted_ ? 1 : 0),
                                  static_cast<std::uint64_t>(tokens_));
  if (options_.only.empty()) return whole;
  return mix(whole, hash_bytes(std::as_bytes(std::span{options_.only})));
}

CAUSEWAY_DECL sampler::sampler(std::int64_t tokens, const sampler_options& options) : options_{options}, tokens_{tokens} {
  const std::int64_t length = options.context_length;
  windows_ = (tokens - 1) / length;
  // The last window of the most shifted grid ends at T-1 + W*T, its last target one later: W = tokens/T - 1.
  shifted_ = options.shift_grid && tokens / length - 1 >= 64;
  if (shifted_) windows_ = tokens / length - 1;
  if (!options.only.empty()) windows_ = std::ssize(options.only);
}

}}}  // namespace causeway::CAUSEWAY_ABI::data

#endif  // CAUSEWAY_DATA_IMPL_SAMPLER_IPP
