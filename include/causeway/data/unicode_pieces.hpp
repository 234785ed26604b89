// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_DATA_UNICODE_PIECES_HPP
#define CAUSEWAY_DATA_UNICODE_PIECES_HPP

// Cuts text into pieces as other programs' tokenizers do, by scanners written for their patterns (regular expressions):
//   gpt2    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//   llama3  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|
//           \s+(?!\S)|\s+                                                                  (tiktoken's cl100k_base, too)
// The references take valid UTF-8 only. Here each byte that is not part of it is a character that is neither letter nor
// number nor space, and stays as it is: the pieces in order are the text, for any bytes. A piece may be as long as the
// text.

#include <causeway/config/config.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace data {

/// Whose pieces: those of data/pre_tokenizer.hpp, or those of the patterns above.
enum class piece_rule : std::uint8_t { causeway, gpt2, llama3 };

/// Their names in files, by number.
inline constexpr std::array<std::string_view, 3> piece_rule_names{"causeway", "gpt2", "llama3"};

/// Length of the first piece of `text`; 0 only for an empty text.
CAUSEWAY_DECL [[nodiscard]] std::size_t first_piece(std::string_view text, piece_rule rule) noexcept;

}}}  // namespace causeway::CAUSEWAY_ABI::data

#ifndef CAUSEWAY_COMPILED
#include <causeway/data/impl/unicode_pieces.ipp>
#endif

#endif  // CAUSEWAY_DATA_UNICODE_PIECES_HPP
