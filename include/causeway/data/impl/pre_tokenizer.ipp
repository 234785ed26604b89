// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_DATA_IMPL_PRE_TOKENIZER_IPP
#define CAUSEWAY_DATA_IMPL_PRE_TOKENIZER_IPP

#include <causeway/data/pre_tokenizer.hpp>

#include <causeway/data/text.hpp>
#include <causeway/data/unicode_classes.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace data { namespace detail {

/// A character of a text; length 0 is the end of the text.
struct character {
  character_class kind = character_class::other;
  std::size_t length = 0;

  [[nodiscard]] bool is(character_class wanted) const noexcept { return length > 0 && kind == wanted; }
};

/// The code point of a well-formed sequence.
inline std::uint32_t code_point(std::string_view sequence) noexcept {
  const auto first = static_cast<unsigned char>(sequence[0]);
  std::uint32_t code = sequence.size() == 2 ? first & 0x1FU : sequence.size() == 3 ? first & 0x0FU : first & 0x07U;
  for (const char c : sequence.substr(1)) code = (code << 6U) | (static_cast<unsigned char>(c) & 0x3FU);
  return code;
}

inline character character_at(std::string_view text, std::size_t at) noexcept {
  if (at >= text.size()) return {};
  if (static_cast<unsigned char>(text[at]) < 0x80) {
    switch (class_of(text[at])) {
      case byte_class::letter: return {character_class::letter, 1};
      case byte_class::digit: return {character_class::number, 1};
      case byte_class::blank: return {character_class::space, 1};
      default: return {character_class::other, 1};
    }
  }
  const std::size_t length = utf8_sequence(text.substr(at));
  if (length == 0) return {character_class::other, 1};
  return {class_of_character(code_point(text.substr(at, length))), length};
}

/// Where the run of characters of this class ends that starts at `at`, after at most `most` of them.
inline std::size_t run_end(std::string_view text, std::size_t at, character_class kind,
                           std::size_t most = static_cast<std::size_t>(-1)) noexcept {
  for (character c = character_at(text, at); c.is(kind) && most > 0; c = character_at(text, at), --most) at += c.length;
  return at;
}

/// \s+(?!\S)|\s+ where a space is first: the last space before something else goes with what follows.
inline std::size_t spaces_length(std::string_view text) noexcept {
  std::size_t last = 0, end = 0;
  for (character c = character_at(text, 0); c.is(character_class::space); c = character_at(text, end)) {
    last = end;
    end += c.length;
  }
  return end == text.size() || last == 0 ? end : last;
}

/// (?i:'s|'t|'re|'ve|'m|'ll|'d) at the start, or 0. The only character beyond ASCII that folds to one of these letters is
/// U+017F, the long s.
inline std::size_t contraction_of_any_case(std::string_view text) noexcept {
  if (text.starts_with("'\xC5\xBF")) return 3;
  std::array<char, 3> small{};
  const std::size_t length = text.copy(small.data(), small.size());
  for (char& c : small) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return contraction({small.data(), length});
}

inline std::size_t gpt2_piece(std::string_view text) noexcept {
  if (const std::size_t length = contraction(text)) return length;
  const std::size_t start = text[0] == ' ' ? 1 : 0;
  const character c = character_at(text, start);
  if (c.length > 0 && c.kind != character_class::space) return run_end(text, start, c.kind);
  return spaces_length(text);
}

inline bool is_line_end(char c) noexcept { return c == '\r' || c == '\n'; }

inline std::size_t llama3_piece(std::string_view text) noexcept {
  if (const std::size_t length = contraction_of_any_case(text)) return length;
  const character c = character_at(text, 0);
  const bool may_lead = c.kind != character_class::number && !is_line_end(text[0]);
  if (c.kind == character_class::letter) return run_end(text, 0, character_class::letter);
  if (may_lead && character_at(text, c.length).is(character_class::letter)) {
    return run_end(text, c.length, character_class::letter);
  }
  if (c.kind == character_class::number) return run_end(text, 0, character_class::number, 3);
  const std::size_t start = text[0] == ' ' ? 1 : 0;
  if (character_at(text, start).is(character_class::other)) {
    std::size_t end = run_end(text, start, character_class::other);
    while (end < text.size() && is_line_end(text[end])) ++end;
    return end;
  }
  const std::size_t spaces = run_end(text, 0, character_class::space);
  const std::size_t line_end = text.substr(0, spaces).find_last_of("\r\n");
  return line_end == std::string_view::npos ? spaces_length(text) : line_end + 1;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::data::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace data {

CAUSEWAY_DECL std::size_t first_piece(std::string_view text, piece_rule rule) noexcept {
  if (text.empty()) return 0;
  switch (rule) {
    case piece_rule::gpt2: return detail::gpt2_piece(text);
    case piece_rule::llama3: return detail::llama3_piece(text);
    default: return first_piece(text);
  }
}

}}}  // namespace causeway::CAUSEWAY_ABI::data

#endif  // CAUSEWAY_DATA_IMPL_PRE_TOKENIZER_IPP
