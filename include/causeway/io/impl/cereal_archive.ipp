// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_IO_IMPL_CEREAL_ARCHIVE_IPP
#define CAUSEWAY_IO_IMPL_CEREAL_ARCHIVE_IPP

#include <causeway/io/cereal_archive.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace io { namespace detail {

CAUSEWAY_DECL vector_streambuf::vector_streambuf(byte_vector& out) : out_{&out} {}

CAUSEWAY_INLINE std::streamsize vector_streambuf::xsputn(const char* s, std::streamsize n) {
  const auto bytes = std::as_bytes(std::span{s, static_cast<std::size_t>(n)});
  out_->insert(out_->end(), bytes.begin(), bytes.end());
  return n;
}

CAUSEWAY_INLINE auto vector_streambuf::overflow(int_type c) -> int_type {
  out_->push_back(static_cast<std::byte>(c));
  return c;
}

CAUSEWAY_DECL span_streambuf::span_streambuf(std::span<const std::byte> bytes) {
  // The get area's type wants char*; nothing writes through it.
  char* begin = const_cast<char*>(reinterpret_cast<const char*>(bytes.data()));
  setg(begin, begin, begin + bytes.size());
}

}}}}  // namespace causeway::CAUSEWAY_ABI::io::detail

#endif  // CAUSEWAY_IO_IMPL_CEREAL_ARCHIVE_IPP
