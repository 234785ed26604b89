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

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::net {

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
  memory_hub(std::uint32_t peers, memory_options options) : options_{std::move(options)}, seats_(peers) {}

  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(seats_.size()); }

  operation start(peer_index self, peer_index other, const message_id& id, std::span<const std::byte> out,
                  std::span<std::byte> in, bool is_send) {
    const std::lock_guard lock{mutex_};
    seat& me = seats_[self];
    if (peer_index{self} == other || other >= size()) return refuse(me, other, "no such peer, or the peer itself");
    const fault* planned = planned_fault(me);
    ++me.operations;
    if (planned != nullptr && planned->what == effect::kill) lose(self);
    pending op{++me.last, other, id, out, in, is_send};
    if (!me.alive) {
      op.end(fail(errc::peer_lost, name(self), "this peer was stopped; restart it to go on"));
    } else if (planned != nullptr) {
      if (planned->what == effect::fail) op.end(fail(planned->code, name(other), "failed on request of the test"));
      op.stalled = planned->what == effect::stall;
    }
    me.started.push_back(std::move(op));
    if (is_send) begin_send(self, me.started.back());
    if (!is_send) begin_receive(self, me.started.back());
    return me.last;
  }

  result<std::size_t> wait(peer_index self, operation wanted, time_point deadline) {
    std::unique_lock lock{mutex_};
    seat& me = seats_[self];
    for (;;) {
      const auto op = std::find_if(me.started.begin(), me.started.end(), [&](auto& p) { return p.number == wanted; });
      if (op == me.started.end()) {
        return fail(errc::invalid_argument, name(self), "waited for an operation that is not under way");
      }
      if (op->done) {
        result<std::size_t> outcome = std::move(*op->done);
        me.started.erase(op);
        return outcome;
      }
      const time_point now = options_.clock.now();
      if (now >= deadline) {
        const peer_index other = op->other;
        me.started.erase(op);
        return fail(errc::timeout, name(other), "no answer before the deadline; raise it or look at that peer");
      }
      // The clock may be a virtual one that nobody tells us about: look at it again after a moment.
      me.changed.wait_for(lock, std::min<duration>(deadline - now, std::chrono::milliseconds{2}));
    }
  }

  [[nodiscard]] bool done(peer_index self, operation wanted) const {
    const std::lock_guard lock{mutex_};
    const auto& started = seats_[self].started;
    const auto op = std::find_if(started.begin(), started.end(), [&](auto& p) { return p.number == wanted; });
    return op == started.end() || op->done.has_value();
  }

  void lost(peer_index peer) {
    const std::lock_guard lock{mutex_};
    lose(peer);
  }

  void join(peer_index peer) {
    const std::lock_guard lock{mutex_};
    seat& s = seats_[peer];
    CAUSEWAY_EXPECT(!s.taken);
    if (!s.alive) {  // a restart
      s.kept.clear();
      s.kept_size = 0;
      s.started.clear();
      s.operations = 0;
    }
    s.alive = s.taken = true;
  }

  void leave(peer_index peer) {
    const std::lock_guard lock{mutex_};
    lose(peer);
    seats_[peer].started.clear();
    seats_[peer].taken = false;
  }

  [[nodiscard]] traffic stats(peer_index self) const {
    const std::lock_guard lock{mutex_};
    return seats_[self].counters;
  }

  [[nodiscard]] std::uint64_t operations(peer_index peer) const {
    const std::lock_guard lock{mutex_};
    return seats_[peer].operations;
  }

  enum class effect : std::uint8_t { fail, kill, stall };

  void plan(peer_index peer, std::uint64_t nth, effect what, errc code) {
    const std::lock_guard lock{mutex_};
    seats_[peer].faults.push_back({nth, what, code});
  }

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
    bool stalled = false;
    std::optional<result<std::size_t>> done{};

    void end(result<std::size_t> outcome) { done.emplace(std::move(outcome)); }
    [[nodiscard]] bool open() const { return !done && !stalled; }
  };

  struct message {
    peer_index from = 0;
    message_id id;
    std::vector<std::byte> bytes;
  };

  struct seat {
    bool alive = true;  // a peer counts as alive before it has taken its seat, so that threads may start in any order
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

  static std::string name(peer_index peer) { return "peer " + std::to_string(peer); }

  // The parent is not part of the match: a message about another parent must be refused, not overlooked.
  static bool matches(const message_id& a, const message_id& b) {
    return a.channel == b.channel && a.epoch == b.epoch && a.step == b.step;
  }

  static const fault* planned_fault(const seat& s) {
    for (const fault& f : s.faults) {
      if (f.nth == s.operations) return &f;
    }
    return nullptr;
  }

  static operation refuse(seat& me, peer_index other, const char* why) {
    pending op{++me.last, other, {}, {}, {}, false};
    op.end(fail(errc::invalid_argument, name(other), why));
    me.started.push_back(std::move(op));
    return me.last;
  }

  void begin_send(peer_index self, pending& op) {
    if (!op.open()) return;
    seat& to = seats_[op.other];
    if (!to.alive) return op.end(fail(errc::peer_lost, name(op.other), "the connection to it has ended"));
    for (pending& r : to.started) {
      if (r.is_send || !r.open() || r.other != self || !matches(r.id, op.id)) continue;
      deliver(self, op.id, op.out, op.other, r);
      count_sent(self, op.out.size());
      op.end(op.out.size());
      return;
    }
    keep_if_room(self, op);
  }

  void begin_receive(peer_index self, pending& op) {
    if (!op.open()) return;
    seat& me = seats_[self];
    const auto kept = std::find_if(me.kept.begin(), me.kept.end(),
                                   [&](const message& m) { return m.from == op.other && matches(m.id, op.id); });
    if (kept != me.kept.end()) {
      deliver(kept->from, kept->id, kept->bytes, self, op);
      me.kept_size -= kept->bytes.size();
      me.kept.erase(kept);
      admit_senders(self);
      return;
    }
    for (pending& s : seats_[op.other].started) {  // senders that found no room
      if (!s.is_send || !s.open() || s.other != self || !matches(s.id, op.id)) continue;
      deliver(op.other, s.id, s.out, self, op);
      count_sent(op.other, s.out.size());
      s.end(s.out.size());
      seats_[op.other].changed.notify_all();
      return;
    }
    if (!seats_[op.other].alive) op.end(fail(errc::peer_lost, name(op.other), "the connection to it has ended"));
  }

  // Copies one message into a started receive, or refuses it.
  void deliver(peer_index from, const message_id& id, std::span<const std::byte> bytes, peer_index to, pending& receive) {
    count_received(to, bytes.size());
    seats_[to].changed.notify_all();
    if (id.parent != receive.id.parent) {
      ++seats_[to].counters.frames_rejected;
      return receive.end(fail(errc::wrong_parent, name(from), "its message is based on another committed state than ours"));
    }
    if (bytes.size() > receive.in.size()) {
      ++seats_[to].counters.frames_rejected;
      return receive.end(fail(errc::too_large, name(from),
                              "it sent " + std::to_string(bytes.size()) + " bytes where at most " +
                                  std::to_string(receive.in.size()) + " are expected"));
    }
    if (!bytes.empty()) std::memcpy(receive.in.data(), bytes.data(), bytes.size());
    receive.end(bytes.size());
  }

  void keep_if_room(peer_index self, pending& op) {
    seat& to = seats_[op.other];
    if (to.kept_size + op.out.size() > options_.kept_bytes) return;
    for (const pending& s : seats_[self].started) {  // must not overtake an earlier send that waits for room
      if (s.number < op.number && s.is_send && s.open() && s.other == op.other && matches(s.id, op.id)) return;
    }
    to.kept.push_back({self, op.id, {op.out.begin(), op.out.end()}});
    to.kept_size += op.out.size();
    count_sent(self, op.out.size());
    op.end(op.out.size());
    seats_[self].changed.notify_all();
  }

  void admit_senders(peer_index receiver) {
    for (peer_index p = 0; p < size(); ++p) {
      for (pending& s : seats_[p].started) {
        if (s.is_send && s.open() && s.other == receiver) keep_if_room(p, s);
      }
    }
  }

  void count_sent(peer_index from, std::size_t payload) {
    seats_[from].counters.bytes_sent += payload + options_.header_bytes;
    ++seats_[from].counters.frames_sent;
  }

  void count_received(peer_index to, std::size_t payload) {
    seats_[to].counters.bytes_received += payload + options_.header_bytes;
    ++seats_[to].counters.frames_received;
  }

  // Messages that the peer had sent stay readable, as bytes in a socket do.
  void lose(peer_index peer) {
    seats_[peer].alive = false;
    for (peer_index p = 0; p < size(); ++p) {
      for (pending& op : seats_[p].started) {
        if (op.done || (p != peer && op.other != peer)) continue;
        const peer_index gone = p == peer ? p : op.other;
        op.end(fail(errc::peer_lost, name(gone), "the connection to it has ended"));
      }
      seats_[p].changed.notify_all();
    }
  }

  memory_options options_;
  mutable std::mutex mutex_;
  std::deque<seat> seats_;  // not a vector: a seat does not move
};

}  // namespace detail

/// One peer's end of a memory_network. Movable; its destruction closes the peer's connections.
class memory_transport {
 public:
  memory_transport(std::shared_ptr<detail::memory_hub> hub, peer_index self) : hub_{std::move(hub)}, self_{self} {
    hub_->join(self_);
  }
  memory_transport(memory_transport&&) noexcept = default;
  memory_transport& operator=(memory_transport&& other) noexcept {
    std::swap(hub_, other.hub_);
    std::swap(self_, other.self_);
    return *this;
  }
  ~memory_transport() {
    if (hub_) hub_->leave(self_);
  }

  [[nodiscard]] peer_index self() const noexcept { return self_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return hub_->size(); }

  operation send(peer_index to, const message_id& id, std::span<const std::byte> bytes) {
    return hub_->start(self_, to, id, bytes, {}, true);
  }
  operation receive(peer_index from, const message_id& id, std::span<std::byte> buffer) {
    return hub_->start(self_, from, id, {}, buffer, false);
  }
  /// errc::invalid_argument: the operation was waited for before, or names the peer itself. Other errors: see Transport.
  result<std::size_t> wait(operation op, time_point deadline) { return hub_->wait(self_, op, deadline); }
  [[nodiscard]] bool done(operation op) const { return hub_->done(self_, op); }
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
  explicit memory_network(std::uint32_t peers, memory_options options = {})
      : hub_{std::make_shared<detail::memory_hub>(peers, std::move(options))} {}

  [[nodiscard]] std::uint32_t size() const noexcept { return hub_->size(); }

  /// The end of one peer; one at a time per peer. Asking again after it was destroyed or killed is a restart: an empty
  /// mailbox, operations counted from 0 again.
  [[nodiscard]] memory_transport transport(peer_index peer) const { return {hub_, peer}; }

  /// Ends all connections of a peer at once, as if its machine had died.
  void kill(peer_index peer) const { hub_->lost(peer); }

  /// The n-th operation of `peer` is not carried out: waiting for it gives `code`.
  void fail_at(peer_index peer, std::uint64_t nth, errc code) const {
    hub_->plan(peer, nth, detail::memory_hub::effect::fail, code);
  }
  /// The peer dies when it starts its n-th operation.
  void kill_at(peer_index peer, std::uint64_t nth) const {
    hub_->plan(peer, nth, detail::memory_hub::effect::kill, errc::peer_lost);
  }
  /// The n-th operation of `peer` never ends by itself: only a deadline or a lost peer ends it.
  void stall_at(peer_index peer, std::uint64_t nth) const {
    hub_->plan(peer, nth, detail::memory_hub::effect::stall, errc::timeout);
  }

  /// Sends and receives that a peer has started.
  [[nodiscard]] std::uint64_t operations(peer_index peer) const { return hub_->operations(peer); }

 private:
  std::shared_ptr<detail::memory_hub> hub_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_MEMORY_TRANSPORT_HPP
