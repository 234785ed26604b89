// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_CORPUS_HPP
#define CAUSEWAY_EXAMPLES_CORPUS_HPP

// What a run trains on. Text and JSON lines are cut into tokens once: the tokenizer, which may be trained for it, and the
// tokens are kept in the run's folder and mapped from there the next time. Token shards are mapped where they are.

#include <causeway/core/result.hpp>
#include <causeway/data/token_stream.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "settings.hpp"
#include "text_codec.hpp"
#include "token_chunks.hpp"
#include "token_fetcher.hpp"

namespace app {

struct corpus {
  text_codec codec;
  causeway::data::token_split tokens;
  std::uint64_t bytes = 0;                   ///< of the text; where only its tokens are here, their number
  std::uint64_t hash = 0;                    ///< equal on peers with the same text and tokenizer
  bool has_own_validation = false;           ///< of other files; else it is the end of the same ones
  std::optional<chunk_list> chunks{};        ///< by which others fetch the tokens; none: they are too many
  std::shared_ptr<token_fetcher> fetcher{};  ///< where not all tokens are here

  /// All tokens that are not validation of its own.
  [[nodiscard]] causeway::data::token_stream main_tokens() const;

  /// Blocks until `count` tokens from each of these on are here. Before they are read.
  [[nodiscard]] causeway::result<void> need_training(std::span<const std::int64_t> firsts, std::int64_t count) const;
  [[nodiscard]] causeway::result<void> need_validation(std::span<const std::int64_t> firsts, std::int64_t count) const;
  /// Those will be needed next.
  void want_training(std::span<const std::int64_t> firsts, std::int64_t count) const;
};

/// What is kept of a text in a run's folder, so that it is read and cut into tokens only once.
struct prepared_files {
  explicit prepared_files(const std::string& folder)
      : tokenizer{tokenizer_file(folder)},
        tokens{folder + "/tokens.bin"},
        validation{folder + "/validation.bin"},
        key{folder + "/tokens.key"},
        chunks{folder + "/tokens.chunks"} {}
  std::string tokenizer;
  std::string tokens;
  std::string validation;  ///< only where it is of other files
  std::string key;         ///< names the text that they were made of
  std::string chunks;      ///< where tokens come from other peers
};

/// The text as it was prepared in `folder`, by this peer or by another one.
causeway::result<corpus> kept_corpus(const settings& s, const std::string& folder);

/// From what data.path names; without it, what is kept in the folder. Errors name the file, what is wrong with it, and what
/// would help.
causeway::result<corpus> prepare_corpus(const settings& s, const std::string& folder);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_CORPUS_HPP
