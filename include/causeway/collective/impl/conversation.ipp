// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_IMPL_CONVERSATION_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_CONVERSATION_IPP

#include <causeway/collective/conversation.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

CAUSEWAY_DECL void conversation::open(const exchange_port& port, std::size_t places) {
  close();
  transport_ = &port.transport;
  id_ = port.id;
  places_.resize(places);
}

CAUSEWAY_DECL net::operation conversation::send(std::size_t place, net::peer_index to, const part& what,
                                                std::span<const std::byte> bytes) {
  CAUSEWAY_EXPECT(is_open() && !places_[place].started());
  const net::operation sent = transport_->send(to, detail::id_of(id_, what), bytes);
  places_[place] = {*transport_, sent};
  return sent;
}

CAUSEWAY_DECL void conversation::receive(std::size_t place, net::peer_index from, const part& what,
                                         std::span<std::byte> buffer) {
  CAUSEWAY_EXPECT(is_open() && !places_[place].started());
  places_[place] = {*transport_, transport_->receive(from, detail::id_of(id_, what), buffer)};
}

CAUSEWAY_DECL result<std::size_t> conversation::wait(std::size_t place, net::peer_index peer, time_point deadline) {
  CAUSEWAY_EXPECT(is_open());
  auto moved = detail::naming(peer, places_[place].wait(deadline));
  if (!moved) close();
  return moved;
}

CAUSEWAY_DECL result<void> conversation::finish(std::size_t place, net::peer_index peer, time_point deadline) {
  return detail::without_size(wait(place, peer, deadline));
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_IMPL_CONVERSATION_IPP
