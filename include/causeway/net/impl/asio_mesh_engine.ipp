// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_ASIO_MESH_ENGINE_IPP
#define CAUSEWAY_NET_IMPL_ASIO_MESH_ENGINE_IPP

#include <causeway/net/asio_mesh_engine.hpp>

#include <causeway/net/asio_link.hpp>

#include <mutex>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL mesh_engine::mesh_engine(peer_index self, std::uint64_t run_id, mesh connections, transport_options options)
    : engine{std::move(connections.io), run_id, self, std::move(options)}, self_{self} {
  const std::lock_guard lock{shared_.mutex};
  links_.resize(connections.sockets.size());
  for (std::size_t peer = 0; peer < links_.size(); ++peer) {
    if (peer == self) continue;
    auto& sockets = connections.sockets[peer];
    const auto number = static_cast<peer_index>(peer);
    const std::size_t chunk = chunk_for(shared_.options.chunk_bytes, sockets.size());
    links_[peer] =
        std::make_unique<link>(shared_, link_identity{number, number, peer_name(number), chunk, chunk}, std::move(sockets));
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

#endif  // CAUSEWAY_NET_IMPL_ASIO_MESH_ENGINE_IPP
