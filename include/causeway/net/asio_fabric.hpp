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
template <class Whole>
class basic_fabric_core;  // net/asio_core.hpp
using fabric_core = basic_fabric_core<void>;
}  // namespace detail

template <class Whole>
class basic_asio_fabric;
using asio_fabric = basic_asio_fabric<void>;

/// TCP to peers that come and go; made by `open_fabric`. docs/design/network.md says why it is as it is,
/// docs/reference/wire_format.md what it says to the others.
///
/// Threading: see net/fabric.hpp. Events come from the trainer's thread while it is inside `wait` or `block`, else from a
/// thread of the fabric's. `id`, `address`, `now`, `stats`, `streams` and `describe_waits` may be called from any thread.
///
/// Memory: data that nobody asked for yet is kept as in asio_transport; when reading of it pauses, control messages still
/// come. Control messages that the other side does not take are kept up to transport_options::control_backlog; then its
/// connection is given up.
template <class Whole>
class basic_asio_fabric final : public fabric {
 public:
  basic_asio_fabric(listener at, fabric_options options);
  basic_asio_fabric(const basic_asio_fabric&) = delete;
  basic_asio_fabric& operator=(const basic_asio_fabric&) = delete;
  ~basic_asio_fabric() override;

  [[nodiscard]] peer_id id() const override;
  [[nodiscard]] std::string address() const override;

  void attach(fabric_events* events) override;

  [[nodiscard]] time_point now() const override;
  void dial(const std::string& to) override;
  void close(peer_index link, const std::string& why) override;
  [[nodiscard]] bool is_up(peer_index link) const override;
  void post(peer_index link, std::vector<std::byte> message, bool bulk = false) override;
  void wake_at(time_point when) override;
  void cancel_before(std::uint32_t epoch) override;
  void aside(std::function<void()> work, std::function<void()> then) override;

  /// `bytes` must stay valid and unchanged until the operation was waited for, or its epoch was cancelled.
  operation send(peer_index link, const message_id& id, std::span<const std::byte> bytes) override;
  operation receive(peer_index link, const message_id& id, std::span<std::byte> buffer) override;
  result<std::size_t> wait(operation op, time_point deadline) override;
  [[nodiscard]] bool done(operation op) const override;

  void locked(const std::function<void()>& what) override;
  result<bool> block(const std::function<bool()>& done, time_point deadline) override;

  [[nodiscard]] traffic stats() const override;
  [[nodiscard]] std::string describe_waits() const override;

  /// TCP connections for data to a peer that stand.
  [[nodiscard]] std::size_t streams(peer_index link) const;

  /// A function that ends the trainer's `wait` and `block`, and all later ones, with errc::cancelled: what a signal's
  /// watcher calls. May be called from any thread, also when the fabric is gone. Connections stay, so that `close` can
  /// flush.
  [[nodiscard]] std::function<void()> interrupter() const;

  /// Sends what was posted (but not bulk), says goodbye to everybody, waits up to `close_grace` for theirs, and ends the
  /// thread. No more events come. Operations that were not waited for end with errc::cancelled. The destructor does the
  /// same.
  void close();

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
