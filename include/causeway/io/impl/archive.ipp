// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_IO_IMPL_ARCHIVE_IPP
#define CAUSEWAY_IO_IMPL_ARCHIVE_IPP

#include <causeway/io/archive.hpp>

#include <cstring>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace io {

namespace detail {

constexpr std::byte little_endian_archive{1};  // the first byte

CAUSEWAY_DECL result<void> unreadable_bytes(std::string_view why) {
  return fail(errc::corrupt, "archive",
              "could not read an object: " + std::string{why} +
                  ". The bytes were cut, or written by another composition of policies or version of the library");
}

CAUSEWAY_DECL result<void> bytes_left(std::size_t left, std::size_t all) {
  if (left == 0) return {};
  return fail(errc::corrupt, "archive",
              std::to_string(left) + " of " + std::to_string(all) +
                  " bytes are left over. They were written by another composition of policies or version of the library");
}

}  // namespace detail

CAUSEWAY_DECL output_archive::output_archive(byte_vector& out) : out_{&out} {
  out.push_back(detail::little_endian_archive);
}

CAUSEWAY_DECL void output_archive::append(const void* data, std::size_t size) {
  const auto* const bytes = static_cast<const std::byte*>(data);
  out_->insert(out_->end(), bytes, bytes + size);
}

CAUSEWAY_DECL void output_archive::append_size(std::size_t size) { write(static_cast<std::uint64_t>(size)); }

CAUSEWAY_DECL void output_archive::write(const std::string& text) {
  append_size(text.size());
  append(text.data(), text.size());
}

CAUSEWAY_DECL void output_archive::write(const std::vector<bool>& flags) {
  append_size(flags.size());
  for (const bool f : flags) write(f);
}

CAUSEWAY_DECL input_archive::input_archive(std::span<const std::byte> bytes) : rest_{bytes} {
  std::byte order{};
  take(&order, 1);
  if (order != detail::little_endian_archive) throw detail::unreadable{"its byte order is not this machine's"};
}

CAUSEWAY_DECL void input_archive::take(void* to, std::size_t size) {
  if (size > rest_.size()) throw detail::unreadable{"it ends too early"};
  if (size > 0) std::memcpy(to, rest_.data(), size);
  rest_ = rest_.subspan(size);
}

CAUSEWAY_DECL std::size_t input_archive::take_size(std::size_t least) {
  std::uint64_t size = 0;
  read(size);
  if (size > rest_.size() / least) throw detail::unreadable{"it counts more than there is"};
  return static_cast<std::size_t>(size);
}

CAUSEWAY_DECL void input_archive::read(bool& value) {
  std::uint8_t byte = 0;
  read(byte);
  if (byte > 1) throw detail::unreadable{"a flag is neither set nor clear"};
  value = byte == 1;
}

CAUSEWAY_DECL void input_archive::read(std::string& text) {
  text.resize(take_size(1));
  take(text.data(), text.size());
}

CAUSEWAY_DECL void input_archive::read(std::vector<bool>& flags) {
  flags.resize(take_size(1));
  for (std::size_t i = 0; i < flags.size(); ++i) {
    bool flag = false;
    read(flag);
    flags[i] = flag;
  }
}

}}}  // namespace causeway::CAUSEWAY_ABI::io

#endif  // CAUSEWAY_IO_IMPL_ARCHIVE_IPP
