// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_IMPL_FLIGHT_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_FLIGHT_IPP

#include <causeway/collective/flight.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective { namespace detail {

CAUSEWAY_DECL net::message_id id_of(net::message_id id, const part& what) {
  id.channel = numbered(id.channel + what.phase, what.chunk);
  return id;
}

CAUSEWAY_DECL result<std::size_t> naming(net::peer_index peer, result<std::size_t> moved) {
  if (!moved && moved.error().where.empty()) moved.error().where = peer_name(peer);
  return moved;
}

CAUSEWAY_DECL result<void> without_size(result<std::size_t> moved) {
  if (!moved) return std::move(moved).error();
  return {};
}

}}}}  // namespace causeway::CAUSEWAY_ABI::collective::detail

#endif  // CAUSEWAY_COLLECTIVE_IMPL_FLIGHT_IPP
