// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_IO_SECTION_FILE_HPP
#define CAUSEWAY_IO_SECTION_FILE_HPP

// Reads a file of sections (io/section.hpp). Nothing is given out before every byte of the file was verified: header and
// sections must fit their checksums, and padding must be zero.

#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/io/section.hpp>
#include <causeway/io/storage.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace io {

/// A section that was read and verified. Starts on a 64-byte boundary of the file.
struct section_view {
  std::string_view name;
  std::uint32_t version = 0;
  std::span<const std::byte> bytes;
};

/// A name and the newest version of it that the program can read.
struct wanted_section {
  std::string name;
  std::uint32_t version = 1;
};

/// A verified file in memory. Movable; the views live as long as it does, also after a move.
class section_file {
 public:
  /// Verifies `content`. `name` is for messages. Errors: errc::corrupt (torn, flipped, not such a file) and
  /// errc::version_mismatch (a newer format).
  CAUSEWAY_DECL static result<section_file> parse(byte_vector content, const std::string& name);

  section_file(section_file&&) noexcept = default;  // not copied: the views point into the one content
  section_file& operator=(section_file&&) noexcept = default;

  [[nodiscard]] const section_stamp& stamp() const noexcept { return stamp_; }
  [[nodiscard]] std::span<const section_view> sections() const noexcept { return sections_; }

  /// The section called `name`; errc::not_found lists what there is.
  CAUSEWAY_DECL [[nodiscard]] result<section_view> find(std::string_view name) const;

  /// Fills `values` with the section called `name`; errc::wrong_model if the lengths differ.
  template <class T>
    requires std::is_trivially_copyable_v<T> result<void> copy_to(std::string_view name, std::span<T> values)
  const {
    CAUSEWAY_ASSIGN(const section_view found, find(name));
    if (found.bytes.size() != values.size_bytes()) return wrong_length(name, found.bytes.size(), values.size_bytes());
    if (!values.empty()) std::memcpy(values.data(), found.bytes.data(), found.bytes.size());
    return {};
  }

  /// Checks that the sections are those wanted, in any order, none newer than wanted. Otherwise the error lists both sides:
  /// errc::wrong_model for missing or unknown sections, errc::version_mismatch for newer ones. Older versions pass: who
  /// owns the section migrates it.
  CAUSEWAY_DECL [[nodiscard]] result<void> match(std::span<const wanted_section> wanted) const;

 private:
  section_file() = default;
  CAUSEWAY_DECL [[nodiscard]] error wrong_length(std::string_view name, std::size_t has, std::size_t wants) const;
  CAUSEWAY_DECL [[nodiscard]] std::string listing() const;

  std::string name_;
  byte_vector content_;
  section_stamp stamp_;
  std::vector<section_view> sections_;
};

namespace detail {

/// Walks through a header whose checksum was verified already, and still trusts no length.
class section_cursor {
 public:
  explicit section_cursor(std::span<const std::byte> bytes) noexcept : rest_{bytes} {}

  template <class T>
  bool take(T& value) noexcept {
    if (rest_.size() < sizeof value) return false;
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_ = rest_.subspan(sizeof value);
    return true;
  }
  CAUSEWAY_DECL bool take(std::size_t length, std::string_view& text) noexcept;
  [[nodiscard]] bool empty() const noexcept { return rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
};

CAUSEWAY_DECL bool all_zero(std::span<const std::byte> bytes) noexcept;

/// The head, once the header's checksum fits.
CAUSEWAY_DECL result<section_file_head> verified_head(std::span<const std::byte> content, const std::string& name);

}  // namespace detail

}}}  // namespace causeway::CAUSEWAY_ABI::io

#ifndef CAUSEWAY_COMPILED
#include <causeway/io/impl/section_file.ipp>
#endif

#endif  // CAUSEWAY_IO_SECTION_FILE_HPP
