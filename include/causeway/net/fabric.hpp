// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_FABRIC_HPP
#define CAUSEWAY_NET_FABRIC_HPP

// A network whose peers come and go: what an elastic membership needs beyond net/transport.hpp. Connections are made and
// lost while the run goes on; small control messages reach a handler even while the trainer computes; big messages travel
// as on a Transport. TCP and the simulator are its two implementations, so that the very same membership runs on both.
//
// A `link` is the place of one peer in this fabric, numbered from 0 as peers are met. A connection that breaks and is made
// again is the same link. A fabric that has met thousands may give the link of one that is gone to a new peer: on_up names
// the peer each time.

#include <causeway/core/clock.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

/// Who a peer is during the whole run, across restarts and addresses. 0 names nobody.
using peer_id = std::uint64_t;

/// A control message has at most this many bytes.
inline constexpr std::size_t max_post_bytes = std::size_t{512} << 10U;

/// What a fabric tells its owner. Events come one at a time, never two at once, with the fabric's lock held, on whatever
/// thread found them; they must not block. All calls of `fabric` that are marked "from events" may be made inside; they
/// never call back at once.
class fabric_events {
 public:
  virtual ~fabric_events() = default;
  /// A connection to `id` stands. `address` is where that peer can be dialled by others. Comes again after a down.
  virtual void on_up(peer_index link, peer_id id, const std::string& address) = 0;
  /// The connection ended: closed, reset, or given up. Its operations have ended with errc::peer_lost.
  virtual void on_down(peer_index link, const error& why) = 0;
  /// Nobody answered a dial, or the answer was a refusal.
  virtual void on_unreachable(const std::string& address, const error& why) = 0;
  /// A control message came. In the order of posting, as long as the connection stands.
  virtual void on_control(peer_index link, std::span<const std::byte> message) = 0;
  /// The time asked for with wake_at has come.
  virtual void on_wake() = 0;
};

class fabric {
 public:
  virtual ~fabric() = default;

  /// This peer, and where others can dial it.
  [[nodiscard]] virtual peer_id id() const = 0;
  [[nodiscard]] virtual std::string address() const = 0;

  /// Who gets the events; once, before the first dial. nullptr: no more events from now on. Connections that others make
  /// before it wait for it.
  virtual void attach(fabric_events* events) = 0;

  // ---- from events, and inside `locked` ------------------------------------------------------------------------------

  [[nodiscard]] virtual time_point now() const = 0;
  /// Starts to connect; tells on_up or on_unreachable. Nothing happens if the connection stands or is being made. Dialling
  /// ourselves is unreachable. Two peers that dial each other at once end with one connection.
  virtual void dial(const std::string& address) = 0;
  /// Ends a connection; on_down follows later with `why`, on the other side too. A new one may be made afterwards.
  virtual void close(peer_index link, const std::string& why) = 0;
  [[nodiscard]] virtual bool is_up(peer_index link) const = 0;
  /// Sends a control message, at most max_post_bytes. Lost without notice where the connection is down or breaks: on_down
  /// tells. `bulk` messages let the others and data pass first.
  virtual void post(peer_index link, std::vector<std::byte> message, bool bulk = false) = 0;
  /// Asks for on_wake at `when`; replaces what was asked for before. no_deadline: never.
  virtual void wake_at(time_point when) = 0;
  /// Ends all data operations of epochs before `epoch`, of its kind (net/epochs.hpp), with errc::cancelled, forgets kept
  /// messages of those epochs, and from now on drops and counts (frames_rejected) what still arrives of them.
  virtual void cancel_before(std::uint32_t epoch) = 0;

  /// Runs `work` without the lock, beside everything else: for what may block for seconds, such as fsync. What is given
  /// runs in the order of the calls, one at a time. `then` comes as an event, while somebody is attached; attach(nullptr)
  /// returns when no work is under way any more. The destructor lets all of it end.
  virtual void aside(std::function<void()> work, std::function<void()> then) = 0;

  // ---- for the trainer's thread ---------------------------------------------------------------------------------------

  /// As in net/transport.hpp, with links for peers.
  virtual operation send(peer_index link, const message_id& id, std::span<const std::byte> bytes) = 0;
  virtual operation receive(peer_index link, const message_id& id, std::span<std::byte> buffer) = 0;
  virtual result<std::size_t> wait(operation op, time_point deadline) = 0;
  /// Also inside `locked`, and in the question that `block` asks.
  [[nodiscard]] virtual bool done(operation op) const = 0;

  /// Runs `what` with the lock held: no event comes meanwhile.
  virtual void locked(const std::function<void()>& what) = 0;
  /// Blocks until `done` says so; asked with the lock held, now and after every event. False: the deadline came first.
  /// errc::cancelled: the peer was asked to stop.
  virtual result<bool> block(const std::function<bool()>& done, time_point deadline) = 0;

  [[nodiscard]] virtual traffic stats() const = 0;
  /// One line per unfinished data operation: whom it concerns, since when, how far it is. From any thread.
  [[nodiscard]] virtual std::string describe_waits() const = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_FABRIC_HPP
