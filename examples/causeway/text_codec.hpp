// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_TEXT_CODEC_HPP
#define CAUSEWAY_EXAMPLES_TEXT_CODEC_HPP

// The tokenizer of a run: which one the settings name, where its files are, and text to tokens and back.

#include <causeway/core/result.hpp>
#include <causeway/data/bpe_tokenizer.hpp>
#include <causeway/data/tokenizer.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "settings.hpp"

namespace app {

/// Either tokenizer, chosen at run time.
class text_codec {
 public:
  /// `s` says whether special tokens are taken from text.
  text_codec(const settings& s, std::variant<causeway::data::byte_tokenizer, causeway::data::bpe_tokenizer> t)
      : tokenizer_{std::move(t)}, special_{s.data.special} {}

  /// The one that a run keeps in `folder`.
  static causeway::result<text_codec> load(const settings& s, const std::string& folder);

  std::int64_t vocabulary() const;
  std::optional<std::int32_t> end_of_text() const;
  std::vector<std::int32_t> encode(std::string_view text);
  /// Appends to `tokens`.
  void encode(std::string_view text, std::vector<std::int32_t>& tokens);
  /// errc::invalid_argument if special tokens are to be taken from text and there are none.
  causeway::result<void> check_special() const;
  /// The same, and if a name has white space in it, at which long texts are cut into pieces.
  causeway::result<void> check_special_of_texts() const;
  /// As UTF-8; what is not is shown as U+FFFD. Special tokens have no bytes, but where they are taken from text: their
  /// names.
  std::string decode(std::span<const std::int32_t> tokens) const { return shown(bytes_of(tokens)); }
  std::string bytes_of(std::span<const std::int32_t> tokens) const;
  static std::string shown(std::string_view bytes);
  /// The one of bytes is one without merges.
  causeway::data::bpe_tokenizer merges() const;
  std::uint64_t hash() const;
  /// What its tokens are stored in.
  causeway::data::token_width width() const;

 private:
  /// Those that are taken from text.
  std::span<const causeway::data::special_token> specials() const;

  std::variant<causeway::data::byte_tokenizer, causeway::data::bpe_tokenizer> tokenizer_;
  bool special_;  // tokens are taken from text
};

/// Where a folder keeps a tokenizer of our own.
std::string tokenizer_file(const std::string& folder);

/// What data.tokenizer says, taken apart: a path becomes data.tokenizer_folder, and token shards with a tokenizer beside
/// them use that unless something else was said here (`from`).
causeway::result<void> choose_tokenizer(settings& s, const origins& from);

/// The tokenizer that comes from files, of data.tokenizer_folder or model.init; none if data.tokenizer names none of these
/// or the folder is not known here.
causeway::result<std::optional<causeway::data::bpe_tokenizer>> named_tokenizer(const settings& s);

/// Why there is no tokenizer, where the settings name one that `named_tokenizer` does not find.
causeway::error tokenizer_missing(const settings& s);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_TEXT_CODEC_HPP
