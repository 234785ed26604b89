// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_IMPL_CONVERSATION_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_CONVERSATION_IPP

// Bodies of collective/conversation.hpp.

#include <causeway/collective/conversation.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

CAUSEWAY_INLINE conversation::conversation(conversation&& other) noexcept
    : transport_{std::exchange(other.transport_, nullptr)}, id_{other.id_}, places_{std::move(other.places_)} {}

CAUSEWAY_INLINE conversation& conversation::operator=(conversation&& other) noexcept {
  std::swap(transport_, other.transport_);
  std::swap(id_, other.id_);
  std::swap(places_, other.places_);
  return *this;
}

CAUSEWAY_DECL void conversation::open(const exchange_port& port, std::size_t places) {
  close();
  transport_ = &port.transport;
  id_ = port.id;
  places_.assign(places, 0);
}

CAUSEWAY_DECL void conversation::close() {
  if (transport_ == nullptr) return;
  for (net::operation& op : places_) {
    if (op != 0) (void)transport_->wait(std::exchange(op, 0), time_point{});  // a deadline in the past cancels
  }
  transport_ = nullptr;
}

CAUSEWAY_DECL void conversation::send(std::size_t place, net::peer_index to, const part& what,
                                      std::span<const std::byte> bytes) {
  CAUSEWAY_EXPECT(is_open() && places_[place] == 0);
  places_[place] = transport_->send(to, detail::id_of(id_, what), bytes);
}

CAUSEWAY_DECL void conversation::receive(std::size_t place, net::peer_index from, const part& what,
                                         std::span<std::byte> buffer) {
  CAUSEWAY_EXPECT(is_open() && places_[place] == 0);
  places_[place] = transport_->receive(from, detail::id_of(id_, what), buffer);
}

CAUSEWAY_DECL result<std::size_t> conversation::wait(std::size_t place, net::peer_index peer, time_point deadline) {
  CAUSEWAY_EXPECT(is_open());
  const net::operation op = std::exchange(places_[place], 0);
  if (op == 0) return std::size_t{0};
  auto moved = detail::naming(peer, transport_->wait(op, deadline));
  if (!moved) close();
  return moved;
}

CAUSEWAY_DECL result<void> conversation::finish(std::size_t place, net::peer_index peer, time_point deadline) {
  return detail::without_size(wait(place, peer, deadline));
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_IMPL_CONVERSATION_IPP
