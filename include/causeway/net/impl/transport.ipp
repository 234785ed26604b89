// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_TRANSPORT_IPP
#define CAUSEWAY_NET_IMPL_TRANSPORT_IPP

#include <causeway/net/transport.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

CAUSEWAY_DECL result<std::size_t> solo_transport::wait(operation, time_point) {
  return fail(errc::peer_lost, "solo transport", "there is no other peer in this run");
}

CAUSEWAY_DECL any_transport::any_transport() : any_transport(solo_transport{}) {}

CAUSEWAY_DECL operation any_transport::send(peer_index to, const message_id& id, std::span<const std::byte> bytes) {
  return model_->send(to, id, bytes);
}

CAUSEWAY_DECL operation any_transport::receive(peer_index from, const message_id& id, std::span<std::byte> buffer) {
  return model_->receive(from, id, buffer);
}

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_IMPL_TRANSPORT_IPP
