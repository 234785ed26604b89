// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_FORMATS_IMPL_TOKENIZER_PARTS_IPP
#define CAUSEWAY_FORMATS_IMPL_TOKENIZER_PARTS_IPP

#include <causeway/formats/tokenizer_parts.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <set>
#include <system_error>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats { namespace detail {

/// The code point of each byte's letter; all are below U+0144.
constexpr std::array<std::uint16_t, 256> letter_codes() {
  std::array<std::uint16_t, 256> codes{};
  std::uint16_t next = 0x100;
  for (std::size_t b = 0; b < 256; ++b) {
    const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    codes[b] = printable ? static_cast<std::uint16_t>(b) : next++;
  }
  return codes;
}

/// The byte of each code point, or -1.
constexpr std::array<int, 0x144> bytes_of_codes() {
  std::array<int, 0x144> bytes{};
  for (int& b : bytes) b = -1;
  const auto codes = letter_codes();
  for (std::size_t b = 0; b < 256; ++b) bytes[codes[b]] = static_cast<int>(b);
  return bytes;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::formats::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats {

CAUSEWAY_DECL std::string letters_of(std::string_view bytes) {
  constexpr auto codes = detail::letter_codes();
  std::string text;
  for (const char c : bytes) {
    const unsigned code = codes[static_cast<unsigned char>(c)];
    if (code >= 0x80) text += static_cast<char>(0xC0U | (code >> 6U));
    text += static_cast<char>(code >= 0x80 ? 0x80U | (code & 0x3FU) : code);
  }
  return text;
}

CAUSEWAY_DECL std::optional<std::string> bytes_of_letters(std::string_view letters) {
  constexpr auto bytes = detail::bytes_of_codes();
  std::string found;
  for (std::size_t i = 0; i < letters.size(); ++i) {
    unsigned code = static_cast<unsigned char>(letters[i]);
    if (code >= 0x80) {
      const unsigned low = i + 1 < letters.size() ? static_cast<unsigned char>(letters[++i]) : 0U;
      if ((code & 0xE0U) != 0xC0U || (low & 0xC0U) != 0x80U) return std::nullopt;
      code = ((code & 0x1FU) << 6U) | (low & 0x3FU);
      if (code < 0x80) return std::nullopt;
    }
    if (code >= bytes.size() || bytes[code] < 0) return std::nullopt;
    found += static_cast<char>(bytes[code]);
  }
  return found;
}

}}}  // namespace causeway::CAUSEWAY_ABI::formats

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats { namespace detail {

/// What GPT-2 and Llama 3 call the token that ends a text.
inline constexpr std::array<std::string_view, 2> end_names{"<|endoftext|>", "<|end_of_text|>"};

inline bool is_end_name(std::string_view name) {
  return std::find(end_names.begin(), end_names.end(), name) != end_names.end();
}

CAUSEWAY_DECL error tokenizer_parts::refuse(const std::string& why) const {
  return fail(errc::unsupported, where_,
              why +
                  ", which is not known here; the tokenizers of GPT-2 and Llama 3 can be read, and those that causeway "
                  "export has written");
}

CAUSEWAY_DECL result<void> tokenizer_parts::reserve(std::int64_t token) {
  if (token < 0) return fail(errc::corrupt, where_, "has a token with a negative number. Get the file again");
  if (token >= static_cast<std::int64_t>(data::bpe_tokenizer::most_tokens)) {
    return fail(errc::too_large, where_,
                "has token number " + std::to_string(token) + "; those below " +
                    std::to_string(data::bpe_tokenizer::most_tokens) + " can be read");
  }
  const auto least = static_cast<std::size_t>(token) + 1;
  if (table_.tokens.size() < least) table_.tokens.resize(least);
  return {};
}

CAUSEWAY_DECL result<void> tokenizer_parts::add_special(std::int64_t token, const std::string& name) {
  CAUSEWAY_TRY(reserve(token));
  const auto number = static_cast<std::int32_t>(token);
  if (!specials_.emplace(name, number).second) {
    return fail(errc::corrupt, where_, "has the special token '" + name + "' twice. Get the file again");
  }
  table_.specials.push_back({number, name});
  if (is_end_name(name) && !table_.end_of_text) table_.end_of_text = number;
  return {};
}

CAUSEWAY_DECL result<void> tokenizer_parts::add_token(std::int64_t token, std::string bytes) {
  CAUSEWAY_TRY(reserve(token));
  std::string& place = table_.tokens[static_cast<std::size_t>(token)];
  if (bytes.empty() || !place.empty()) {
    return fail(errc::corrupt, where_,
                "has " + std::string{bytes.empty() ? "an empty token" : "two tokens"} + " with number " +
                    std::to_string(token) + ". Get the file again");
  }
  place = std::move(bytes);
  return {};
}

CAUSEWAY_DECL result<void> tokenizer_parts::add_vocabulary(const json_value& vocabulary) {
  if (!vocabulary.is_object()) return fail(errc::corrupt, where_, "has no list of tokens. Get the file again");
  for (std::size_t i = 0; i < vocabulary.items.size(); ++i) {
    const std::string& name = vocabulary.names[i];
    const json_value& number = vocabulary.items[i];
    if (!number.is(json_value::kind::integer)) {
      return fail(errc::corrupt, where_, "has no number for token '" + name + "'. Get the file again");
    }
    const auto known = specials_.find(name);
    if (known != specials_.end() && known->second == number.integer) continue;
    const auto bytes = bytes_of_letters(name);
    if (!bytes) return refuse("has the token '" + name + "', whose name is not one of bytes");
    CAUSEWAY_TRY(add_token(number.integer, *bytes));
    numbers_.emplace(name, static_cast<std::int32_t>(number.integer));
  }
  return {};
}

CAUSEWAY_DECL result<void> tokenizer_parts::add_merge(const std::string& left, const std::string& right) {
  const auto l = numbers_.find(left), r = numbers_.find(right);
  if (l == numbers_.end() || r == numbers_.end()) {
    return fail(errc::corrupt, where_,
                "merges '" + left + "' and '" + right + "', which are not both tokens. Get the file again");
  }
  table_.merges.push_back({l->second, r->second});
  return {};
}

CAUSEWAY_DECL result<void> tokenizer_parts::add_merge(const std::string& both) {
  const std::size_t gap = both.find(' ');
  if (gap == std::string::npos) return fail(errc::corrupt, where_, "has the merge '" + both + "'. Get the file again");
  return add_merge(both.substr(0, gap), both.substr(gap + 1));
}

CAUSEWAY_DECL result<data::bpe_tokenizer> tokenizer_parts::finish() && {
  auto made = data::bpe_tokenizer::make(std::move(table_));
  if (!made) made.error().where = where_ + ", " + made.error().where;
  return made;
}

/// Takes a line off the front, without what ends it.
inline std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

inline std::optional<std::string> from_base64(std::string_view text) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  while (text.ends_with('=') && text.size() % 4 != 2) text.remove_suffix(1);
  std::string bytes;
  std::uint32_t bits = 0;
  unsigned held = 0;
  for (const char c : text) {
    const std::size_t digit = digits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = ((bits << 6U) | static_cast<std::uint32_t>(digit)) & 0xFFFFU;
    held += 6;
    if (held < 8) continue;
    held -= 8;
    bytes += static_cast<char>((bits >> held) & 0xFFU);
  }
  return bytes;
}

inline result<void> add_rank(tokenizer_parts& parts, std::string_view line, std::size_t at, const std::string& where) {
  const std::size_t gap = line.find(' ');
  const auto bytes = from_base64(line.substr(0, gap));
  std::int64_t number = -1;
  const char* const end = line.data() + line.size();
  const bool sound = bytes && gap != std::string_view::npos &&
                     std::from_chars(line.data() + gap + 1, end, number) == std::from_chars_result{end, std::errc{}};
  if (sound) return parts.add_token(number, *bytes);
  return fail(errc::unsupported, where + ", line " + std::to_string(at),
              "is not a token in base64 and its number, as tiktoken writes them. A SentencePiece model, such as Llama 2's, "
              "cannot be read");
}

}}}}  // namespace causeway::CAUSEWAY_ABI::formats::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats {

CAUSEWAY_DECL result<data::bpe_tokenizer> read_vocabulary_and_merges(std::string_view vocabulary, std::string_view merges,
                                                                     const std::string& where) {
  CAUSEWAY_ASSIGN(const json_value root, parse_json(vocabulary, where));
  detail::tokenizer_parts parts{where};
  for (std::size_t i = 0; i < root.names.size(); ++i) {
    if (detail::is_end_name(root.names[i])) CAUSEWAY_TRY(parts.add_special(root.items[i].integer, root.names[i]));
  }
  CAUSEWAY_TRY(parts.add_vocabulary(root));
  for (bool first = true; !merges.empty(); first = false) {
    const std::string line{detail::take_line(merges)};
    const bool is_merge = !line.empty() && !(first && line.starts_with("#version"));
    if (is_merge) CAUSEWAY_TRY(parts.add_merge(line));
  }
  return std::move(parts).finish();
}

CAUSEWAY_DECL result<data::bpe_tokenizer> read_tiktoken(std::string_view text, data::piece_rule rule,
                                                        const std::string& where) {
  detail::tokenizer_parts parts{where};
  for (std::size_t at = 1; !text.empty(); ++at) {
    const std::string_view line = detail::take_line(text);
    if (!line.empty()) CAUSEWAY_TRY(detail::add_rank(parts, line, at, where));
  }
  if (rule == data::piece_rule::llama3) CAUSEWAY_TRY(parts.add_special(parts.numbers(), "<|begin_of_text|>"));
  const std::string_view end = detail::end_names[rule == data::piece_rule::llama3 ? 1 : 0];
  CAUSEWAY_TRY(parts.add_special(parts.numbers(), std::string{end}));
  parts.table().pieces = rule;
  parts.table().whole_pieces = parts.table().by_number = true;
  return std::move(parts).finish();
}

CAUSEWAY_DECL result<token_names> names_of(const data::bpe_tokenizer& tokenizer, const std::string& where) {
  token_names names;
  for (const std::string& bytes : tokenizer.table().tokens) names.tokens.push_back(letters_of(bytes));
  for (const data::special_token& s : tokenizer.table().specials) {
    names.tokens[static_cast<std::size_t>(s.token)] = s.name;
  }
  std::set<std::string_view> seen;
  for (std::size_t i = 0; i < names.tokens.size(); ++i) {
    if (names.tokens[i].empty() || seen.insert(names.tokens[i]).second) continue;
    return fail(errc::unsupported, where,
                "token " + std::to_string(i) +
                    " has the same bytes as one before it, and this format knows tokens by their "
                    "bytes; the model can be used without it");
  }
  for (const data::bpe_merge& m : tokenizer.all_merges()) {
    names.merges.push_back(names.tokens[static_cast<std::size_t>(m.left)] + " " +
                           names.tokens[static_cast<std::size_t>(m.right)]);
  }
  return names;
}

}}}  // namespace causeway::CAUSEWAY_ABI::formats

#endif  // CAUSEWAY_FORMATS_IMPL_TOKENIZER_PARTS_IPP
