// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_RENDEZVOUS_IPP
#define CAUSEWAY_NET_IMPL_RENDEZVOUS_IPP

#include <causeway/net/rendezvous.hpp>

#include <causeway/net/asio_host.hpp>
#include <causeway/net/asio_join.hpp>
#include <causeway/net/asio_mesh.hpp>

#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

CAUSEWAY_DECL result<membership> host(listener at, std::uint32_t peers, std::span<const std::byte> welcome,
                                      const rendezvous_options& options) {
  if (peers == 0 || peers > most_peers || options.wanted_index.value_or(0) >= peers) {
    return fail(errc::invalid_argument, at.address().text(), "a run has 1 to 1024 peers, and the host is one of them");
  }
  if (welcome.size() > max_welcome_bytes) {
    return fail(errc::too_large, at.address().text(), "the settings sent to joiners are limited to 64 KiB");
  }
  if (options.run_id == 0) return fail(errc::invalid_argument, at.address().text(), "a run needs an id other than 0");
  return detail::host_session{at, peers, welcome, options}.run();
}

CAUSEWAY_DECL result<membership> join(const endpoint& address, const rendezvous_options& options) {
  CAUSEWAY_ASSIGN(listener own, open_listener(options.listen, options.transport.log));
  return detail::join_session{own, address, options}.run();
}

CAUSEWAY_DECL result<membership> connect_static(listener at, peer_index self, const std::vector<endpoint>& addresses,
                                                const rendezvous_options& options) {
  if (self >= addresses.size() || addresses.size() > most_peers || options.run_id == 0) {
    return fail(errc::invalid_argument, "static peers", "needs a run id, at most 1024 addresses, and our index among them");
  }
  detail::mesh_builder mesh{at, options};
  mesh.connect_all(self, addresses, options.run_id, options.streams_per_link);
  CAUSEWAY_TRY(mesh.run([&] { return mesh.complete(); },
                        [&] {
                          return fail(errc::unreachable, addresses[self].text(),
                                      "not connected before the deadline: " + mesh.missing());
                        }));
  return membership{mesh.finish(), options.run_id, {}, addresses};
}

CAUSEWAY_DECL result<membership> connect_static(peer_index self, const std::vector<endpoint>& addresses,
                                                const rendezvous_options& options) {
  if (self >= addresses.size()) return fail(errc::invalid_argument, "static peers", "our index is not in the list");
  CAUSEWAY_ASSIGN(listener at, open_listener(addresses[self], options.transport.log));
  return connect_static(std::move(at), self, addresses, options);
}

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_IMPL_RENDEZVOUS_IPP
