// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_CORPUS_HPP
#define CAUSEWAY_EXAMPLES_CORPUS_HPP

// From a text to tokens: trains the tokenizer if there is none for this text yet, keeps it and the tokens in the run's
// folder, and maps the tokens from there the next time.

#include <causeway/core/result.hpp>
#include <causeway/data/bpe_tokenizer.hpp>
#include <causeway/data/token_stream.hpp>
#include <causeway/data/tokenizer.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "settings.hpp"

namespace app {

/// Either tokenizer, chosen at run time.
class text_codec {
 public:
  explicit text_codec(std::variant<causeway::data::byte_tokenizer, causeway::data::bpe_tokenizer> t)
      : tokenizer_{std::move(t)} {}

  /// The one that a run keeps in `folder`.
  static causeway::result<text_codec> load(const settings& s, const std::string& folder);

  std::int64_t vocabulary() const;
  std::vector<std::int32_t> encode(std::string_view text);
  /// As UTF-8; what is not is shown as U+FFFD.
  std::string decode(std::span<const std::int32_t> tokens) const { return shown(bytes_of(tokens)); }
  std::string bytes_of(std::span<const std::int32_t> tokens) const;
  static std::string shown(std::string_view bytes);
  /// The one of bytes is one without merges.
  causeway::data::bpe_tokenizer merges() const;
  std::uint64_t hash() const;

 private:
  std::variant<causeway::data::byte_tokenizer, causeway::data::bpe_tokenizer> tokenizer_;
};

struct corpus {
  text_codec codec;
  causeway::data::token_split tokens;
  std::uint64_t bytes = 0;  ///< of the text; where only its tokens are here, their number
  std::uint64_t hash = 0;   ///< equal on peers with the same text and tokenizer
};

/// What is kept of a text in a run's folder, so that it is read and cut into tokens only once.
struct prepared_files {
  explicit prepared_files(const std::string& folder)
      : tokenizer{folder + "/tokenizer.bpe"}, tokens{folder + "/tokens.bin"}, key{folder + "/tokens.key"} {}
  std::string tokenizer;
  std::string tokens;
  std::string key;  ///< names the text that they were made of
};

/// The text as it was prepared in `folder`, by this peer or by another one.
causeway::result<corpus> kept_corpus(const settings& s, const std::string& folder);

/// From the text at data.path; without one, what is kept in the folder. Errors name the file, what is wrong with it, and
/// what would help.
causeway::result<corpus> prepare_corpus(const settings& s, const std::string& folder);

/// The folder of a run.
std::string run_folder(const settings& s);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_CORPUS_HPP
