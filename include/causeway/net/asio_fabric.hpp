// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_FABRIC_HPP
#define CAUSEWAY_NET_ASIO_FABRIC_HPP

// The fabric over TCP: listens for as long as it lives, dials whom it is told to, keeps one link to each peer, and carries
// control messages and data on connections of their own, so that neither holds the other up.

#include <causeway/core/clock.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/asio_listener.hpp>
#include <causeway/net/endpoint.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/net/fabric_options.hpp>
#include <causeway/net/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

namespace detail {
class fabric_core;  // net/asio_core.hpp
}

/// TCP to peers that come and go; made by `open_fabric`. docs/design/network.md says why it is as it is,
/// docs/reference/wire_format.md what it says to the others.
///
/// Threading: see net/fabric.hpp. Events come from the trainer's thread while it is inside `wait` or `block`, else from a
/// thread of the fabric's. `id`, `address`, `now`, `stats`, `streams` and `describe_waits` may be called from any thread.
///
/// Memory: data that nobody asked for yet is kept as in asio_transport; when reading of it pauses, control messages still
/// come. Control messages that the other side does not take are kept up to transport_options::control_backlog; then its
/// connection is given up.
class asio_fabric final : public fabric {
 public:
  CAUSEWAY_DECL asio_fabric(listener at, fabric_options options);
  asio_fabric(const asio_fabric&) = delete;
  asio_fabric& operator=(const asio_fabric&) = delete;
  CAUSEWAY_INLINE ~asio_fabric() override;

  [[nodiscard]] CAUSEWAY_INLINE peer_id id() const override;
  [[nodiscard]] CAUSEWAY_INLINE std::string address() const override;

  CAUSEWAY_INLINE void attach(fabric_events* events) override;

  [[nodiscard]] CAUSEWAY_INLINE time_point now() const override;
  CAUSEWAY_INLINE void dial(const std::string& to) override;
  CAUSEWAY_INLINE void close(peer_index link, const std::string& why) override;
  [[nodiscard]] CAUSEWAY_INLINE bool is_up(peer_index link) const override;
  CAUSEWAY_INLINE void post(peer_index link, std::vector<std::byte> message, bool bulk = false) override;
  CAUSEWAY_INLINE void wake_at(time_point when) override;
  CAUSEWAY_INLINE void cancel_before(std::uint32_t epoch) override;
  CAUSEWAY_INLINE void aside(std::function<void()> work, std::function<void()> then) override;

  /// `bytes` must stay valid and unchanged until the operation was waited for, or its epoch was cancelled.
  CAUSEWAY_INLINE operation send(peer_index link, const message_id& id, std::span<const std::byte> bytes) override;
  CAUSEWAY_INLINE operation receive(peer_index link, const message_id& id, std::span<std::byte> buffer) override;
  CAUSEWAY_INLINE result<std::size_t> wait(operation op, time_point deadline) override;
  [[nodiscard]] CAUSEWAY_INLINE bool done(operation op) const override;

  CAUSEWAY_INLINE void locked(const std::function<void()>& what) override;
  CAUSEWAY_INLINE result<bool> block(const std::function<bool()>& done, time_point deadline) override;

  [[nodiscard]] CAUSEWAY_INLINE traffic stats() const override;
  [[nodiscard]] CAUSEWAY_INLINE std::string describe_waits() const override;

  /// TCP connections for data to a peer that stand.
  CAUSEWAY_DECL [[nodiscard]] std::size_t streams(peer_index link) const;

  /// A function that ends the trainer's `wait` and `block`, and all later ones, with errc::cancelled: what a signal's
  /// watcher calls. May be called from any thread, also when the fabric is gone. Connections stay, so that `close` can
  /// flush.
  CAUSEWAY_DECL [[nodiscard]] std::function<void()> interrupter() const;

  /// Sends what was posted (but not bulk), says goodbye to everybody, waits up to `close_grace` for theirs, and ends the
  /// thread. No more events come. Operations that were not waited for end with errc::cancelled. The destructor does the
  /// same.
  CAUSEWAY_DECL void close();

 private:
  std::shared_ptr<detail::fabric_core> core_;
};

/// Makes a fabric that listens at `at`. It accepts connections once somebody is attached.
CAUSEWAY_DECL result<std::shared_ptr<asio_fabric>> open_fabric(listener at, fabric_options options);

/// The same; listens at `where` (port 0: any free one).
CAUSEWAY_DECL result<std::shared_ptr<asio_fabric>> open_fabric(const endpoint& where, fabric_options options);

}}}  // namespace causeway::CAUSEWAY_ABI::net

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/asio_fabric.ipp>
#endif

#endif  // CAUSEWAY_NET_ASIO_FABRIC_HPP
