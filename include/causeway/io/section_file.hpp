// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_IO_SECTION_FILE_HPP
#define CAUSEWAY_IO_SECTION_FILE_HPP

// Files of named, versioned sections of raw bytes: a header with a checksum of its own and one of each section, then the
// sections, each from a 64-byte boundary. Layout: docs/reference/checkpoint_format.md. Little-endian. Of a file that is
// read nothing is given out before every byte was verified: header and sections must fit their checksums, and padding must
// be zero.

#include <causeway/config/version.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/io/storage.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace io {

static_assert(std::endian::native == std::endian::little, "section files are little-endian, and so must be the machine");

/// Which run and step a file belongs to, and who wrote it.
struct section_stamp {
  std::uint64_t run_id = 0;
  std::uint64_t step = 0;
  std::uint32_t library_version = CAUSEWAY_VERSION;  ///< filled in by the writer

  friend constexpr bool operator==(const section_stamp&, const section_stamp&) = default;
};

/// A section to be written: owns its bytes, or refers to bytes that outlive it (large ones: parameters, moments).
class section {
 public:
  CAUSEWAY_DECL section(std::string name, std::uint32_t version, byte_vector content);
  CAUSEWAY_DECL section(std::string name, std::uint32_t version, std::span<const std::byte> content);

  /// Refers to `values` as they lie in memory.
  template <class T>
    requires std::is_trivially_copyable_v<T>
  static section of(std::string name, std::uint32_t version, std::span<const T> values) {
    return {std::move(name), version, std::as_bytes(values)};
  }

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] std::uint32_t version() const noexcept { return version_; }
  CAUSEWAY_DECL [[nodiscard]] std::span<const std::byte> bytes() const noexcept;

 private:
  std::string name_;
  std::uint32_t version_;
  std::variant<byte_vector, std::span<const std::byte>> content_;
};

/// Writes sections one after another into a sink; large ones are passed on without a copy. Reads every byte twice (once for
/// the checksums, which stand in front): the bytes must not change meanwhile. Names must differ and be at most 4,096 bytes.
CAUSEWAY_DECL result<void> write_sections(const byte_sink& sink, section_stamp stamp, std::span<const section> sections);

namespace detail {

constexpr std::array<char, 8> section_magic{'C', 'W', 'S', 'E', 'C', 'T', '0', '\n'};
constexpr std::uint32_t section_format = 1;
constexpr std::size_t section_alignment = 64;
constexpr std::size_t longest_section_name = 4096;

struct section_file_head {
  std::array<char, 8> magic = section_magic;
  std::uint32_t format = section_format;
  std::uint32_t library_version = CAUSEWAY_VERSION;
  std::uint64_t run_id = 0;
  std::uint64_t step = 0;
  std::uint64_t file_length = 0;    // what a torn file does not have
  std::uint32_t header_length = 0;  // this head, the table and the header's checksum
  std::uint32_t section_count = 0;
};
static_assert(sizeof(section_file_head) == 48 && std::has_unique_object_representations_v<section_file_head>);

struct section_entry {  // followed by the name, without a terminator
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint64_t checksum = 0;
  std::uint32_t version = 0;
  std::uint32_t name_length = 0;
};
static_assert(sizeof(section_entry) == 32 && std::has_unique_object_representations_v<section_entry>);

constexpr std::uint64_t align_section(std::uint64_t offset) noexcept {
  return (offset + section_alignment - 1) / section_alignment * section_alignment;
}

template <class T>
void append_object(byte_vector& out, const T& value) {
  const auto bytes = std::as_bytes(std::span{&value, 1});
  out.insert(out.end(), bytes.begin(), bytes.end());
}

CAUSEWAY_DECL byte_vector section_header(const section_stamp& stamp, std::span<const section> sections);

}  // namespace detail

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
