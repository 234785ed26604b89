// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_DATA_TOKEN_STREAM_HPP
#define CAUSEWAY_DATA_TOKEN_STREAM_HPP

// A long sequence of token numbers that can be read anywhere: made in memory, mapped from a file, or several of these one
// after the other. A cheap handle; copies and slices share the tokens, which never change.

#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace data {

/// Bytes per stored token.
enum class token_width : std::uint8_t { two = 2, four = 4 };

/// Safe to read from several threads.
class token_stream {
 public:
  token_stream() = default;

  /// Tokens in memory, at two bytes each where all fit.
  CAUSEWAY_DECL explicit token_stream(std::span<const std::int32_t> tokens);

  /// Tokens at `data`, little-endian, kept alive by `owner`. No alignment is needed.
  CAUSEWAY_DECL token_stream(std::shared_ptr<const void> owner, const std::byte* data, std::int64_t size,
                             token_width width);

  /// One after the other, whatever their widths. Costs nothing but a list of them.
  CAUSEWAY_DECL static token_stream joined(std::span<const token_stream> parts);

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }

  /// Tokens [first, first + out.size()) into `out`; they must exist.
  CAUSEWAY_DECL void read(std::int64_t first, std::span<std::int32_t> out) const noexcept;

  /// Tokens [first, first + count), cut to what exists.
  CAUSEWAY_DECL [[nodiscard]] token_stream slice(std::int64_t first, std::int64_t count) const;

  /// Reads all tokens once: errc::bad_text at the first that a model with `vocabulary` tokens does not know.
  CAUSEWAY_DECL [[nodiscard]] result<void> check_vocabulary(std::int64_t vocabulary) const;

  /// A checksum of the tokens, whatever their width: equal on peers that train on the same data. Reads everything.
  CAUSEWAY_DECL [[nodiscard]] std::uint64_t content_hash() const;

 private:
  struct piece {
    std::shared_ptr<const void> owner;
    const std::byte* data = nullptr;
    std::int64_t begin = 0;  // where it begins in all pieces together
    std::int64_t size = 0;
    token_width width = token_width::two;

    CAUSEWAY_DECL void read(std::int64_t first, std::span<std::int32_t> out) const noexcept;
  };

  CAUSEWAY_DECL void hold(std::vector<piece> pieces);
  CAUSEWAY_DECL [[nodiscard]] std::vector<piece>::const_iterator piece_with(std::int64_t token) const noexcept;

  std::shared_ptr<const std::vector<piece>> pieces_;
  std::int64_t first_ = 0;  // of the pieces' tokens
  std::int64_t size_ = 0;
};

struct token_split {
  token_stream train;
  token_stream validation;
};

/// The last `fraction` of the tokens for validation (rounded down to whole tokens), the rest for training: one cut, so that
/// no training window overlaps a validation window. `fraction` must lie in [0, 1).
CAUSEWAY_DECL token_split split_fraction(const token_stream& tokens, double fraction);

}}}  // namespace causeway::CAUSEWAY_ABI::data

#ifndef CAUSEWAY_COMPILED
#include <causeway/data/impl/token_stream.ipp>
#endif

#endif  // CAUSEWAY_DATA_TOKEN_STREAM_HPP
