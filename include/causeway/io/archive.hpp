// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_IO_ARCHIVE_HPP
#define CAUSEWAY_IO_ARCHIVE_HPP

// Objects with `serialize(archive)` to bytes and back, portably (fixed byte order, fixed widths), for checkpoints. Numbers,
// enumerations, text, the standard containers and what consists of them. No length is believed before that many bytes are
// there, so what reading takes is bounded by the input, whatever its bytes are. Layout:
// docs/reference/checkpoint_format.md.

#include <causeway/core/result.hpp>
#include <causeway/io/storage.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace io {

static_assert(std::endian::native == std::endian::little, "archives are little-endian, and are written as they are");

namespace detail {

/// Ends the reading of an object: bytes that are not there, or a value that is none.
class unreadable final : public std::exception {
 public:
  explicit unreadable(const char* why) noexcept : why_{why} {}
  [[nodiscard]] const char* what() const noexcept override { return why_; }

 private:
  const char* why_;
};

template <class T>
concept Number = std::is_arithmetic_v<T> || std::is_enum_v<T>;
/// What a vector or an array of these is as it lies in memory.
template <class T>
concept Plain = Number<T> && !std::is_same_v<T, bool>;

}  // namespace detail

/// Hands objects to their `serialize`, which visits their members: `ar(a, b, c)`.
class output_archive {
 public:
  CAUSEWAY_DECL explicit output_archive(byte_vector& out);

  template <class... Ts>
  output_archive& operator()(const Ts&... values) {
    (write(values), ...);
    return *this;
  }

 private:
  CAUSEWAY_DECL void append(const void* data, std::size_t size);
  CAUSEWAY_DECL void append_size(std::size_t size);

  template <detail::Number T>
  void write(const T& value) {
    append(&value, sizeof value);
  }
  CAUSEWAY_DECL void write(const std::string& text);
  CAUSEWAY_DECL void write(const std::vector<bool>& flags);
  template <class T>
  void write(const std::optional<T>& value) {
    write(!value.has_value());
    if (value) write(*value);
  }
  template <class A, class B>
  void write(const std::pair<A, B>& value) {
    write(value.first), write(value.second);
  }
  template <class T, std::size_t N>
  void write(const std::array<T, N>& values) {
    write_all(values);
  }
  template <class T, class Memory>
  void write(const std::vector<T, Memory>& values) {
    append_size(values.size());
    write_all(values);
  }
  template <class T, class Memory>
  void write(const std::deque<T, Memory>& values) {
    append_size(values.size());
    for (const T& v : values) write(v);
  }
  template <class T, class Less>
  void write(const std::set<T, Less>& values) {
    append_size(values.size());
    for (const T& v : values) write(v);
  }
  template <class K, class V, class Less>
  void write(const std::map<K, V, Less>& values) {
    append_size(values.size());
    for (const auto& [key, value] : values) write(key), write(value);
  }
  template <class T>
    requires requires(T& value, output_archive& ar) { value.serialize(ar); }
  void write(const T& value) {
    const_cast<T&>(value).serialize(*this);  // which only reads it here, and has one body for both ways
  }

  template <class Range>
  void write_all(const Range& values) {
    using T = typename Range::value_type;
    if constexpr (detail::Plain<T>) {
      append(values.data(), values.size() * sizeof(T));
    } else {
      for (const T& v : values) write(v);
    }
  }

  byte_vector* out_;
};

/// The inverse. Throws `detail::unreadable` through `serialize` to its own caller, `from_bytes`.
class input_archive {
 public:
  CAUSEWAY_DECL explicit input_archive(std::span<const std::byte> bytes);

  template <class... Ts>
  input_archive& operator()(Ts&&... values) {
    (read(values), ...);
    return *this;
  }

  [[nodiscard]] std::size_t left() const noexcept { return rest_.size(); }

 private:
  CAUSEWAY_DECL void take(void* to, std::size_t size);
  /// How many elements follow, of at least `least` bytes each.
  CAUSEWAY_DECL std::size_t take_size(std::size_t least);

  template <detail::Number T>
  void read(T& value) {
    take(&value, sizeof value);
  }
  CAUSEWAY_DECL void read(bool& value);
  CAUSEWAY_DECL void read(std::string& text);
  CAUSEWAY_DECL void read(std::vector<bool>& flags);
  template <class T>
  void read(std::optional<T>& value) {
    bool none = false;
    read(none);
    value.reset();
    if (!none) read(value.emplace());
  }
  template <class A, class B>
  void read(std::pair<A, B>& value) {
    read(value.first), read(value.second);
  }
  template <class T, std::size_t N>
  void read(std::array<T, N>& values) {
    read_all(values);
  }
  template <class T, class Memory>
  void read(std::vector<T, Memory>& values) {
    if constexpr (detail::Plain<T>) {
      values.resize(take_size(sizeof(T)));
      read_all(values);
    } else {
      read_each(values);
    }
  }
  template <class T, class Memory>
  void read(std::deque<T, Memory>& values) {
    read_each(values);
  }
  template <class T, class Less>
  void read(std::set<T, Less>& values) {
    values.clear();
    for (std::size_t n = take_size(1); n > 0; --n) {
      T value{};
      read(value);
      values.emplace_hint(values.end(), std::move(value));
    }
  }
  template <class K, class V, class Less>
  void read(std::map<K, V, Less>& values) {
    values.clear();
    for (std::size_t n = take_size(1); n > 0; --n) {
      K key{};
      read(key);
      read(values.emplace_hint(values.end(), std::move(key), V{})->second);
    }
  }
  template <class T>
    requires requires(T& value, input_archive& ar) { value.serialize(ar); }
  void read(T& value) { value.serialize(*this); }

  template <class Range>
  void read_all(Range& values) {
    using T = typename Range::value_type;
    if constexpr (detail::Plain<T>) {
      take(values.data(), values.size() * sizeof(T));
    } else {
      for (T& v : values) read(v);
    }
  }
  /// One after another, so that a count without bytes behind it takes no memory.
  template <class Range>
  void read_each(Range& values) {
    const std::size_t count = take_size(1);
    if (values.size() > count) values.resize(count);
    for (auto& v : values) read(v);
    while (values.size() < count) read(values.emplace_back());
  }

  std::span<const std::byte> rest_;
};

/// The bytes of `value`. Large arrays of numbers that lie in memory anyway are better written as a `section` of their own.
template <class T>
result<byte_vector> to_bytes(const T& value) {
  byte_vector out;
  output_archive archive{out};
  archive(value);
  return out;
}

namespace detail {
CAUSEWAY_DECL result<void> unreadable_bytes(std::string_view why);
CAUSEWAY_DECL result<void> bytes_left(std::size_t left, std::size_t all);
}  // namespace detail

/// Reads `value` from `bytes`, all of them: errc::corrupt if they end too early, go on afterwards, or make no sense. After
/// an error `value` holds a mixture and must not be used.
template <class T>
result<void> from_bytes(std::span<const std::byte> bytes, T& value) {
  try {
    input_archive archive{bytes};
    archive(value);
    return detail::bytes_left(archive.left(), bytes.size());
  } catch (const std::exception& e) {
    return detail::unreadable_bytes(e.what());
  }
}

/// Both, as one object to hand to code that does not know archives. Models Archiver.
struct archiver {
  template <class T>
  result<byte_vector> to_bytes(const T& value) const {
    return io::to_bytes(value);
  }
  template <class T>
  result<void> from_bytes(std::span<const std::byte> bytes, T& value) const {
    return io::from_bytes(bytes, value);
  }
};

}}}  // namespace causeway::CAUSEWAY_ABI::io

#ifndef CAUSEWAY_COMPILED
#include <causeway/io/impl/archive.ipp>
#endif

#endif  // CAUSEWAY_IO_ARCHIVE_HPP
