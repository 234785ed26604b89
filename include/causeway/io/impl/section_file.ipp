// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_IO_IMPL_SECTION_FILE_IPP
#define CAUSEWAY_IO_IMPL_SECTION_FILE_IPP

#include <causeway/io/section_file.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace io {

CAUSEWAY_DECL section::section(std::string name, std::uint32_t version, byte_vector content)
    : name_{std::move(name)}, version_{version}, content_{std::move(content)} {}

CAUSEWAY_DECL section::section(std::string name, std::uint32_t version, std::span<const std::byte> content)
    : name_{std::move(name)}, version_{version}, content_{content} {}

CAUSEWAY_DECL std::span<const std::byte> section::bytes() const noexcept {
  if (const auto* own = std::get_if<byte_vector>(&content_)) return *own;
  return *std::get_if<std::span<const std::byte>>(&content_);
}

}}}  // namespace causeway::CAUSEWAY_ABI::io

namespace causeway { inline namespace CAUSEWAY_ABI { namespace io { namespace detail {

CAUSEWAY_DECL byte_vector section_header(const section_stamp& stamp, std::span<const section> sections) {
  section_file_head head{.run_id = stamp.run_id, .step = stamp.step};
  std::size_t length = sizeof head + sizeof(std::uint64_t);
  for (const section& s : sections) length += sizeof(section_entry) + s.name().size();
  head.header_length = static_cast<std::uint32_t>(length);
  head.section_count = static_cast<std::uint32_t>(sections.size());
  head.file_length = length;
  byte_vector table;
  for (const section& s : sections) {
    const std::uint64_t offset = align_section(head.file_length);
    head.file_length = offset + s.bytes().size();
    append_object(table, section_entry{offset, s.bytes().size(), hash_bytes(s.bytes()), s.version(),
                                       static_cast<std::uint32_t>(s.name().size())});
    const auto name = std::as_bytes(std::span{s.name().data(), s.name().size()});
    table.insert(table.end(), name.begin(), name.end());
  }
  byte_vector header;
  append_object(header, head);
  header.insert(header.end(), table.begin(), table.end());
  append_object(header, hash_bytes(header));
  return header;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::io::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace io {

CAUSEWAY_DECL result<void> write_sections(const byte_sink& sink, section_stamp stamp, std::span<const section> sections) {
  for (const section& s : sections) {
    const auto same = [&](const section& other) { return other.name() == s.name(); };
    if (s.name().size() > detail::longest_section_name || std::count_if(sections.begin(), sections.end(), same) != 1) {
      return fail(errc::invalid_argument, s.name(), "section names must differ and be at most 4,096 bytes long");
    }
  }
  constexpr std::array<std::byte, detail::section_alignment> zeros{};
  const byte_vector header = detail::section_header(stamp, sections);
  CAUSEWAY_TRY(sink(header));
  std::uint64_t at = header.size();
  for (const section& s : sections) {
    CAUSEWAY_TRY(sink(std::span{zeros}.first(detail::align_section(at) - at)));
    CAUSEWAY_TRY(sink(s.bytes()));
    at = detail::align_section(at) + s.bytes().size();
  }
  return {};
}

}}}  // namespace causeway::CAUSEWAY_ABI::io

namespace causeway { inline namespace CAUSEWAY_ABI { namespace io { namespace detail {

CAUSEWAY_DECL bool section_cursor::take(std::size_t length, std::string_view& text) noexcept {
  if (rest_.size() < length) return false;
  text = {reinterpret_cast<const char*>(rest_.data()), length};
  rest_ = rest_.subspan(length);
  return true;
}

CAUSEWAY_DECL bool all_zero(std::span<const std::byte> bytes) noexcept {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

CAUSEWAY_DECL result<section_file_head> verified_head(std::span<const std::byte> content, const std::string& name) {
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

}}}}  // namespace causeway::CAUSEWAY_ABI::io::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace io {

CAUSEWAY_DECL result<section_file> section_file::parse(byte_vector content, const std::string& name) {
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

CAUSEWAY_DECL std::string section_file::listing() const {
  std::string text;
  for (const section_view& s : sections_) {
    text += (text.empty() ? "" : ", ") + std::string{s.name} + " v" + std::to_string(s.version);
  }
  return text.empty() ? "nothing" : text;
}

CAUSEWAY_DECL result<section_view> section_file::find(std::string_view name) const {
  for (const section_view& s : sections_) {
    if (s.name == name) return s;
  }
  return fail(errc::not_found, name_, "has no section \"" + std::string{name} + "\"; it has: " + listing());
}

CAUSEWAY_DECL error section_file::wrong_length(std::string_view name, std::size_t has, std::size_t wants) const {
  return fail(errc::wrong_model, name_,
              "section \"" + std::string{name} + "\" has " + std::to_string(has) + " bytes, this model needs " +
                  std::to_string(wants) + ". Use the model options that the file was written with");
}

CAUSEWAY_DECL result<void> section_file::match(std::span<const wanted_section> wanted) const {
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
  return fail(errc::version_mismatch, name_,
              "written by a newer library, or by a policy that is composed otherwise; use that one." + sides);
}

}}}  // namespace causeway::CAUSEWAY_ABI::io

#endif  // CAUSEWAY_IO_IMPL_SECTION_FILE_IPP
