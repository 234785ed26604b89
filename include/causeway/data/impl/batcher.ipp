// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_DATA_IMPL_BATCHER_IPP
#define CAUSEWAY_DATA_IMPL_BATCHER_IPP

#include <causeway/data/batcher.hpp>

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

CAUSEWAY_DECL batcher::batcher(token_stream tokens, const sampler& order, std::int64_t global_batch)
    : tokens_{std::move(tokens)}, order_{order}, global_batch_{global_batch} {}

CAUSEWAY_DECL result<batcher> batcher::make(token_stream tokens, const sampler_options& options,
                                            std::int64_t global_batch) {
  if (global_batch <= 0) return fail(errc::invalid_argument, "global batch", "must be at least one sequence");
  CAUSEWAY_ASSIGN(sampler order, sampler::make(tokens.size(), options));
  return batcher{std::move(tokens), order, global_batch};
}

CAUSEWAY_DECL batch batcher::current(std::uint32_t peer, std::uint32_t peers) {
  const index_range part = part_of_batch(global_batch_, peer, peers);
  return at(cursor_ + static_cast<std::uint64_t>(part.begin), part.size());
}

CAUSEWAY_DECL batch batcher::next(std::uint32_t peer, std::uint32_t peers) {
  const batch b = current(peer, peers);
  advance();
  return b;
}

CAUSEWAY_DECL batch batcher::at(std::uint64_t first, std::int64_t sequences) {
  return fill(sequences, [&](std::size_t i) { return first + i; });
}

CAUSEWAY_DECL batch batcher::of(std::span<const std::uint64_t> numbers) {
  return fill(static_cast<std::int64_t>(numbers.size()), [&](std::size_t i) { return numbers[i]; });
}

CAUSEWAY_DECL double batcher::epochs() const noexcept {
  return static_cast<double>(cursor_) / static_cast<double>(order_.windows());
}

CAUSEWAY_DECL void batcher::set_global_batch(std::int64_t sequences) noexcept {
  CAUSEWAY_EXPECT(sequences > 0);
  global_batch_ = sequences;
}

CAUSEWAY_DECL validation_windows::validation_windows(token_stream tokens, std::int64_t length, std::int64_t count,
                                                     std::int64_t available)
    : tokens_{std::move(tokens)}, length_{length}, count_{count}, available_{available} {}

CAUSEWAY_DECL result<validation_windows> validation_windows::make(token_stream tokens, std::int64_t context_length,
                                                                  std::int64_t limit) {
  if (context_length <= 0 || limit <= 0) {
    return fail(errc::invalid_argument, "validation", "context length and number of windows must be positive");
  }
  const std::int64_t available = tokens.size() == 0 ? 0 : (tokens.size() - 1) / context_length;
  if (available == 0) {
    return fail(errc::bad_text, "validation tokens",
                "too short: " + std::to_string(tokens.size()) + " tokens, one window needs " +
                    std::to_string(context_length + 1) + ". Give more text, or keep a larger part of it for validation");
  }
  return validation_windows{std::move(tokens), context_length, std::min(limit, available), available};
}

CAUSEWAY_DECL std::int64_t validation_windows::first_token(std::int64_t index) const noexcept {
  return index * available_ / count_ * length_;
}

CAUSEWAY_DECL batch validation_windows::at(std::int64_t first, std::int64_t count) {
  CAUSEWAY_EXPECT(first >= 0 && count >= 0 && first + count <= count_);
  const auto length = static_cast<std::size_t>(length_);
  inputs_.resize(static_cast<std::size_t>(count) * length);
  targets_.resize(inputs_.size());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::size_t row = static_cast<std::size_t>(i) * length;
    const std::int64_t token = first_token(first + i);
    tokens_.read(token, std::span{inputs_}.subspan(row, length));
    tokens_.read(token + 1, std::span{targets_}.subspan(row, length));
  }
  return {inputs_, targets_, count};
}

}}}  // namespace causeway::CAUSEWAY_ABI::data

#endif  // CAUSEWAY_DATA_IMPL_BATCHER_IPP
