// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_TRANSPORT_HPP
#define CAUSEWAY_NET_ASIO_TRANSPORT_HPP

// The Transport over TCP: the links of a mesh that stands, run by an engine. While the trainer's thread waits it does the
// input and output itself; while it computes, a background thread does (asio_engine.hpp).

#include <causeway/core/clock.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

namespace detail {
class mesh_engine;  // net/asio_mesh_engine.hpp
}

/// TCP to every other peer of a run; made by `host`, `join` and `connect_static` of net/rendezvous.hpp. Models Transport.
///
/// Threading: send, receive and wait come from one thread. `stats` and `describe_waits` may be called from any. Several
/// transports are independent of each other.
///
/// Memory: what arrives before its receive was started is kept, up to `unexpected_bytes` per peer. Beyond that we stop
/// reading from the peer while no receive from it is open; TCP then slows it down. While a receive is open we read on,
/// because its message may be behind the others, up to four times the limit; a peer that sends more is dropped. So the
/// trainer never waits for a message that we refuse to read.
class asio_transport {
 public:
  CAUSEWAY_DECL explicit asio_transport(std::shared_ptr<detail::mesh_engine> engine);

  CAUSEWAY_DECL [[nodiscard]] peer_index self() const noexcept;
  CAUSEWAY_DECL [[nodiscard]] std::uint32_t size() const noexcept;

  /// Starts sending. Writes at once what the sockets take. Errors come from `wait`.
  CAUSEWAY_DECL operation send(peer_index to, const message_id& id, std::span<const std::byte> bytes);

  /// Starts receiving. A message whose receive was started before it arrives is read straight into `buffer`.
  CAUSEWAY_DECL operation receive(peer_index from, const message_id& id, std::span<std::byte> buffer);

  /// Blocks until the operation ended (see Transport). Deadlines are moments of `causeway::steady_clock`.
  CAUSEWAY_DECL result<std::size_t> wait(operation op, time_point deadline);
  CAUSEWAY_DECL [[nodiscard]] bool done(operation op) const;
  CAUSEWAY_DECL bool wait_any(std::span<const operation> ops, time_point deadline);

  CAUSEWAY_DECL [[nodiscard]] traffic stats() const;

  /// One line per unfinished operation: whom it concerns, since when, how far it is. Empty when there is none.
  CAUSEWAY_DECL [[nodiscard]] std::string describe_waits() const;

  /// TCP connections to a peer.
  CAUSEWAY_DECL [[nodiscard]] std::size_t streams(peer_index peer) const;

  /// Forgets kept messages of epochs before `epoch`. Call it when the membership moved on.
  CAUSEWAY_DECL void discard_before(std::uint32_t epoch);

  /// Breaks the connection to a peer: what a membership does with a peer that it voted out. Its operations end with
  /// errc::peer_lost.
  CAUSEWAY_DECL void drop(peer_index peer, const std::string& why);

  /// A function that ends the trainer's wait, and all later ones, with errc::cancelled: what a signal's watcher calls. May
  /// be called from any thread, also when the transport is gone. Connections stay, so that `close` can flush.
  CAUSEWAY_DECL [[nodiscard]] std::function<void()> interrupter() const;

  /// Says goodbye to everybody, waits up to `close_grace` for theirs, and ends the background thread. Operations that
  /// were not waited for end with errc::cancelled. The destructor does the same.
  CAUSEWAY_DECL void close();

 private:
  std::shared_ptr<detail::mesh_engine> engine_;
};
static_assert(Transport<asio_transport>);

}}}  // namespace causeway::CAUSEWAY_ABI::net

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/asio_transport.ipp>
#endif

#endif  // CAUSEWAY_NET_ASIO_TRANSPORT_HPP
