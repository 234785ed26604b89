// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_DATA_IMPL_BPE_TABLE_IPP
#define CAUSEWAY_DATA_IMPL_BPE_TABLE_IPP

#include <causeway/data/bpe_table.hpp>

#include <causeway/core/hash.hpp>

#include <algorithm>
#include <array>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace data { namespace detail {

CAUSEWAY_DECL bool word_reader::skip(std::string_view wanted) noexcept {
  if (!rest_.starts_with(wanted)) return false;
  rest_.remove_prefix(wanted.size());
  return true;
}

CAUSEWAY_DECL bool word_reader::hex_line(std::string& bytes) {
  const std::size_t end = rest_.find('\n');
  if (end == std::string_view::npos || end % 2 != 0) return false;
  bytes.clear();
  for (std::size_t i = 0; i < end; i += 2) {
    unsigned value = 0;
    const auto [stop, failure] = std::from_chars(rest_.data() + i, rest_.data() + i + 2, value, 16);
    if (failure != std::errc{} || stop != rest_.data() + i + 2) return false;
    bytes += static_cast<char>(value);
  }
  rest_.remove_prefix(end + 1);
  return true;
}

CAUSEWAY_DECL std::string checksum_line(std::string_view body) {
  std::array<char, 17> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + 16, hash_text(body), 16).ptr;
  return "checksum " + std::string(digits.data(), end) + "\n";
}

inline std::string hex_line_of(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string line;
  for (const char c : bytes) {
    line += digits[static_cast<unsigned char>(c) >> 4U];
    line += digits[static_cast<unsigned char>(c) & 15U];
  }
  return line + '\n';
}

/// A count, then what `one` reads, as often.
template <class T, class One>
bool read_list(word_reader& reader, std::string_view name, std::vector<T>& all, One&& one) {
  std::size_t count = 0;
  bool sound = reader.skip(name) && reader.number(count) && reader.skip("\n");
  while (sound && all.size() < count) {
    T next;
    sound = one(next);
    if (sound) all.push_back(std::move(next));
  }
  return sound;
}

inline bool read_rule(word_reader& reader, piece_rule& rule) {
  if (!reader.skip("\npieces ")) return false;
  for (std::size_t i = 0; i < piece_rule_names.size(); ++i) {
    if (!reader.skip(piece_rule_names[i])) continue;
    rule = static_cast<piece_rule>(i);
    return true;
  }
  return false;
}

inline bool read_flag(word_reader& reader, std::string_view name, bool& flag) {
  int value = 0;
  const bool sound = reader.skip(name) && reader.number(value) && (value == 0 || value == 1);
  flag = value == 1;
  return sound;
}

inline bool read_table(word_reader& reader, bpe_table& table) {
  std::int32_t end = -1;
  const bool head = reader.skip("causeway-bpe 2") && read_rule(reader, table.pieces) &&
                    read_flag(reader, "\nwhole_pieces ", table.whole_pieces) &&
                    read_flag(reader, "\nby_number ", table.by_number) && reader.skip("\nend_of_text ") &&
                    reader.number(end) && reader.skip("\n");
  if (end >= 0) table.end_of_text = end;
  return head &&
         read_list(
             reader, "specials ", table.specials,
             [&](special_token& s) { return reader.number(s.token) && reader.skip(" ") && reader.hex_line(s.name); }) &&
         read_list(reader, "tokens ", table.tokens, [&](std::string& bytes) { return reader.hex_line(bytes); }) &&
         read_list(reader, "merges ", table.merges, [&](bpe_merge& m) {
           return reader.number(m.left) && reader.skip(" ") && reader.number(m.right) && reader.skip("\n");
         });
}

}}}}  // namespace causeway::CAUSEWAY_ABI::data::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace data {

CAUSEWAY_DECL std::string table_text(const bpe_table& table) {
  const auto flag = [](bool on) { return std::string{on ? "1" : "0"}; };
  std::string text = "causeway-bpe 2\npieces ";
  text += piece_rule_names[static_cast<std::size_t>(table.pieces)];
  text += "\nwhole_pieces " + flag(table.whole_pieces) + "\nby_number " + flag(table.by_number) + "\nend_of_text " +
          std::to_string(table.end_of_text.value_or(-1)) + "\n";
  text += "specials " + std::to_string(table.specials.size()) + "\n";
  for (const special_token& s : table.specials) text += std::to_string(s.token) + ' ' + detail::hex_line_of(s.name);
  text += "tokens " + std::to_string(table.tokens.size()) + "\n";
  for (const std::string& bytes : table.tokens) text += detail::hex_line_of(bytes);
  text += "merges " + std::to_string(table.merges.size()) + "\n";
  for (const bpe_merge& m : table.merges) text += std::to_string(m.left) + ' ' + std::to_string(m.right) + '\n';
  return text + detail::checksum_line(text);
}

CAUSEWAY_DECL result<bpe_table> read_table(std::string_view text, const std::string& name) {
  bpe_table table;
  detail::word_reader reader{text};
  if (detail::read_table(reader, table) && reader.left() == text.size() - std::min(text.rfind("checksum "), text.size())) {
    return table;
  }
  return fail(errc::corrupt, name, "the lines do not make sense. Fetch the tokenizer file again");
}

}}}  // namespace causeway::CAUSEWAY_ABI::data

#endif  // CAUSEWAY_DATA_IMPL_BPE_TABLE_IPP
