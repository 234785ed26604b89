// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_DATA_PRE_TOKENIZER_HPP
#define CAUSEWAY_DATA_PRE_TOKENIZER_HPP

// Cuts text into the pieces that byte-pair merges never cross. On ASCII the cuts are those of GPT-2 (Radford et al. 2019):
//   's 't 're 've 'm 'll 'd | space? letters | space? digits | space? others | blanks
// where a run of blanks leaves its last one to what follows. Every byte from 0x80 on counts as a letter, so that UTF-8
// needs no tables; and a run longer than 64 bytes is cut (between characters), which bounds the cost of hostile input.
// The pieces in order are the text, for any bytes.

#include <causeway/config/config.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace data {

/// No piece is longer, in bytes.
inline constexpr std::size_t longest_piece = 64;

namespace detail {

enum class byte_class : std::uint8_t { letter, digit, blank, other };

constexpr byte_class class_of(char c) noexcept {
  const auto u = static_cast<unsigned char>(c);
  if ((u >= 'a' && u <= 'z') || (u >= 'A' && u <= 'Z') || u >= 0x80) return byte_class::letter;
  if (u >= '0' && u <= '9') return byte_class::digit;
  return u == ' ' || (u >= '\t' && u <= '\r') ? byte_class::blank : byte_class::other;
}

/// Length of the run of one class that starts at `at`.
constexpr std::size_t run_length(std::string_view text, std::size_t at) noexcept {
  const byte_class wanted = class_of(text[at]);
  std::size_t end = at + 1;
  while (end < text.size() && class_of(text[end]) == wanted) ++end;
  return end - at;
}

/// Length of 's, 't, 're, 've, 'm, 'll or 'd at the start of `text`, or 0.
constexpr std::size_t contraction(std::string_view text) noexcept {
  if (text.size() < 2 || text[0] != '\'') return 0;
  const std::string_view one = text.substr(1, 1);
  if (one == "s" || one == "t" || one == "m" || one == "d") return 2;
  const std::string_view two = text.substr(1, 2);
  return two == "re" || two == "ve" || two == "ll" ? 3 : 0;
}

/// `length`, or less if that is too long: cut where no UTF-8 sequence is in progress.
constexpr std::size_t bounded_piece(std::string_view text, std::size_t length) noexcept {
  if (length <= longest_piece) return length;
  std::size_t cut = longest_piece;
  while (cut > longest_piece - 4 && (static_cast<unsigned char>(text[cut]) & 0xC0U) == 0x80U) --cut;
  return cut > longest_piece - 4 ? cut : longest_piece;
}

}  // namespace detail

/// Length of the first piece of `text`; 0 only for an empty text.
constexpr std::size_t first_piece(std::string_view text) noexcept {
  if (text.empty()) return 0;
  if (const std::size_t length = detail::contraction(text)) return length;
  std::size_t length = detail::run_length(text, 0);
  if (detail::class_of(text[0]) == detail::byte_class::blank) {
    const bool more = length < text.size();
    if (more && length > 1) {
      --length;  // the last blank goes with what follows
    } else if (more && text[0] == ' ') {
      length = 1 + detail::run_length(text, 1);
    }
  }
  return detail::bounded_piece(text, length);
}

/// Calls `f(piece)` for each piece, in order.
template <class F>
constexpr void for_each_piece(std::string_view text, F&& f) {
  while (!text.empty()) {
    const std::size_t length = first_piece(text);
    f(text.substr(0, length));
    text.remove_prefix(length);
  }
}

// Cuts text into pieces as other programs' tokenizers do, by scanners written for their patterns (regular expressions):
//   gpt2    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//   llama3  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|
//           \s+(?!\S)|\s+                                                                  (tiktoken's cl100k_base, too)
// The references take valid UTF-8 only. Here each byte that is not part of it is a character that is neither letter nor
// number nor space, and stays as it is: the pieces in order are the text, for any bytes. A piece may be as long as the
// text.

/// Whose pieces: those of for_each_piece, or those of the patterns above.
enum class piece_rule : std::uint8_t { causeway, gpt2, llama3 };

/// Their names in files, by number.
inline constexpr std::array<std::string_view, 3> piece_rule_names{"causeway", "gpt2", "llama3"};

/// Length of the first piece of `text`; 0 only for an empty text.
CAUSEWAY_DECL [[nodiscard]] std::size_t first_piece(std::string_view text, piece_rule rule) noexcept;

}}}  // namespace causeway::CAUSEWAY_ABI::data

#ifndef CAUSEWAY_COMPILED
#include <causeway/data/impl/pre_tokenizer.ipp>
#endif

#endif  // CAUSEWAY_DATA_PRE_TOKENIZER_HPP
