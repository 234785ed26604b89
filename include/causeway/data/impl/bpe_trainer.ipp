// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_DATA_IMPL_BPE_TRAINER_IPP
#define CAUSEWAY_DATA_IMPL_BPE_TRAINER_IPP

#include <causeway/data/bpe_trainer.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace data {

CAUSEWAY_DECL bpe_trainer::bpe_trainer(const bpe_options& options) : options_{options} {}

CAUSEWAY_DECL void bpe_trainer::add(std::string_view text) {
  for_each_piece(text, [&](std::string_view piece) {
    const auto known = counts_.find(piece);
    if (known != counts_.end()) {
      ++known->second;
    } else {
      counts_.emplace(std::string{piece}, 1);
    }
  });
}

CAUSEWAY_DECL std::size_t bpe_trainer::pair_hash::operator()(const bpe_merge& m) const noexcept {
  return static_cast<std::size_t>(
      causeway::detail::scramble((static_cast<std::uint64_t>(m.left) << 32U) ^ static_cast<std::uint32_t>(m.right)));
}

CAUSEWAY_DECL result<bpe_tokenizer> bpe_trainer::train() {
  if (counts_.empty()) return fail(errc::bad_text, "tokenizer", "there is no text to train on. Add some");
  prepare();
  std::vector<bpe_merge> merges;
  while (merges.size() < options_.merges && !queue_.empty()) {
    candidate top = queue_.top();
    queue_.pop();
    const std::int64_t now = pairs_[top.pair].count;
    if (now < options_.minimum_count || now == 0) continue;
    if (now != top.count) {  // other merges took some of its places since
      queue_.push({now, top.pair});
      continue;
    }
    apply(top.pair, static_cast<std::int32_t>(256 + merges.size()));
    merges.push_back(top.pair);
  }
  return bpe_tokenizer::make(merges, options_.end_of_text);
}

/// One word per different piece, and the counts of all pairs.
CAUSEWAY_DECL void bpe_trainer::prepare() {
  words_.clear();
  pairs_.clear();
  queue_ = {};
  words_.reserve(counts_.size());
  // The map's order does not matter: only sums over all words are used.
  for (const auto& [text, count] : counts_) {
    word w{.tokens = {}, .count = count};
    for (const char c : text) w.tokens.push_back(static_cast<unsigned char>(c));
    words_.push_back(std::move(w));
  }
  for (std::uint32_t i = 0; i < words_.size(); ++i) change_counts(i, 1, 0);
  for (const auto& [pair, state] : pairs_) queue_.push({state.count, pair});
}

/// Adds (sign 1) or takes away (sign -1) the pairs of one word; lists the word with its pairs that hold `newest` or above.
CAUSEWAY_DECL void bpe_trainer::change_counts(std::uint32_t index, std::int64_t sign, std::int32_t newest) {
  const word& w = words_[index];
  for (std::size_t i = 0; i + 1 < w.tokens.size(); ++i) {
    const bpe_merge pair{w.tokens[i], w.tokens[i + 1]};
    pair_state& state = pairs_[pair];
    state.count += sign * w.count;
    // A word stays listed with a pair for good, so only pairs with the newest token can lack it.
    const bool listed = std::max(pair.left, pair.right) < newest || (!state.words.empty() && state.words.back() == index);
    if (sign > 0 && !listed) state.words.push_back(index);
  }
}

/// Joins `pair` into `token` in every word that has it.
CAUSEWAY_DECL void bpe_trainer::apply(const bpe_merge& pair, std::int32_t token) {
  std::vector<std::uint32_t> touched = std::move(pairs_[pair].words);
  std::sort(touched.begin(), touched.end());
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  std::vector<bpe_merge> grown;
  for (const std::uint32_t index : touched) {
    std::vector<std::int32_t>& tokens = words_[index].tokens;
    change_counts(index, -1, token);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < tokens.size(); ++kept) {
      const bool here = i + 1 < tokens.size() && tokens[i] == pair.left && tokens[i + 1] == pair.right;
      tokens[kept] = here ? token : tokens[i];
      i += here ? 2 : 1;
    }
    tokens.resize(kept);
    change_counts(index, 1, token);
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      if (tokens[i] == token || tokens[i + 1] == token) grown.push_back({tokens[i], tokens[i + 1]});
    }
  }
  // Only pairs with the new token can have become more frequent; the queue finds out about the others when they come up.
  std::sort(grown.begin(), grown.end());
  grown.erase(std::unique(grown.begin(), grown.end()), grown.end());
  for (const bpe_merge& p : grown) queue_.push({pairs_[p].count, p});
  pairs_.erase(pair);
}

CAUSEWAY_DECL result<bpe_tokenizer> train_bpe(std::string_view text, const bpe_options& options) {
  bpe_trainer trainer{options};
  trainer.add(text);
  return trainer.train();
}

CAUSEWAY_DECL result<bpe_tokenizer> train_bpe(std::span<const document> documents, const bpe_options& options) {
  bpe_trainer trainer{options};
  for (const document& d : documents) trainer.add(d.text);
  return trainer.train();
}

}}}  // namespace causeway::CAUSEWAY_ABI::data

#endif  // CAUSEWAY_DATA_IMPL_BPE_TRAINER_IPP
