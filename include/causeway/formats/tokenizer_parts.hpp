// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_FORMATS_TOKENIZER_PARTS_HPP
#define CAUSEWAY_FORMATS_TOKENIZER_PARTS_HPP

// Tokenizers of other programs in the files that are no tokenizer.json: GPT-2's vocab.json with merges.txt, and tiktoken's
// list of ranks, which is Llama 3's tokenizer.model; and what all readers of tokenizers have in common. Files are not
// trusted: names, numbers and sizes are checked.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/data/bpe_tokenizer.hpp>
#include <causeway/formats/json.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats {

// GPT-2's letter for each byte, by which files of byte-level tokenizers name tokens: the byte itself where it is printable
// in Latin-1, else one of the letters from U+0100 on, in order. Each byte has one letter, and back.

/// A letter for each byte, in UTF-8.
CAUSEWAY_DECL [[nodiscard]] std::string letters_of(std::string_view bytes);

/// The inverse; nothing if a character is no such letter.
CAUSEWAY_DECL [[nodiscard]] std::optional<std::string> bytes_of_letters(std::string_view letters);

/// GPT-2's tokenizer from the texts of vocab.json and merges.txt; text is cut by piece_rule::gpt2. `where` names them in
/// messages. errc::unsupported for tokens that are not byte-level, errc::corrupt for what does not fit together.
CAUSEWAY_DECL result<data::bpe_tokenizer> read_vocabulary_and_merges(std::string_view vocabulary, std::string_view merges,
                                                                     const std::string& where);

/// tiktoken's: lines of a token in base64 and its number. Which rule cuts text is not in the file. Its special tokens are
/// not there either; those that begin and end a text get the numbers after the last one, as in GPT-2 and Llama 3.
CAUSEWAY_DECL result<data::bpe_tokenizer> read_tiktoken(std::string_view text, data::piece_rule rule,
                                                        const std::string& where);

namespace detail {

/// Puts a table together from tokens that are named by the letters of their bytes.
class tokenizer_parts {
 public:
  explicit tokenizer_parts(std::string where) : where_{std::move(where)} {}

  /// errc::unsupported: `why` says what the file has that is not known here.
  CAUSEWAY_DECL [[nodiscard]] error refuse(const std::string& why) const;

  /// Before the vocabulary, which may have the token once more.
  CAUSEWAY_DECL result<void> add_special(std::int64_t token, const std::string& name);
  /// An object: numbers by names.
  CAUSEWAY_DECL result<void> add_vocabulary(const json_value& vocabulary);
  CAUSEWAY_DECL result<void> add_token(std::int64_t token, std::string bytes);
  /// After the vocabulary. Of two names, or of "left right".
  CAUSEWAY_DECL result<void> add_merge(const std::string& left, const std::string& right);
  CAUSEWAY_DECL result<void> add_merge(const std::string& both);
  [[nodiscard]] std::int64_t numbers() const noexcept { return static_cast<std::int64_t>(table_.tokens.size()); }
  [[nodiscard]] data::bpe_table& table() noexcept { return table_; }
  /// The tokenizer of all that was added.
  CAUSEWAY_DECL result<data::bpe_tokenizer> finish() &&;

 private:
  CAUSEWAY_DECL result<void> reserve(std::int64_t token);

  std::string where_;
  data::bpe_table table_;
  std::map<std::string, std::int32_t> numbers_;   // of tokens with bytes, by name
  std::map<std::string, std::int32_t> specials_;  // of the others
};

}  // namespace detail

// A tokenizer as other programs store it: tokens by name, merges as pairs of names. The name of a token is the letters of
// its bytes, that of a special token is its own. Every token has another name, or there are none.

struct token_names {
  std::vector<std::string> tokens;  ///< by number; empty where there is no such token
  std::vector<std::string> merges;  ///< "left right", the first one that fits is applied first
};

/// The names of a tokenizer; that of bytes has no merges. errc::unsupported if two tokens have the same name: `where`, the
/// file that is to be written, cannot hold such a tokenizer.
CAUSEWAY_DECL result<token_names> names_of(const data::bpe_tokenizer& tokenizer, const std::string& where);

}}}  // namespace causeway::CAUSEWAY_ABI::formats

#ifndef CAUSEWAY_COMPILED
#include <causeway/formats/impl/tokenizer_parts.ipp>
#endif

#endif  // CAUSEWAY_FORMATS_TOKENIZER_PARTS_HPP
