// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_ASIO_TRANSPORT_IPP
#define CAUSEWAY_NET_IMPL_ASIO_TRANSPORT_IPP

// Bodies of net/asio_transport.hpp.

#include <causeway/net/asio_transport.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL mesh_engine::mesh_engine(peer_index self, std::uint64_t run_id, mesh connections, transport_options options)
    : engine{std::move(connections.io), run_id, self, std::move(options)}, self_{self} {
  const std::lock_guard lock{shared_.mutex};
  links_.resize(connections.sockets.size());
  for (std::size_t peer = 0; peer < links_.size(); ++peer) {
    if (peer == self) continue;
    links_[peer] = std::make_unique<link>(shared_, static_cast<peer_index>(peer), std::move(connections.sockets[peer]));
    links_[peer]->start_reading();
  }
  run();
}

CAUSEWAY_DECL void mesh_engine::close() {
  std::unique_lock lock{shared_.mutex};
  shut_down(lock);
}

CAUSEWAY_DECL void mesh_engine::discard_before(std::uint32_t epoch) {
  const std::lock_guard lock{shared_.mutex};
  for (const auto& l : links_) {
    if (l) l->discard_before(epoch);
  }
}

CAUSEWAY_DECL void mesh_engine::drop(peer_index peer, const std::string& why) {
  const std::lock_guard lock{shared_.mutex};
  if (peer < links_.size() && links_[peer]) links_[peer]->lose(fail(errc::peer_lost, peer_name(peer), why));
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

CAUSEWAY_DECL asio_transport::asio_transport(peer_index self, std::uint64_t run_id, detail::mesh connections,
                                             transport_options options)
    : engine_{std::make_shared<detail::mesh_engine>(self, run_id, std::move(connections), std::move(options))} {}

CAUSEWAY_DECL operation asio_transport::send(peer_index to, const message_id& id, std::span<const std::byte> bytes) {
  return engine_->start({.is_send = true, .peer = to, .id = id, .source = bytes.data(), .length = bytes.size()});
}

CAUSEWAY_DECL operation asio_transport::receive(peer_index from, const message_id& id, std::span<std::byte> buffer) {
  return engine_->start({.is_send = false, .peer = from, .id = id, .target = buffer.data(), .length = buffer.size()});
}

CAUSEWAY_DECL std::function<void()> asio_transport::interrupter() const {
  return [weak = std::weak_ptr{engine_}] {
    if (const auto engine = weak.lock()) engine->interrupt();
  };
}

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_IMPL_ASIO_TRANSPORT_IPP
