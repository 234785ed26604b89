// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_DATA_TOKENIZER_HPP
#define CAUSEWAY_DATA_TOKENIZER_HPP

// What a tokenizer is, and the simplest one: a token per byte. Decoding is the exact inverse of encoding for any bytes, not
// only for valid text.

#include <causeway/core/concepts.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/data/text.hpp>
#include <causeway/data/token_stream.hpp>

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace data {

/// Requirements.
/// - `encode(text, out)` appends the tokens of `text` to `out`. Never produces the end-of-text token.
/// - `decode(tokens, out)` appends their bytes; errc::invalid_argument for a number outside the vocabulary. End of text has
///   no bytes.
/// - `end_of_text()` is what stands between documents, if the tokenizer has it.
/// - `hash()` is equal where the same text gives the same tokens.
template <class T>
concept Tokenizer = Movable<T> && requires(T& t, const T& c, std::string_view text, std::vector<std::int32_t>& tokens,
                                           std::span<const std::int32_t> numbers, std::string& bytes) {
  { c.vocabulary() } -> std::same_as<std::int64_t>;
  { c.end_of_text() } -> std::same_as<std::optional<std::int32_t>>;
  { c.hash() } -> std::same_as<std::uint64_t>;
  { t.encode(text, tokens) } -> std::same_as<void>;
  { c.decode(numbers, bytes) } -> std::same_as<result<void>>;
};

/// Token n is byte n; 256, if asked for, is end of text. Thread-safe.
class byte_tokenizer {
 public:
  explicit byte_tokenizer(bool with_end_of_text = false) noexcept : with_end_{with_end_of_text} {}

  [[nodiscard]] std::int64_t vocabulary() const noexcept { return with_end_ ? 257 : 256; }
  CAUSEWAY_DECL [[nodiscard]] std::optional<std::int32_t> end_of_text() const noexcept;
  [[nodiscard]] std::uint64_t hash() const noexcept { return hash_text("bytes", with_end_ ? 1 : 0); }

  CAUSEWAY_DECL void encode(std::string_view text, std::vector<std::int32_t>& out) const;

  CAUSEWAY_DECL result<void> decode(std::span<const std::int32_t> tokens, std::string& out) const;

 private:
  bool with_end_;
};

static_assert(Tokenizer<byte_tokenizer>);

/// All documents as one stream, each followed by end of text where the tokenizer has it.
template <Tokenizer T>
token_stream tokenize(T& tokenizer, std::span<const document> documents) {
  std::vector<std::int32_t> tokens;
  for (const document& d : documents) {
    tokenizer.encode(d.text, tokens);
    if (const auto end = tokenizer.end_of_text()) tokens.push_back(*end);
  }
  return token_stream{tokens};
}

template <Tokenizer T>
token_stream tokenize(T& tokenizer, std::string_view text) {
  std::vector<std::int32_t> tokens;
  tokenizer.encode(text, tokens);
  return token_stream{tokens};
}

}}}  // namespace causeway::CAUSEWAY_ABI::data

#ifndef CAUSEWAY_COMPILED
#include <causeway/data/impl/tokenizer.ipp>
#endif

#endif  // CAUSEWAY_DATA_TOKENIZER_HPP
