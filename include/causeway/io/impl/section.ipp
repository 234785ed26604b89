// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_IO_IMPL_SECTION_IPP
#define CAUSEWAY_IO_IMPL_SECTION_IPP

// Bodies of io/section.hpp.

#include <causeway/io/section.hpp>

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

#endif  // CAUSEWAY_IO_IMPL_SECTION_IPP
