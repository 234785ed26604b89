// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_IO_SECTION_FILE_HPP
#define CAUSEWAY_IO_SECTION_FILE_HPP

// Reads a file of sections (io/section.hpp). Nothing is given out before every byte of the file was verified: header and
// sections must fit their checksums, and padding must be zero.

#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/io/section.hpp>
#include <causeway/io/storage.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::io {

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
  static result<section_file> parse(byte_vector content, const std::string& name);

  section_file(section_file&&) noexcept = default;  // not copied: the views point into the one content
  section_file& operator=(section_file&&) noexcept = default;

  [[nodiscard]] const section_stamp& stamp() const noexcept { return stamp_; }
  [[nodiscard]] std::span<const section_view> sections() const noexcept { return sections_; }

  /// The section called `name`; errc::not_found lists what there is.
  [[nodiscard]] result<section_view> find(std::string_view name) const;

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
  [[nodiscard]] result<void> match(std::span<const wanted_section> wanted) const;

 private:
  section_file() = default;
  [[nodiscard]] error wrong_length(std::string_view name, std::size_t has, std::size_t wants) const;
  [[nodiscard]] std::string listing() const;

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
  bool take(std::size_t length, std::string_view& text) noexcept {
    if (rest_.size() < length) return false;
    text = {reinterpret_cast<const char*>(rest_.data()), length};
    rest_ = rest_.subspan(length);
    return true;
  }
  [[nodiscard]] bool empty() const noexcept { return rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
};

inline bool all_zero(std::span<const std::byte> bytes) noexcept {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

/// The head, once the header's checksum fits.
inline result<section_file_head> verified_head(std::span<const std::byte> content, const std::string& name) {
  section_file_head head;
  const auto torn = [&](const std::string& what) {
    return fail(errc::corrupt, name, what + ". It was torn or damaged: use an older file");
  };
  if (!section_cursor{content}.take(head)) return torn("the file ends within its header");
  if (head.magic != section_magic)
    return fail(errc::corrupt, name, "this is not a Causeway section file, or its start is damaged");
  const std::size_t length = head.header_length;
  if (length < sizeof head + 8 || length > content.size()) return torn("the file ends within its header");
  std::uint64_t checksum = 0;
  std::memcpy(&checksum, content.data() + length - 8, 8);
  const bool sound = checksum == hash_bytes(content.first(length - 8));
  if (sound && head.format != section_format) {  // every format keeps the length's place and the checksum's
    return fail(errc::version_mismatch, name,
                "written in format " + std::to_string(head.format) + " by library version " +
                    std::to_string(head.library_version) + "; this program reads format " + std::to_string(section_format) +
                    ". Use a newer library");
  }
  if (!sound) return torn("the header does not fit its checksum");
  if (head.file_length != content.size()) {
    return torn("the file has " + std::to_string(content.size()) + " bytes of " + std::to_string(head.file_length));
  }
  return head;
}

}  // namespace detail

inline result<section_file> section_file::parse(byte_vector content, const std::string& name) {
  section_file file;
  file.name_ = name;
  file.content_ = std::move(content);
  const std::span<const std::byte> bytes = file.content_;
  CAUSEWAY_ASSIGN(const detail::section_file_head head, detail::verified_head(bytes, name));
  file.stamp_ = {head.run_id, head.step, head.library_version};
  detail::section_cursor cursor{bytes.first(head.header_length - 8).subspan(sizeof head)};
  std::uint64_t at = head.header_length;
  for (std::uint32_t i = 0; i < head.section_count; ++i) {
    detail::section_entry entry;
    section_view view;
    if (!cursor.take(entry) || !cursor.take(entry.name_length, view.name) || entry.offset != detail::align_section(at) ||
        entry.offset > bytes.size() || entry.length > bytes.size() - entry.offset) {
      return fail(errc::corrupt, name, "the table of sections contradicts itself. Use an older file");
    }
    view.version = entry.version;
    view.bytes = bytes.subspan(entry.offset, entry.length);
    if (!detail::all_zero(bytes.subspan(at, entry.offset - at)) || hash_bytes(view.bytes) != entry.checksum) {
      return fail(errc::corrupt, name,
                  "section \"" + std::string{view.name} + "\" does not fit its checksum. Use an older file");
    }
    at = entry.offset + entry.length;
    file.sections_.push_back(view);
  }
  if (!cursor.empty() || at != bytes.size()) {
    return fail(errc::corrupt, name, "the table of sections does not cover the file. Use an older file");
  }
  return result<section_file>{std::move(file)};  // nvcc does not move a local by itself
}

inline std::string section_file::listing() const {
  std::string text;
  for (const section_view& s : sections_) {
    text += (text.empty() ? "" : ", ") + std::string{s.name} + " v" + std::to_string(s.version);
  }
  return text.empty() ? "nothing" : text;
}

inline result<section_view> section_file::find(std::string_view name) const {
  for (const section_view& s : sections_) {
    if (s.name == name) return s;
  }
  return fail(errc::not_found, name_, "has no section \"" + std::string{name} + "\"; it has: " + listing());
}

inline error section_file::wrong_length(std::string_view name, std::size_t has, std::size_t wants) const {
  return fail(errc::wrong_model, name_,
              "section \"" + std::string{name} + "\" has " + std::to_string(has) + " bytes, this model needs " +
                  std::to_string(wants) + ". Use the model options that the file was written with");
}

inline result<void> section_file::match(std::span<const wanted_section> wanted) const {
  bool same = wanted.size() == sections_.size();
  bool newer = false;
  std::string wants;
  for (const wanted_section& w : wanted) {
    wants += (wants.empty() ? "" : ", ") + w.name + " v" + std::to_string(w.version);
    const auto it =
        std::find_if(sections_.begin(), sections_.end(), [&](const section_view& s) { return s.name == w.name; });
    if (it == sections_.end()) same = false;
    if (it != sections_.end() && it->version > w.version) newer = true;
  }
  if (same && !newer) return {};
  const std::string sides = " The file has: " + listing() + ". This program reads: " + (wants.empty() ? "nothing" : wants);
  if (!same) return fail(errc::wrong_model, name_, "written by a trainer of other parts; use the same policies." + sides);
  return fail(errc::version_mismatch, name_, "written by a newer library; use that one." + sides);
}

}  // namespace causeway::inline CAUSEWAY_ABI::io

#endif  // CAUSEWAY_IO_SECTION_FILE_HPP
