// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_TRANSPORT_HPP
#define CAUSEWAY_NET_ASIO_TRANSPORT_HPP

// The Transport over TCP: the links of a mesh that stands, run by an engine. While the trainer's thread waits it does the
// input and output itself; while it computes, a background thread does (asio_loop.hpp).

#include <causeway/core/clock.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/asio_engine.hpp>
#include <causeway/net/asio_library.hpp>
#include <causeway/net/asio_link.hpp>
#include <causeway/net/operations.hpp>
#include <causeway/net/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

namespace detail {

/// Connected sockets to every other peer; the entry of the peer itself is empty. They live on `io`.
struct mesh {
  std::unique_ptr<asio::io_context> io;
  std::vector<std::vector<tcp::socket>> sockets;
};

/// Links between peers that all know each other by the same numbers; none is added later.
class mesh_engine final : public engine {
 public:
  mesh_engine(peer_index self, std::uint64_t run_id, mesh connections, transport_options options);
  ~mesh_engine() { close(); }

  [[nodiscard]] peer_index self() const noexcept { return self_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(links_.size()); }

  void close();

  void discard_before(std::uint32_t epoch);

  /// Breaks the connections to a peer without a goodbye, as a crash would.
  void drop(peer_index peer, const std::string& why);

 private:
  peer_index self_;
};

}  // namespace detail

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
  asio_transport(peer_index self, std::uint64_t run_id, detail::mesh connections, transport_options options);

  [[nodiscard]] peer_index self() const noexcept { return engine_->self(); }
  [[nodiscard]] std::uint32_t size() const noexcept { return engine_->size(); }

  /// Starts sending. Writes at once what the sockets take. Errors come from `wait`.
  operation send(peer_index to, const message_id& id, std::span<const std::byte> bytes);

  /// Starts receiving. A message whose receive was started before it arrives is read straight into `buffer`.
  operation receive(peer_index from, const message_id& id, std::span<std::byte> buffer);

  /// Blocks until the operation ended (see Transport). Deadlines are moments of `causeway::steady_clock`.
  result<std::size_t> wait(operation op, time_point deadline) { return engine_->wait(op, deadline); }
  [[nodiscard]] bool done(operation op) const { return engine_->done(op); }

  [[nodiscard]] traffic stats() const { return engine_->stats(); }

  /// One line per unfinished operation: whom it concerns, since when, how far it is. Empty when there is none.
  [[nodiscard]] std::string describe_waits() const { return engine_->describe_waits(); }

  /// TCP connections to a peer.
  [[nodiscard]] std::size_t streams(peer_index peer) const { return engine_->streams(peer); }

  /// Forgets kept messages of epochs before `epoch`. Call it when the membership moved on.
  void discard_before(std::uint32_t epoch) { engine_->discard_before(epoch); }

  /// Breaks the connection to a peer: what a membership does with a peer that it voted out. Its operations end with
  /// errc::peer_lost.
  void drop(peer_index peer, const std::string& why) { engine_->drop(peer, why); }

  /// A function that ends the trainer's wait, and all later ones, with errc::cancelled: what a signal's watcher calls. May
  /// be called from any thread, also when the transport is gone. Connections stay, so that `close` can flush.
  [[nodiscard]] std::function<void()> interrupter() const;

  /// Says goodbye to everybody, waits up to `close_grace` for theirs, and ends the background thread. Operations that
  /// were not waited for end with errc::cancelled. The destructor does the same.
  void close() { engine_->close(); }

 private:
  std::shared_ptr<detail::mesh_engine> engine_;
};
static_assert(Transport<asio_transport>);

}}}  // namespace causeway::CAUSEWAY_ABI::net

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/asio_transport.ipp>
#endif

#endif  // CAUSEWAY_NET_ASIO_TRANSPORT_HPP
