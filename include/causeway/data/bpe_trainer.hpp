// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_DATA_BPE_TRAINER_HPP
#define CAUSEWAY_DATA_BPE_TRAINER_HPP

// Learns byte-pair merges from text: again and again joins the most frequent pair of neighbours. Works on the different
// pieces of the text with their counts, and updates only the pairs of pieces that a merge touches. The merges are a
// function of the counts alone: equally frequent pairs go in the order of their numbers (left, then right).

#include <causeway/core/result.hpp>
#include <causeway/data/bpe_tokenizer.hpp>
#include <causeway/data/pre_tokenizer.hpp>
#include <causeway/data/text.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::data {

struct bpe_options {
  std::size_t merges = 1024;       ///< at most; fewer if the text runs out of repeated pairs
  std::int64_t minimum_count = 2;  ///< a pair that is rarer is not joined
  bool end_of_text = true;         ///< adds that token after the merges
};

/// Counts the pieces of one text after another, then trains. Memory: the different pieces and their places in pairs.
class bpe_trainer {
 public:
  explicit bpe_trainer(const bpe_options& options = {}) : options_{options} {}

  void add(std::string_view text) {
    for_each_piece(text, [&](std::string_view piece) {
      const auto known = counts_.find(piece);
      if (known != counts_.end()) {
        ++known->second;
      } else {
        counts_.emplace(std::string{piece}, 1);
      }
    });
  }

  /// Learns from all texts added. errc::bad_text if there was none.
  result<bpe_tokenizer> train();

 private:
  struct text_hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view s) const noexcept { return std::hash<std::string_view>{}(s); }
  };

  struct word {
    std::vector<std::int32_t> tokens;
    std::int64_t count = 0;
  };

  struct pair_hash {
    std::size_t operator()(const bpe_merge& m) const noexcept {
      return static_cast<std::size_t>(
          causeway::detail::scramble((static_cast<std::uint64_t>(m.left) << 32U) ^ static_cast<std::uint32_t>(m.right)));
    }
  };

  struct pair_state {
    std::int64_t count = 0;
    std::vector<std::uint32_t> words;  // where the pair is or was; the same word may stand here twice
  };

  /// A pair and the count it had when it was put into the queue.
  struct candidate {
    std::int64_t count = 0;
    bpe_merge pair;
    friend bool operator<(const candidate& a, const candidate& b) noexcept {
      return a.count != b.count ? a.count < b.count : b.pair < a.pair;
    }
  };

  void prepare();
  void change_counts(std::uint32_t index, std::int64_t sign, std::int32_t newest);
  void apply(const bpe_merge& pair, std::int32_t token);

  bpe_options options_;
  std::unordered_map<std::string, std::int64_t, text_hash, std::equal_to<>> counts_;
  std::vector<word> words_;
  std::unordered_map<bpe_merge, pair_state, pair_hash> pairs_;
  std::priority_queue<candidate> queue_;
};

inline result<bpe_tokenizer> bpe_trainer::train() {
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
inline void bpe_trainer::prepare() {
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
inline void bpe_trainer::change_counts(std::uint32_t index, std::int64_t sign, std::int32_t newest) {
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
inline void bpe_trainer::apply(const bpe_merge& pair, std::int32_t token) {
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

/// Trains on one text.
inline result<bpe_tokenizer> train_bpe(std::string_view text, const bpe_options& options = {}) {
  bpe_trainer trainer{options};
  trainer.add(text);
  return trainer.train();
}

/// Trains on documents.
inline result<bpe_tokenizer> train_bpe(std::span<const document> documents, const bpe_options& options = {}) {
  bpe_trainer trainer{options};
  for (const document& d : documents) trainer.add(d.text);
  return trainer.train();
}

}  // namespace causeway::inline CAUSEWAY_ABI::data

#endif  // CAUSEWAY_DATA_BPE_TRAINER_HPP
