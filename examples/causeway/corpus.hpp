// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_CORPUS_HPP
#define CAUSEWAY_EXAMPLES_CORPUS_HPP

// What a run trains on. Text and JSON lines are cut into tokens once: the tokenizer, which may be trained for it, and the
// tokens are kept in the run's folder and mapped from there the next time. Token shards are mapped where they are.

#include <causeway/core/result.hpp>
#include <causeway/data/token_stream.hpp>

#include <cstdint>
#include <string>

#include "settings.hpp"
#include "text_codec.hpp"

namespace app {

struct corpus {
  text_codec codec;
  causeway::data::token_split tokens;
  std::uint64_t bytes = 0;          ///< of the text; where only its tokens are here, their number
  std::uint64_t hash = 0;           ///< equal on peers with the same text and tokenizer
  bool has_own_validation = false;  ///< of other files; else it is the end of the same ones

  /// All tokens that are not validation of its own.
  [[nodiscard]] causeway::data::token_stream main_tokens() const;
};

/// What is kept of a text in a run's folder, so that it is read and cut into tokens only once.
struct prepared_files {
  explicit prepared_files(const std::string& folder)
      : tokenizer{tokenizer_file(folder)},
        tokens{folder + "/tokens.bin"},
        validation{folder + "/validation.bin"},
        key{folder + "/tokens.key"} {}
  std::string tokenizer;
  std::string tokens;
  std::string validation;  ///< only where it is of other files
  std::string key;         ///< names the text that they were made of
};

/// The text as it was prepared in `folder`, by this peer or by another one.
causeway::result<corpus> kept_corpus(const settings& s, const std::string& folder);

/// From what data.path names; without it, what is kept in the folder. Errors name the file, what is wrong with it, and what
/// would help.
causeway::result<corpus> prepare_corpus(const settings& s, const std::string& folder);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_CORPUS_HPP
