// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_MESH_ENGINE_HPP
#define CAUSEWAY_NET_ASIO_MESH_ENGINE_HPP

// The engine behind net::asio_transport: the links of a mesh that stands.

#include <causeway/net/asio_engine.hpp>
#include <causeway/net/asio_library.hpp>
#include <causeway/net/transport.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// Connected sockets to every other peer; the entry of the peer itself is empty. They live on `io`.
struct mesh {
  std::unique_ptr<asio::io_context> io;
  std::vector<std::vector<tcp::socket>> sockets;
};

/// Links between peers that all know each other by the same numbers; none is added later.
class mesh_engine final : public engine {
 public:
  CAUSEWAY_DECL mesh_engine(peer_index self, std::uint64_t run_id, mesh connections, transport_options options);
  ~mesh_engine() { close(); }

  [[nodiscard]] peer_index self() const noexcept { return self_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(links_.size()); }

  CAUSEWAY_DECL void close();

  CAUSEWAY_DECL void discard_before(std::uint32_t epoch);

  /// Breaks the connections to a peer without a goodbye, as a crash would.
  CAUSEWAY_DECL void drop(peer_index peer, const std::string& why);

 private:
  peer_index self_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/asio_mesh_engine.ipp>
#endif

#endif  // CAUSEWAY_NET_ASIO_MESH_ENGINE_HPP
