// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_DATA_BPE_TOKENIZER_HPP
#define CAUSEWAY_DATA_BPE_TOKENIZER_HPP

// Byte-level byte-pair encoding (Sennrich et al. 2016, on bytes as in GPT-2): tokens 0..255 are the bytes, token 256+i is
// the pair that merge i joins. Any bytes can be encoded and come back exactly. Trained by data/bpe_trainer.hpp.

#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/data/pre_tokenizer.hpp>
#include <causeway/data/tokenizer.hpp>
#include <causeway/io/storage.hpp>

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::data {

/// Joins token `left` and the token `right` after it.
struct bpe_merge {
  std::int32_t left = 0;
  std::int32_t right = 0;

  friend constexpr bool operator==(const bpe_merge&, const bpe_merge&) = default;
  friend constexpr auto operator<=>(const bpe_merge&, const bpe_merge&) = default;
};

/// Models Tokenizer. Keeps the tokens of words it has seen, so encoding changes it: one thread at a time, or a copy each.
class bpe_tokenizer {
 public:
  /// The 256 bytes only.
  bpe_tokenizer() : bytes_(256) {
    for (std::size_t i = 0; i < 256; ++i) bytes_[i] = std::string(1, static_cast<char>(i));
  }

  /// errc::corrupt if a merge joins tokens that do not exist yet, repeats an earlier one, or gives more than 64 bytes.
  static result<bpe_tokenizer> make(std::span<const bpe_merge> merges, bool with_end_of_text);

  [[nodiscard]] std::int64_t vocabulary() const noexcept {
    return static_cast<std::int64_t>(bytes_.size()) + (with_end_ ? 1 : 0);
  }
  /// The last token of the vocabulary.
  [[nodiscard]] std::optional<std::int32_t> end_of_text() const noexcept {
    return with_end_ ? std::optional<std::int32_t>{static_cast<std::int32_t>(bytes_.size())} : std::nullopt;
  }
  [[nodiscard]] std::span<const bpe_merge> merges() const noexcept { return merges_; }
  [[nodiscard]] std::uint64_t hash() const noexcept { return hash_text(to_text()); }

  /// The bytes of a token that is not end of text.
  [[nodiscard]] std::string_view token_bytes(std::int32_t token) const { return bytes_[static_cast<std::size_t>(token)]; }

  /// Pieces seen before cost one look-up; a new piece of n bytes costs O(n²), with n at most 64.
  void encode(std::string_view text, std::vector<std::int32_t>& out) {
    for_each_piece(text, [&](std::string_view piece) {
      auto known = cache_.find(piece);
      if (known == cache_.end()) {
        if (cache_.size() >= most_cached) cache_.clear();
        known = cache_.emplace(std::string{piece}, merged(piece)).first;
      }
      out.insert(out.end(), known->second.begin(), known->second.end());
    });
  }

  result<void> decode(std::span<const std::int32_t> tokens, std::string& out) const {
    for (const std::int32_t token : tokens) {
      if (token < 0 || token >= vocabulary()) {
        return fail(errc::invalid_argument, "token " + std::to_string(token),
                    "outside the vocabulary of " + std::to_string(vocabulary()) + ". Use the tokenizer that made it");
      }
      if (token != end_of_text()) out += bytes_[static_cast<std::size_t>(token)];
    }
    return {};
  }

  /// The tokenizer as lines of ASCII text, the last one a checksum.
  [[nodiscard]] std::string to_text() const;
  /// The inverse; `name` is for messages. Errors: errc::corrupt, errc::version_mismatch.
  static result<bpe_tokenizer> from_text(std::string_view text, const std::string& name);

  template <io::Storage S>
  result<void> save(S& storage, const std::string& path) const {
    const std::string text = to_text();
    return storage.write_atomic(path, io::produce(text));
  }
  template <io::Storage S>
  static result<bpe_tokenizer> load(S& storage, const std::string& path) {
    CAUSEWAY_ASSIGN(const io::byte_vector content, storage.read(path));
    return from_text({reinterpret_cast<const char*>(content.data()), content.size()}, path);
  }

 private:
  static constexpr std::size_t most_cached = std::size_t{1} << 17U;  // some 15 MB; text has fewer common words

  struct text_hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view s) const noexcept { return std::hash<std::string_view>{}(s); }
  };

  static constexpr std::uint64_t key_of(std::int32_t left, std::int32_t right) noexcept {
    return (static_cast<std::uint64_t>(left) << 32U) | static_cast<std::uint32_t>(right);
  }

  [[nodiscard]] std::vector<std::int32_t> merged(std::string_view piece) const;

  std::vector<std::string> bytes_;
  std::vector<bpe_merge> merges_;
  std::unordered_map<std::uint64_t, std::int32_t> joined_;  // pair -> its token; looked up only, never walked through
  bool with_end_ = false;
  std::unordered_map<std::string, std::vector<std::int32_t>, text_hash, std::equal_to<>> cache_;
};

static_assert(Tokenizer<bpe_tokenizer>);

inline result<bpe_tokenizer> bpe_tokenizer::make(std::span<const bpe_merge> merges, bool with_end_of_text) {
  bpe_tokenizer made;
  made.with_end_ = with_end_of_text;
  for (const bpe_merge& m : merges) {
    const auto next = static_cast<std::int32_t>(made.bytes_.size());
    const auto bad = [&](const char* why) {
      return fail(errc::corrupt, "merge " + std::to_string(next - 256), std::string{why} + ". Train the tokenizer again");
    };
    if (m.left < 0 || m.right < 0 || m.left >= next || m.right >= next) return bad("joins a token that does not exist yet");
    std::string joined{made.token_bytes(m.left)};
    joined += made.token_bytes(m.right);
    if (joined.size() > longest_piece) return bad("makes a token longer than any piece of text");
    if (!made.joined_.emplace(key_of(m.left, m.right), next).second) return bad("repeats an earlier one");
    made.bytes_.push_back(std::move(joined));
    made.merges_.push_back(m);
  }
  return made;
}

/// Applies the earliest possible merge until there is none: all its places, from the left.
inline std::vector<std::int32_t> bpe_tokenizer::merged(std::string_view piece) const {
  std::vector<std::int32_t> tokens;
  for (const char c : piece) tokens.push_back(static_cast<unsigned char>(c));
  for (;;) {
    std::int32_t best = std::numeric_limits<std::int32_t>::max();
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      const auto found = joined_.find(key_of(tokens[i], tokens[i + 1]));
      if (found != joined_.end() && found->second < best) best = found->second;
    }
    if (best == std::numeric_limits<std::int32_t>::max()) return tokens;
    const bpe_merge merge = merges_[static_cast<std::size_t>(best) - 256];
    std::size_t kept = 0;
    for (std::size_t i = 0; i < tokens.size(); ++kept) {
      const bool here = i + 1 < tokens.size() && tokens[i] == merge.left && tokens[i + 1] == merge.right;
      tokens[kept] = here ? best : tokens[i];
      i += here ? 2 : 1;
    }
    tokens.resize(kept);
  }
}

namespace detail {

/// Takes lines and words off the front of a text.
class word_reader {
 public:
  explicit word_reader(std::string_view text) noexcept : rest_{text} {}

  /// True if the next characters are `wanted`.
  bool skip(std::string_view wanted) noexcept {
    if (!rest_.starts_with(wanted)) return false;
    rest_.remove_prefix(wanted.size());
    return true;
  }
  template <class T>
  bool number(T& value, int base = 10) noexcept {
    const auto [end, failure] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value, base);
    if (failure != std::errc{}) return false;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return true;
  }
  [[nodiscard]] std::size_t left() const noexcept { return rest_.size(); }

 private:
  std::string_view rest_;
};

inline std::string checksum_line(std::string_view body) {
  std::array<char, 17> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + 16, hash_text(body), 16).ptr;
  return "checksum " + std::string(digits.data(), end) + "\n";
}

}  // namespace detail

inline std::string bpe_tokenizer::to_text() const {
  std::string text = "causeway-bpe 1\nend_of_text " + std::to_string(with_end_ ? 1 : 0) + "\nmerges " +
                     std::to_string(merges_.size()) + "\n";
  for (const bpe_merge& m : merges_) text += std::to_string(m.left) + ' ' + std::to_string(m.right) + '\n';
  return text + detail::checksum_line(text);
}

inline result<bpe_tokenizer> bpe_tokenizer::from_text(std::string_view text, const std::string& name) {
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
  if (format != 1) {
    return fail(errc::version_mismatch, name,
                "tokenizer format " + std::to_string(format) + "; this program reads format 1. Use a newer library");
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
  auto made = make(merges, with_end == 1);
  if (!made) made.error().where = name + ", " + made.error().where;
  return made;
}

}  // namespace causeway::inline CAUSEWAY_ABI::data

#endif  // CAUSEWAY_DATA_BPE_TOKENIZER_HPP
