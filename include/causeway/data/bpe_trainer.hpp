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

namespace causeway { inline namespace CAUSEWAY_ABI { namespace data {

struct bpe_options {
  std::size_t merges = 1024;       ///< at most; fewer if the text runs out of repeated pairs
  std::int64_t minimum_count = 2;  ///< a pair that is rarer is not joined
  bool end_of_text = true;         ///< adds that token after the merges
};

/// Counts the pieces of one text after another, then trains. Memory: the different pieces and their places in pairs.
class bpe_trainer {
 public:
  CAUSEWAY_DECL explicit bpe_trainer(const bpe_options& options = {});

  CAUSEWAY_DECL void add(std::string_view text);

  /// Learns from all texts added. errc::bad_text if there was none.
  CAUSEWAY_DECL result<bpe_tokenizer> train();

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
    CAUSEWAY_DECL std::size_t operator()(const bpe_merge& m) const noexcept;
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

  CAUSEWAY_DECL void prepare();
  CAUSEWAY_DECL void change_counts(std::uint32_t index, std::int64_t sign, std::int32_t newest);
  CAUSEWAY_DECL void apply(const bpe_merge& pair, std::int32_t token);

  bpe_options options_;
  std::unordered_map<std::string, std::int64_t, text_hash, std::equal_to<>> counts_;
  std::vector<word> words_;
  std::unordered_map<bpe_merge, pair_state, pair_hash> pairs_;
  std::priority_queue<candidate> queue_;
};

/// Trains on one text.
CAUSEWAY_DECL result<bpe_tokenizer> train_bpe(std::string_view text, const bpe_options& options = {});

/// Trains on documents.
CAUSEWAY_DECL result<bpe_tokenizer> train_bpe(std::span<const document> documents, const bpe_options& options = {});

}}}  // namespace causeway::CAUSEWAY_ABI::data

#ifndef CAUSEWAY_COMPILED
#include <causeway/data/impl/bpe_trainer.ipp>
#endif

#endif  // CAUSEWAY_DATA_BPE_TRAINER_HPP
