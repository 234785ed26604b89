// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_DATA_IMPL_BPE_TOKENIZER_IPP
#define CAUSEWAY_DATA_IMPL_BPE_TOKENIZER_IPP

#include <causeway/data/bpe_tokenizer.hpp>

#include <algorithm>
#include <queue>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace data {

CAUSEWAY_DECL bpe_tokenizer::bpe_tokenizer() {
  table_.pieces = piece_rule::causeway;
  for (std::size_t i = 0; i < 256; ++i) {
    table_.tokens.emplace_back(1, static_cast<char>(i));
    byte_tokens_[i] = static_cast<std::int32_t>(i);
  }
}

CAUSEWAY_DECL void bpe_tokenizer::encode(std::string_view text, std::vector<std::int32_t>& out) {
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, first_piece(text, table_.pieces));
    text.remove_prefix(piece.size());
    if (piece.size() > longest_piece) {  // of others: rare, and not worth the memory
      append_merged(piece, out);
      continue;
    }
    auto known = cache_.find(piece);
    if (known == cache_.end()) {
      if (cache_.size() >= most_cached) cache_.clear();
      std::vector<std::int32_t> tokens;
      append_merged(piece, tokens);
      known = cache_.emplace(std::string{piece}, std::move(tokens)).first;
    }
    out.insert(out.end(), known->second.begin(), known->second.end());
  }
}

CAUSEWAY_DECL void bpe_tokenizer::encode_with_specials(std::string_view text, std::vector<std::int32_t>& out) {
  std::array<bool, 256> begins{};  // a name
  for (const special_token& s : table_.specials) {
    if (!s.name.empty()) begins[static_cast<unsigned char>(s.name.front())] = true;
  }
  std::size_t at = 0;
  while (at < text.size()) {
    const special_token* const found =
        begins[static_cast<unsigned char>(text[at])] ? special_at_front(text.substr(at)) : nullptr;
    if (found == nullptr) {
      ++at;
      continue;
    }
    encode(text.substr(0, at), out);
    out.push_back(found->token);
    text.remove_prefix(at + found->name.size());
    at = 0;
  }
  encode(text, out);
}

CAUSEWAY_DECL const special_token* bpe_tokenizer::special_at_front(std::string_view text) const {
  const special_token* longest = nullptr;
  for (const special_token& s : table_.specials) {
    const bool longer = s.name.size() > (longest == nullptr ? 0 : longest->name.size());
    if (longer && text.starts_with(s.name)) longest = &s;
  }
  return longest;
}

CAUSEWAY_DECL result<void> bpe_tokenizer::decode(std::span<const std::int32_t> tokens, std::string& out) const {
  for (const std::int32_t token : tokens) {
    if (token < 0 || token >= vocabulary()) {
      return fail(errc::invalid_argument, "token " + std::to_string(token),
                  "outside the vocabulary of " + std::to_string(vocabulary()) + ". Use the tokenizer that made it");
    }
    out += token_bytes(token);
  }
  return {};
}

CAUSEWAY_DECL result<bpe_tokenizer> bpe_tokenizer::make(std::span<const bpe_merge> merges, bool with_end_of_text) {
  bpe_tokenizer made;
  for (const bpe_merge& m : merges) {
    const auto next = static_cast<std::int32_t>(made.vocabulary());
    const auto bad = [&](const char* why) {
      return fail(errc::corrupt, "merge " + std::to_string(next - 256), std::string{why} + ". Train the tokenizer again");
    };
    if (m.left < 0 || m.right < 0 || m.left >= next || m.right >= next) return bad("joins a token that does not exist yet");
    std::string bytes{made.token_bytes(m.left)};
    bytes += made.token_bytes(m.right);
    if (bytes.size() > longest_piece) return bad("makes a token longer than any piece of text");
    if (!made.joined_.emplace(key_of(m.left, m.right), joined{next, next}).second) return bad("repeats an earlier one");
    made.table_.tokens.push_back(std::move(bytes));
    made.table_.merges.push_back(m);
  }
  if (with_end_of_text) {
    made.table_.end_of_text = static_cast<std::int32_t>(made.vocabulary());
    made.table_.specials.push_back({*made.table_.end_of_text, std::string{end_name}});
    made.table_.tokens.emplace_back();
  }
  return made;
}

CAUSEWAY_DECL result<bpe_tokenizer> bpe_tokenizer::make(bpe_table table) {
  bpe_tokenizer made;
  made.table_ = std::move(table);
  if (made.table_.pieces == piece_rule::causeway) {
    return fail(errc::corrupt, "tokenizer", "has a table, which our own do not need. Train the tokenizer again");
  }
  CAUSEWAY_ASSIGN(const numbers known, made.numbered());
  for (std::size_t b = 0; b < 256; ++b) {
    const char byte = static_cast<char>(b);
    const auto token = known.find({&byte, 1});
    if (token == known.end()) {
      return fail(
          errc::unsupported, "tokenizer",
          "has no token for byte " + std::to_string(b) + ", so that some text has none. Use one that has all bytes");
    }
    made.byte_tokens_[b] = token->second;
  }
  CAUSEWAY_TRY(made.check_specials());
  CAUSEWAY_TRY(made.join_listed(known));
  if (made.table_.by_number) made.join_by_number(known);
  if (!made.table_.whole_pieces) return made;
  for (const auto& [bytes, token] : known) made.by_bytes_.push_back(token);
  std::sort(made.by_bytes_.begin(), made.by_bytes_.end(),
            [&](std::int32_t a, std::int32_t b) { return made.token_bytes(a) < made.token_bytes(b); });
  return made;
}

CAUSEWAY_DECL result<bpe_tokenizer::numbers> bpe_tokenizer::numbered() const {
  if (table_.tokens.size() > most_tokens) {
    return fail(errc::too_large, "tokenizer",
                "has token numbers above " + std::to_string(most_tokens) + ". Use one with fewer tokens");
  }
  numbers known;
  for (std::size_t i = 0; i < table_.tokens.size(); ++i) {
    const std::string& bytes = table_.tokens[i];
    const std::string where = "token " + std::to_string(i);
    if (bytes.size() > longest_token) {
      return fail(errc::too_large, where, "has more than " + std::to_string(longest_token) + " bytes. Get the file again");
    }
    if (!bytes.empty() && !known.emplace(bytes, static_cast<std::int32_t>(i)).second) {
      return fail(errc::corrupt, where, "has the bytes of another token. Get the file again");
    }
  }
  return known;
}

CAUSEWAY_DECL result<void> bpe_tokenizer::check_specials() const {
  const auto bad = [](std::int32_t token, const char* why) {
    return fail(errc::corrupt, "special token " + std::to_string(token), std::string{why} + ". Get the file again");
  };
  bool has_end = !table_.end_of_text;
  std::vector<std::int32_t> seen;
  for (const special_token& s : table_.specials) {
    if (s.token < 0 || s.token >= vocabulary()) return bad(s.token, "is outside of the vocabulary");
    if (!token_bytes(s.token).empty()) return bad(s.token, "has the number of another token");
    seen.push_back(s.token);
    has_end = has_end || s.token == table_.end_of_text;
  }
  std::sort(seen.begin(), seen.end());
  const auto twice = std::adjacent_find(seen.begin(), seen.end());
  if (twice != seen.end()) return bad(*twice, "has two names");
  if (!has_end) return bad(*table_.end_of_text, "ends a text, and is not in the list");
  return {};
}

CAUSEWAY_DECL result<void> bpe_tokenizer::join_listed(const numbers& known) {
  for (std::size_t i = 0; i < table_.merges.size(); ++i) {
    const bpe_merge m = table_.merges[i];
    const auto bad = [&](const char* why) {
      return fail(errc::corrupt, "merge " + std::to_string(i), std::string{why} + ". Get the file again");
    };
    const auto is_token = [&](std::int32_t t) { return t >= 0 && t < vocabulary() && !token_bytes(t).empty(); };
    if (!is_token(m.left) || !is_token(m.right)) return bad("joins a token that does not exist");
    const auto made = known.find(std::string{token_bytes(m.left)} + std::string{token_bytes(m.right)});
    if (made == known.end()) return bad("makes no token");
    if (!joined_.emplace(key_of(m.left, m.right), joined{static_cast<std::int32_t>(i), made->second}).second) {
      return bad("repeats an earlier one");
    }
  }
  if (table_.by_number && !table_.merges.empty()) {
    return fail(errc::corrupt, "tokenizer", "has a list of merges besides those of its numbers. Get the file again");
  }
  return {};
}

CAUSEWAY_DECL void bpe_tokenizer::join_by_number(const numbers& known) {
  for (std::int32_t token = 0; token < vocabulary(); ++token) {
    const std::string_view bytes = token_bytes(token);
    for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
      const auto left = known.find(bytes.substr(0, cut));
      if (left == known.end()) continue;
      const auto right = known.find(bytes.substr(cut));
      if (right != known.end()) joined_.emplace(key_of(left->second, right->second), joined{token, token});
    }
  }
}

CAUSEWAY_DECL std::vector<bpe_merge> bpe_tokenizer::all_merges() const {
  std::vector<std::pair<std::int32_t, bpe_merge>> ranked;
  for (const auto& [key, made] : joined_) {
    const bpe_merge merge{static_cast<std::int32_t>(key >> 32U), static_cast<std::int32_t>(key & 0xFFFFFFFFU)};
    ranked.emplace_back(made.rank, merge);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<bpe_merge> merges;
  for (const auto& [rank, merge] : ranked) merges.push_back(merge);
  return merges;
}

CAUSEWAY_DECL std::optional<std::int32_t> bpe_tokenizer::whole(std::string_view piece) const {
  const auto found =
      std::lower_bound(by_bytes_.begin(), by_bytes_.end(), piece,
                       [&](std::int32_t token, std::string_view wanted) { return token_bytes(token) < wanted; });
  return found != by_bytes_.end() && token_bytes(*found) == piece ? std::optional{*found} : std::nullopt;
}

/// Joins the neighbours of the lowest rank, the first of them in the text, until none can be joined.
CAUSEWAY_DECL void bpe_tokenizer::append_merged(std::string_view piece, std::vector<std::int32_t>& out) const {
  if (const auto token = whole(piece)) return out.push_back(*token);
  struct part {
    std::int32_t token;
    std::size_t before, after;  // positions; parts that went into the one before them have token -1
  };
  const std::size_t size = piece.size();
  std::vector<part> parts;
  for (std::size_t i = 0; i < size; ++i) {
    parts.push_back({byte_tokens_[static_cast<unsigned char>(piece[i])], i - 1, i + 1});
  }
  const auto joined_at = [&](std::size_t at) {
    const bool both = parts[at].token >= 0 && parts[at].after < size;
    return both ? joined_.find(key_of(parts[at].token, parts[parts[at].after].token)) : joined_.end();
  };
  using candidate = std::pair<std::int32_t, std::size_t>;  // rank and position
  std::priority_queue<candidate, std::vector<candidate>, std::greater<>> next;
  const auto offer = [&](std::size_t at) {
    if (const auto found = joined_at(at); found != joined_.end()) next.emplace(found->second.rank, at);
  };
  for (std::size_t i = 0; i < size; ++i) offer(i);
  while (!next.empty()) {
    const auto [rank, at] = next.top();
    next.pop();
    const auto found = joined_at(at);
    if (found == joined_.end() || found->second.rank != rank) continue;  // a part of it was joined otherwise
    part& swallowed = parts[parts[at].after];
    parts[at].token = found->second.token;
    parts[at].after = swallowed.after;
    swallowed.token = -1;
    if (swallowed.after < size) parts[swallowed.after].before = at;
    if (parts[at].before < size) offer(parts[at].before);
    offer(at);
  }
  for (std::size_t i = 0; i < size; i = parts[i].after) out.push_back(parts[i].token);
}

CAUSEWAY_DECL std::string bpe_tokenizer::to_text() const {
  if (table_.pieces != piece_rule::causeway) return table_text(table_);
  std::string text = "causeway-bpe 1\nend_of_text " + std::to_string(end_of_text() ? 1 : 0) + "\nmerges " +
                     std::to_string(merges().size()) + "\n";
  for (const bpe_merge& m : merges()) text += std::to_string(m.left) + ' ' + std::to_string(m.right) + '\n';
  return text + detail::checksum_line(text);
}

CAUSEWAY_DECL result<bpe_tokenizer> bpe_tokenizer::from_text(std::string_view text, const std::string& name) {
  const auto corrupt = [&](const std::string& what) {
    return fail(errc::corrupt, name, what + ". Fetch the tokenizer file again, or train it again");
  };
  detail::word_reader reader{text};
  std::uint32_t format = 0;
  if (!reader.skip("causeway-bpe ") || !reader.number(format)) return corrupt("this is not a tokenizer file");
  const std::size_t last = text.rfind("checksum ");
  if (last == std::string_view::npos || text.substr(last) != detail::checksum_line(text.substr(0, last))) {
    return corrupt("the file was cut or changed: it does not fit its checksum");
  }
  const auto named = [&](result<bpe_tokenizer> made) {
    if (!made) made.error().where = name + ", " + made.error().where;
    return made;
  };
  if (format == 2) {
    CAUSEWAY_ASSIGN(bpe_table table, read_table(text, name));
    return named(make(std::move(table)));
  }
  if (format != 1) {
    return fail(errc::version_mismatch, name,
                "tokenizer format " + std::to_string(format) + "; this program reads formats 1 and 2. Use a newer library");
  }
  std::uint32_t with_end = 0;
  std::size_t count = 0;
  bool sound = reader.skip("\nend_of_text ") && reader.number(with_end) && with_end <= 1 && reader.skip("\nmerges ") &&
               reader.number(count) && reader.skip("\n");
  std::vector<bpe_merge> merges;
  for (bpe_merge m; sound && merges.size() < count; merges.push_back(m)) {
    sound = reader.number(m.left) && reader.skip(" ") && reader.number(m.right) && reader.skip("\n");
  }
  if (!sound || reader.left() != text.size() - last) return corrupt("the lines do not make sense");
  return named(make(merges, with_end == 1));
}

}}}  // namespace causeway::CAUSEWAY_ABI::data

#endif  // CAUSEWAY_DATA_IMPL_BPE_TOKENIZER_IPP
