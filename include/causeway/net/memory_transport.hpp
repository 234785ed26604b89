// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_MEMORY_TRANSPORT_HPP
#define CAUSEWAY_NET_MEMORY_TRANSPORT_HPP

// A network inside one process: every peer is a thread, a message is a copy. It keeps the contract of net/transport.hpp to
// the letter (order, kept messages, refused parents, deadlines, lost peers), counts bytes as if they were framed, and can
// be told to fail at the n-th operation of a peer. Made for tests, examples and measurements of everything above sockets.

#include <causeway/core/clock.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

struct memory_options {
  any_clock clock{};                                ///< what deadlines are measured on
  std::size_t kept_bytes = std::size_t{64} << 20U;  ///< per receiver: bytes of messages kept before their receive is
                                                    ///< started. 0: a send ends only when the receiver takes it
  std::size_t header_bytes = 64;                    ///< what one message adds to the byte counters
};

namespace detail {

/// All state of a memory network, behind one mutex.
class memory_hub {
 public:
  CAUSEWAY_DECL memory_hub(std::uint32_t peers, memory_options options);

  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(peers_.size()); }

  CAUSEWAY_DECL operation start(peer_index self, peer_index other, const message_id& id, std::span<const std::byte> out,
                                std::span<std::byte> in, bool is_send);

  CAUSEWAY_DECL result<std::size_t> wait(peer_index self, operation wanted, time_point deadline);

  CAUSEWAY_DECL [[nodiscard]] bool done(peer_index self, operation wanted) const;

  CAUSEWAY_DECL bool wait_any(peer_index self, std::span<const operation> wanted, time_point deadline);

  CAUSEWAY_DECL void lost(peer_index peer);

  CAUSEWAY_DECL void join(peer_index peer);

  CAUSEWAY_DECL void leave(peer_index peer);

  CAUSEWAY_DECL [[nodiscard]] traffic stats(peer_index self) const;

  CAUSEWAY_DECL [[nodiscard]] std::uint64_t operations(peer_index peer) const;

  enum class effect : std::uint8_t { fail, kill };

  CAUSEWAY_DECL void plan(peer_index peer, std::uint64_t nth, effect what, errc code);

 private:
  struct fault {
    std::uint64_t nth = 0;
    effect what = effect::fail;
    errc code = errc::peer_lost;
  };

  struct pending {
    operation number = 0;
    peer_index other = 0;
    message_id id;
    std::span<const std::byte> out;
    std::span<std::byte> in;
    bool is_send = false;
    std::optional<result<std::size_t>> done{};

    CAUSEWAY_DECL void end(result<std::size_t> outcome);
    [[nodiscard]] bool open() const { return !done; }
  };

  struct message {
    peer_index from = 0;
    message_id id;
    std::vector<std::byte> bytes;
  };

  struct peer_state {
    bool alive = true;  // a peer counts as alive before it has joined, so that threads may start in any order
    bool taken = false;
    operation last = 0;
    std::uint64_t operations = 0;
    std::vector<pending> started;
    std::deque<message> kept;
    std::size_t kept_size = 0;
    std::vector<fault> faults;
    traffic counters;
    std::condition_variable changed;
  };

  CAUSEWAY_DECL static void look_again_later(std::unique_lock<std::mutex>& lock, peer_state& me, duration most);

  CAUSEWAY_DECL static bool ended(const peer_state& me, operation wanted);

  static std::string name(peer_index peer) { return "peer " + std::to_string(peer); }

  // The parent is not part of the match: a message about another parent must be refused, not overlooked.
  CAUSEWAY_DECL static bool matches(const message_id& a, const message_id& b);

  CAUSEWAY_DECL static const fault* planned_fault(const peer_state& s);

  CAUSEWAY_DECL static operation refuse(peer_state& me, peer_index other, const char* why);

  CAUSEWAY_DECL void begin_send(peer_index self, pending& op);

  CAUSEWAY_DECL void begin_receive(peer_index self, pending& op);

  // Copies one message into a started receive, or refuses it.
  CAUSEWAY_DECL void deliver(peer_index from, const message_id& id, std::span<const std::byte> bytes, peer_index to,
                             pending& receive);

  CAUSEWAY_DECL void keep_if_room(peer_index self, pending& op);

  CAUSEWAY_DECL void admit_senders(peer_index receiver);

  CAUSEWAY_DECL void count_sent(peer_index from, std::size_t payload);

  CAUSEWAY_DECL void count_received(peer_index to, std::size_t payload);

  // Messages that the peer had sent stay readable, as bytes in a socket do.
  CAUSEWAY_DECL void lose(peer_index peer);

  memory_options options_;
  mutable std::mutex mutex_;
  std::deque<peer_state> peers_;  // not a vector: an element does not move
};

}  // namespace detail

/// One peer's end of a memory_network. Movable; its destruction closes the peer's connections.
class memory_transport {
 public:
  CAUSEWAY_DECL memory_transport(std::shared_ptr<detail::memory_hub> hub, peer_index self);
  memory_transport(memory_transport&&) noexcept = default;
  memory_transport& operator=(memory_transport&& other) noexcept;
  ~memory_transport();

  [[nodiscard]] peer_index self() const noexcept { return self_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return hub_->size(); }

  CAUSEWAY_DECL operation send(peer_index to, const message_id& id, std::span<const std::byte> bytes);
  CAUSEWAY_DECL operation receive(peer_index from, const message_id& id, std::span<std::byte> buffer);
  /// errc::invalid_argument: the operation was waited for before, or names the peer itself. Other errors: see Transport.
  result<std::size_t> wait(operation op, time_point deadline) { return hub_->wait(self_, op, deadline); }
  [[nodiscard]] bool done(operation op) const { return hub_->done(self_, op); }
  bool wait_any(std::span<const operation> ops, time_point deadline) { return hub_->wait_any(self_, ops, deadline); }
  [[nodiscard]] traffic stats() const { return hub_->stats(self_); }

 private:
  std::shared_ptr<detail::memory_hub> hub_;
  peer_index self_;
};
static_assert(Transport<memory_transport>);

/// `peers` peers that can talk to each other. Copies share the network. Every peer may live on a thread of its own; the
/// fault hooks may be called from any thread. "The n-th operation" counts the sends and receives that a peer starts, from
/// 0.
class memory_network {
 public:
  CAUSEWAY_DECL explicit memory_network(std::uint32_t peers, memory_options options = {});

  [[nodiscard]] std::uint32_t size() const noexcept { return hub_->size(); }

  /// The end of one peer; one at a time per peer. Asking again after it was destroyed or killed is a restart: an empty
  /// mailbox, operations counted from 0 again.
  CAUSEWAY_DECL [[nodiscard]] memory_transport transport(peer_index peer) const;

  /// Ends all connections of a peer at once, as if its machine had died.
  void kill(peer_index peer) const { hub_->lost(peer); }

  /// The n-th operation of `peer` is not carried out: waiting for it gives `code`.
  CAUSEWAY_DECL void fail_at(peer_index peer, std::uint64_t nth, errc code) const;
  /// The peer dies when it starts its n-th operation.
  CAUSEWAY_DECL void kill_at(peer_index peer, std::uint64_t nth) const;

  /// Sends and receives that a peer has started.
  [[nodiscard]] std::uint64_t operations(peer_index peer) const { return hub_->operations(peer); }

 private:
  std::shared_ptr<detail::memory_hub> hub_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::net

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/memory_transport.ipp>
#endif

#endif  // CAUSEWAY_NET_MEMORY_TRANSPORT_HPP
