// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_DATA_TOKEN_STREAM_HPP
#define CAUSEWAY_DATA_TOKEN_STREAM_HPP

// A long sequence of token numbers that can be read anywhere: made in memory, or mapped from a file. A cheap handle; copies
// and slices share the tokens, which never change.

#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::data {

/// Bytes per stored token.
enum class token_width : std::uint8_t { two = 2, four = 4 };

/// Safe to read from several threads.
class token_stream {
 public:
  token_stream() = default;

  /// Tokens in memory, at two bytes each where all fit.
  explicit token_stream(std::span<const std::int32_t> tokens) : size_{static_cast<std::int64_t>(tokens.size())} {
    const bool narrow = std::all_of(tokens.begin(), tokens.end(), [](std::int32_t t) { return t >= 0 && t <= 0xFFFF; });
    width_ = narrow ? token_width::two : token_width::four;
    if (narrow) {
      own(std::vector<std::uint16_t>(tokens.begin(), tokens.end()));
    } else {
      own(std::vector<std::int32_t>(tokens.begin(), tokens.end()));
    }
  }

  /// Tokens at `data`, little-endian, kept alive by `owner`. No alignment is needed.
  token_stream(std::shared_ptr<const void> owner, const std::byte* data, std::int64_t size, token_width width)
      : owner_{std::move(owner)}, data_{data}, size_{size}, width_{width} {}

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }

  /// Tokens [first, first + out.size()) into `out`; they must exist.
  void read(std::int64_t first, std::span<std::int32_t> out) const noexcept {
    CAUSEWAY_EXPECT(first >= 0 && first + static_cast<std::int64_t>(out.size()) <= size_);
    if (width_ == token_width::two) {
      copy<std::uint16_t>(first, out);
    } else {
      copy<std::int32_t>(first, out);
    }
  }

  /// Tokens [first, first + count), cut to what exists.
  [[nodiscard]] token_stream slice(std::int64_t first, std::int64_t count) const {
    first = std::clamp<std::int64_t>(first, 0, size_);
    count = std::clamp<std::int64_t>(count, 0, size_ - first);
    return {owner_, data_ == nullptr ? nullptr : data_ + first * static_cast<std::int64_t>(width_), count, width_};
  }

  /// Reads all tokens once: errc::bad_text at the first that a model with `vocabulary` tokens does not know.
  [[nodiscard]] result<void> check_vocabulary(std::int64_t vocabulary) const {
    std::vector<std::int32_t> part(4096);
    for (std::int64_t at = 0; at < size_; at += static_cast<std::int64_t>(part.size())) {
      part.resize(static_cast<std::size_t>(std::min<std::int64_t>(4096, size_ - at)));
      read(at, part);
      const auto bad = std::find_if(part.begin(), part.end(), [&](std::int32_t t) { return t < 0 || t >= vocabulary; });
      if (bad == part.end()) continue;
      return fail(errc::bad_text, "token " + std::to_string(at + (bad - part.begin())),
                  "number " + std::to_string(static_cast<std::uint32_t>(*bad)) + " is outside the vocabulary of " +
                      std::to_string(vocabulary) + ". Use the tokenizer that made the tokens");
    }
    return {};
  }

  /// A checksum of the tokens, whatever their width: equal on peers that train on the same data. Reads everything.
  [[nodiscard]] std::uint64_t content_hash() const {
    std::vector<std::int32_t> part(4096);  // a multiple of the hash's stripe
    hasher h;
    for (std::int64_t at = 0; at < size_; at += 4096) {
      part.resize(static_cast<std::size_t>(std::min<std::int64_t>(4096, size_ - at)));
      read(at, part);
      h.add_values(std::span<const std::int32_t>{part});
    }
    return h.finish();
  }

 private:
  template <class T>
  void own(std::vector<T> tokens) {
    auto shared = std::make_shared<const std::vector<T>>(std::move(tokens));
    data_ = std::as_bytes(std::span{*shared}).data();
    owner_ = std::move(shared);
  }

  template <class T>
  void copy(std::int64_t first, std::span<std::int32_t> out) const noexcept {
    const std::byte* from = data_ + first * static_cast<std::int64_t>(sizeof(T));
    for (std::size_t i = 0; i < out.size(); ++i) {
      T token;
      std::memcpy(&token, from + i * sizeof(T), sizeof(T));
      out[i] = token;
    }
  }

  std::shared_ptr<const void> owner_;
  const std::byte* data_ = nullptr;
  std::int64_t size_ = 0;
  token_width width_ = token_width::two;
};

struct token_split {
  token_stream train;
  token_stream validation;
};

/// The last `fraction` of the tokens for validation (rounded down to whole tokens), the rest for training: one cut, so that
/// no training window overlaps a validation window. `fraction` must lie in [0, 1).
inline token_split split_fraction(const token_stream& tokens, double fraction) {
  CAUSEWAY_EXPECT(fraction >= 0.0 && fraction < 1.0);
  const auto last = static_cast<std::int64_t>(static_cast<double>(tokens.size()) * fraction);
  return {tokens.slice(0, tokens.size() - last), tokens.slice(tokens.size() - last, last)};
}

}  // namespace causeway::inline CAUSEWAY_ABI::data

#endif  // CAUSEWAY_DATA_TOKEN_STREAM_HPP
