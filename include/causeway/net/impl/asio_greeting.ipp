// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_ASIO_GREETING_IPP
#define CAUSEWAY_NET_IMPL_ASIO_GREETING_IPP

#include <causeway/net/asio_greeting.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL std::vector<std::byte> hello::encode() const { return encode_fields(*this); }
CAUSEWAY_DECL result<hello> hello::decode(std::span<const std::byte> bytes) { return decode_fields<hello>(bytes, "hello"); }

CAUSEWAY_DECL std::vector<std::byte> address_table::encode() const { return encode_fields(*this); }
CAUSEWAY_DECL result<address_table> address_table::decode(std::span<const std::byte> bytes) {
  return decode_fields<address_table>(bytes, "address table");
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_ASIO_GREETING_IPP
