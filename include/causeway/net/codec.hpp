// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_CODEC_HPP
#define CAUSEWAY_NET_CODEC_HPP

// Reading and writing bytes that cross the trust boundary: fixed-width little-endian integers, and text and blobs behind a
// length. The reader never looks past its input, never believes a length that the input does not back with bytes, and
// remembers its first failure: a decoder reads everything and asks once at the end.

#include <causeway/core/result.hpp>

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

namespace detail {

template <std::unsigned_integral U>
constexpr U byte_swapped(U value) noexcept {
  U out = 0;
  for (std::size_t i = 0; i < sizeof(U); ++i) {
    out = static_cast<U>(static_cast<U>(out << 7U << 1U) | static_cast<U>(value & 0xFFU));
    value = static_cast<U>(value >> 7U >> 1U);
  }
  return out;
}

template <std::unsigned_integral U>
constexpr U little_endian(U value) noexcept {
  if constexpr (std::endian::native == std::endian::big) return byte_swapped(value);
  return value;
}

/// Writes `value` at `to`, low byte first; gives the place behind it.
template <std::unsigned_integral U>
std::byte* store_little(std::byte* to, U value) noexcept {
  value = little_endian(value);
  std::memcpy(to, &value, sizeof value);
  return to + sizeof value;
}

template <std::unsigned_integral U>
U load_little(const std::byte* from) noexcept {
  U value = 0;
  std::memcpy(&value, from, sizeof value);
  return little_endian(value);
}

}  // namespace detail

/// Appends values to a byte vector that it owns.
class byte_writer {
 public:
  template <std::unsigned_integral U>
  byte_writer& put(U value) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof value);
    detail::store_little(bytes_.data() + at, value);
    return *this;
  }

  /// A blob behind its length as a u32. Precondition: shorter than 4 GiB.
  CAUSEWAY_DECL byte_writer& put_bytes(std::span<const std::byte> blob);

  byte_writer& put_text(std::string_view text) { return put_bytes(std::as_bytes(std::span{text.data(), text.size()})); }

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::byte> take() && noexcept;

 private:
  std::vector<std::byte> bytes_;
};

/// Reads values from untrusted bytes. After the first failure every read gives a zero or an empty view, and `finish` gives
/// the reason. Views point into the input. Allocates nothing (but for the message of an error).
class byte_reader {
 public:
  explicit byte_reader(std::span<const std::byte> input) noexcept : rest_{input} {}

  template <std::unsigned_integral U>
  U get() noexcept {
    if (!require(sizeof(U))) return 0;
    const U value = detail::load_little<U>(rest_.data());
    rest_ = rest_.subspan(sizeof(U));
    return value;
  }

  /// A blob of at most `limit` bytes behind its u32 length.
  CAUSEWAY_DECL std::span<const std::byte> get_bytes(std::size_t limit) noexcept;

  /// Text of at most `limit` bytes; control characters and other bytes outside printable ASCII become '?', so that what a
  /// stranger sent can be shown on a terminal.
  CAUSEWAY_DECL std::string get_text(std::size_t limit);

  /// What was read cannot be right (a count beyond its limit, an unknown kind): from now on every read fails.
  void refuse() noexcept { set_failed(state::over_limit); }

  [[nodiscard]] bool ok() const noexcept { return state_ == state::good; }
  [[nodiscard]] std::size_t remaining() const noexcept { return rest_.size(); }

  /// Success when every read succeeded and nothing is left; else errc::corrupt with the reason.
  CAUSEWAY_DECL [[nodiscard]] result<void> finish(std::string_view what) const;

 private:
  enum class state : std::uint8_t { good, truncated, over_limit };

  CAUSEWAY_DECL bool require(std::size_t n) noexcept;

  CAUSEWAY_DECL void set_failed(state why) noexcept;

  std::span<const std::byte> rest_;
  state state_ = state::good;
};

}}}  // namespace causeway::CAUSEWAY_ABI::net

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/codec.ipp>
#endif

#endif  // CAUSEWAY_NET_CODEC_HPP
