// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_RENDEZVOUS_HPP
#define CAUSEWAY_NET_RENDEZVOUS_HPP

// How peers find each other. The first peer hosts: it listens, seats whoever joins, hands out indices and everybody's
// address, and all build the full mesh of links. Or each is given the static list of addresses. Nothing is printed; the
// caller shows `listener::address()` in its join command. Every refusal says what to do about it.

#include <causeway/core/result.hpp>
#include <causeway/net/asio_greeting.hpp>
#include <causeway/net/asio_listener.hpp>
#include <causeway/net/endpoint.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

/// Serves a run at `at` until `peers` peers (ourselves included) are in and connected. `welcome` reaches every joiner.
/// Blocks until then, the deadline (errc::timeout), or a stop (errc::cancelled).
CAUSEWAY_DECL result<membership> host(listener at, std::uint32_t peers, std::span<const std::byte> welcome,
                                      const rendezvous_options& options);

/// Joins the run served at `address`. Dials again until the deadline while nobody listens there yet.
CAUSEWAY_DECL result<membership> join(const endpoint& address, const rendezvous_options& options);

/// Connects peers that all have the same list of addresses, without a host. `at` listens at `addresses[self]`.
CAUSEWAY_DECL result<membership> connect_static(listener at, peer_index self, const std::vector<endpoint>& addresses,
                                                const rendezvous_options& options);

/// The same, listening at our own entry of the list.
CAUSEWAY_DECL result<membership> connect_static(peer_index self, const std::vector<endpoint>& addresses,
                                                const rendezvous_options& options);

}}}  // namespace causeway::CAUSEWAY_ABI::net

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/rendezvous.ipp>
#endif

#endif  // CAUSEWAY_NET_RENDEZVOUS_HPP
