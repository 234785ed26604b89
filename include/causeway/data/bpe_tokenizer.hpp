// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_DATA_BPE_TOKENIZER_HPP
#define CAUSEWAY_DATA_BPE_TOKENIZER_HPP

// Byte-level byte-pair encoding (Sennrich et al. 2016, on bytes as in GPT-2). In our own tokenizers tokens 0..255 are the
// bytes, and token 256+i is the pair that merge i joins; those of others number their tokens as they like, and cut text by
// their own rules. Any bytes can be encoded and come back exactly. Trained by data/bpe_trainer.hpp.

#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/data/bpe_table.hpp>
#include <causeway/data/pre_tokenizer.hpp>
#include <causeway/data/tokenizer.hpp>
#include <causeway/io/storage.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace data {

/// Models Tokenizer. Keeps the tokens of words it has seen, so encoding changes it: one thread at a time, or a copy each.
class bpe_tokenizer {
 public:
  /// The 256 bytes only.
  CAUSEWAY_DECL bpe_tokenizer();

  /// errc::corrupt if a merge joins tokens that do not exist yet, repeats an earlier one, or gives more than 64 bytes.
  CAUSEWAY_DECL static result<bpe_tokenizer> make(std::span<const bpe_merge> merges, bool with_end_of_text);
  /// One of others. errc::corrupt if the parts do not fit each other, errc::too_large beyond `most_tokens` or a token of
  /// more than `longest_token` bytes.
  CAUSEWAY_DECL static result<bpe_tokenizer> make(bpe_table table);

  static constexpr std::size_t most_tokens = std::size_t{1} << 20U;  // the largest in use have some 260,000
  static constexpr std::size_t longest_token = 512;                  // theirs have 128 bytes at most

  /// Numbers that tokens may have, also where some are missing.
  [[nodiscard]] std::int64_t vocabulary() const noexcept { return static_cast<std::int64_t>(table_.tokens.size()); }
  [[nodiscard]] std::optional<std::int32_t> end_of_text() const noexcept { return table_.end_of_text; }
  [[nodiscard]] std::span<const bpe_merge> merges() const noexcept { return table_.merges; }
  /// Those of a tokenizer `by_number`, too: sorted by the token that they make, then by the ones that they join.
  CAUSEWAY_DECL [[nodiscard]] std::vector<bpe_merge> all_merges() const;
  /// All of it. One of our own has `pieces` piece_rule::causeway.
  [[nodiscard]] const bpe_table& table() const noexcept { return table_; }
  [[nodiscard]] std::uint64_t hash() const noexcept { return hash_text(to_text()); }

  /// Special tokens have none.
  [[nodiscard]] std::string_view token_bytes(std::int32_t token) const {
    return table_.tokens[static_cast<std::size_t>(token)];
  }

  /// Pieces seen before cost one look-up; a new piece of n bytes costs O(n log n). Never a special token, also where the
  /// text spells one.
  CAUSEWAY_DECL void encode(std::string_view text, std::vector<std::int32_t>& out);
  /// The same, but where the text spells the name of a special token it is that token: the longest that begins first, as in
  /// `tokenizers`. For texts that you trust: with one from others, they say where your documents end.
  CAUSEWAY_DECL void encode_with_specials(std::string_view text, std::vector<std::int32_t>& out);

  CAUSEWAY_DECL result<void> decode(std::span<const std::int32_t> tokens, std::string& out) const;

  /// The tokenizer as lines of ASCII text, the last one a checksum.
  CAUSEWAY_DECL [[nodiscard]] std::string to_text() const;
  /// The inverse; `name` is for messages. Errors: errc::corrupt, errc::version_mismatch.
  CAUSEWAY_DECL static result<bpe_tokenizer> from_text(std::string_view text, const std::string& name);

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
  static constexpr std::string_view end_name = "<|endoftext|>";
  static constexpr std::size_t most_cached = std::size_t{1} << 17U;  // some 15 MB; text has fewer common words

  struct text_hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view s) const noexcept { return std::hash<std::string_view>{}(s); }
  };

  static constexpr std::uint64_t key_of(std::int32_t left, std::int32_t right) noexcept {
    return (static_cast<std::uint64_t>(left) << 32U) | static_cast<std::uint32_t>(right);
  }

  /// What two neighbours become, and when: the lowest rank first.
  struct joined {
    std::int32_t rank = 0;
    std::int32_t token = 0;
  };
  using numbers = std::unordered_map<std::string_view, std::int32_t>;  // of tokens, by their bytes

  CAUSEWAY_DECL [[nodiscard]] result<numbers> numbered() const;
  CAUSEWAY_DECL result<void> check_specials() const;
  CAUSEWAY_DECL result<void> join_listed(const numbers& known);
  CAUSEWAY_DECL void join_by_number(const numbers& known);
  /// The special token whose name begins the text.
  CAUSEWAY_DECL [[nodiscard]] const special_token* special_at_front(std::string_view text) const;
  CAUSEWAY_DECL [[nodiscard]] std::optional<std::int32_t> whole(std::string_view piece) const;
  CAUSEWAY_DECL void append_merged(std::string_view piece, std::vector<std::int32_t>& out) const;

  bpe_table table_;
  std::array<std::int32_t, 256> byte_tokens_{};
  std::unordered_map<std::uint64_t, joined> joined_;  // sorted where it is walked through
  std::vector<std::int32_t> by_bytes_;  // tokens in the order of their bytes, where whole pieces are looked up
  std::unordered_map<std::string, std::vector<std::int32_t>, text_hash, std::equal_to<>> cache_;
};

static_assert(Tokenizer<bpe_tokenizer>);

}}}  // namespace causeway::CAUSEWAY_ABI::data

#ifndef CAUSEWAY_COMPILED
#include <causeway/data/impl/bpe_tokenizer.ipp>
#endif

#endif  // CAUSEWAY_DATA_BPE_TOKENIZER_HPP
