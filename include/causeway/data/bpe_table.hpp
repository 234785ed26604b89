// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_DATA_BPE_TABLE_HPP
#define CAUSEWAY_DATA_BPE_TABLE_HPP

// What a byte-level BPE tokenizer consists of, where tokens may have any numbers, and its text: lines of ASCII, the last
// one a checksum. The table of a tokenizer of others, such as GPT-2's, comes from formats/.

#include <causeway/core/result.hpp>
#include <causeway/data/pre_tokenizer.hpp>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace data {

/// Joins token `left` and the token `right` after it.
struct bpe_merge {
  std::int32_t left = 0;
  std::int32_t right = 0;

  friend constexpr bool operator==(const bpe_merge&, const bpe_merge&) = default;
  friend constexpr auto operator<=>(const bpe_merge&, const bpe_merge&) = default;
};

/// A token that no text is cut into, and that has no bytes: the end of a text, for one.
struct special_token {
  std::int32_t token = 0;
  std::string name;

  friend bool operator==(const special_token&, const special_token&) = default;
};

struct bpe_table {
  /// The bytes of token i; empty for special tokens and numbers that no token has. No two are equal.
  std::vector<std::string> tokens;
  /// The first one that fits is applied first. What it makes is the token with these bytes.
  std::vector<bpe_merge> merges;
  std::vector<special_token> specials;
  std::optional<std::int32_t> end_of_text;  ///< one of the special tokens
  piece_rule pieces = piece_rule::gpt2;
  bool whole_pieces = false;  ///< a piece that is a token is that token, whatever merges there are
  bool by_number = false;     ///< tiktoken: all neighbours merge that are a token together, the lowest number first

  friend bool operator==(const bpe_table&, const bpe_table&) = default;
};

/// The table as text: format 2 of tokenizer files.
CAUSEWAY_DECL [[nodiscard]] std::string table_text(const bpe_table& table);

/// The inverse, of a text whose checksum fits; `name` is for messages. Whether the parts fit each other is not checked
/// here: bpe_tokenizer::make does.
CAUSEWAY_DECL result<bpe_table> read_table(std::string_view text, const std::string& name);

namespace detail {

/// Takes lines and words off the front of a text.
class word_reader {
 public:
  explicit word_reader(std::string_view text) noexcept : rest_{text} {}

  /// True if the next characters are `wanted`.
  CAUSEWAY_DECL bool skip(std::string_view wanted) noexcept;
  template <class T>
  bool number(T& value, int base = 10) noexcept {
    const auto [end, failure] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value, base);
    if (failure != std::errc{}) return false;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return true;
  }
  /// Bytes as pairs of hexadecimal digits, up to the end of the line, which it takes too.
  CAUSEWAY_DECL bool hex_line(std::string& bytes);
  [[nodiscard]] std::size_t left() const noexcept { return rest_.size(); }

 private:
  std::string_view rest_;
};

CAUSEWAY_DECL std::string checksum_line(std::string_view body);

}  // namespace detail

}}}  // namespace causeway::CAUSEWAY_ABI::data

#ifndef CAUSEWAY_COMPILED
#include <causeway/data/impl/bpe_table.ipp>
#endif

#endif  // CAUSEWAY_DATA_BPE_TABLE_HPP
