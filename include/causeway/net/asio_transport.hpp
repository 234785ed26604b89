// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_TRANSPORT_HPP
#define CAUSEWAY_NET_ASIO_TRANSPORT_HPP

// The Transport over TCP. Whoever waits does the input and output: while the trainer's thread is inside `wait`, it runs the
// event loop itself, so that a message costs no hand-over between threads; while it computes, a background thread takes
// over after a few milliseconds and keeps transfers and heartbeats going. Exactly one of the two runs the loop at a time.
// One lock guards all state; every handler takes it.

#include <causeway/core/clock.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/asio_library.hpp>
#include <causeway/net/asio_link.hpp>
#include <causeway/net/operations.hpp>
#include <causeway/net/transport.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::net {

namespace detail {

/// Connected sockets to every other peer; the entry of the peer itself is empty. They live on `io`.
struct mesh {
  std::unique_ptr<asio::io_context> io;
  std::vector<std::vector<tcp::socket>> sockets;
};

class engine {
 public:
  engine(peer_index self, std::uint64_t run_id, mesh connections, transport_options options)
      : io_{std::move(connections.io)}, timer_{*io_} {
    shared_.options = std::move(options);
    shared_.run_id = run_id;
    shared_.self = self;
    const std::lock_guard lock{shared_.mutex};
    links_.resize(connections.sockets.size());
    for (std::size_t peer = 0; peer < links_.size(); ++peer) {
      if (peer == self) continue;
      links_[peer] = std::make_unique<link>(shared_, static_cast<peer_index>(peer), std::move(connections.sockets[peer]));
      links_[peer]->start_reading();
    }
    last_tick_ = shared_.clock.now();
    arm_timer();
    background_ = std::thread{[this] { run_background(); }};
  }

  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;
  ~engine() { close(); }

  [[nodiscard]] peer_index self() const noexcept { return shared_.self; }
  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(links_.size()); }

  operation start(pending_operation what) {
    const std::lock_guard lock{shared_.mutex};
    what.since = shared_.clock.now();
    const slot_index slot = shared_.operations.start(what);
    if (closed_) {
      shared_.operations.finish(slot, fail(errc::cancelled, "transport", "it was closed"));
    } else if (what.peer >= links_.size() || !links_[what.peer]) {
      shared_.operations.finish(slot, fail(errc::invalid_argument, peer_name(what.peer), "there is no such other peer"));
    } else if (what.is_send && what.length > max_message_bytes) {
      shared_.operations.finish(slot, fail(errc::too_large, peer_name(what.peer), "a message is at most 64 GiB"));
    } else if (what.is_send) {
      links_[what.peer]->send(slot);
    } else {
      links_[what.peer]->receive(slot);
    }
    return shared_.operations.handle(slot);
  }

  result<std::size_t> wait(operation handle, time_point deadline) {
    std::unique_lock lock{shared_.mutex};
    const slot_index slot = shared_.operations.find(handle);
    if (slot == no_slot) return fail(errc::invalid_argument, "wait", "no such operation: each is waited for once");
    if (!drive(lock, deadline, [&] { return shared_.operations[slot].done || interrupted_; })) {
      time_out(slot);
    } else if (!shared_.operations[slot].done) {
      links_[shared_.operations[slot].peer]->cancel(slot);
      shared_.operations.finish(slot, fail(errc::cancelled, "transport", "stopped on request"));
    }
    return shared_.operations.release(slot);
  }

  void interrupt() {
    const std::lock_guard lock{shared_.mutex};
    interrupted_ = true;
    asio::post(*io_, [] {});  // wakes whoever is inside the event loop
    trainer_turn_.notify_all();
  }

  void close() {
    std::unique_lock lock{shared_.mutex};
    if (closed_) return;
    closed_ = true;
    for (const auto& l : links_) {
      if (l) l->say_goodbye();
    }
    const time_point grace = shared_.clock.now() + shared_.options.close_grace;
    drive(lock, grace,
          [&] { return std::all_of(links_.begin(), links_.end(), [](const auto& l) { return !l || l->over(); }); });
    stopping_ = true;
    timer_.cancel();
    asio::post(*io_, [] {});  // wakes the background thread if it is inside the event loop
    background_turn_.notify_all();
    lock.unlock();
    background_.join();
  }

  [[nodiscard]] traffic stats() const {
    const std::lock_guard lock{shared_.mutex};
    return shared_.stats;
  }

  [[nodiscard]] std::size_t streams(peer_index peer) const {
    const std::lock_guard lock{shared_.mutex};
    return peer < links_.size() && links_[peer] ? links_[peer]->stream_count() : 0;
  }

  [[nodiscard]] std::string describe_waits() const {
    const std::lock_guard lock{shared_.mutex};
    const time_point now = shared_.clock.now();
    std::string text;
    shared_.operations.for_each_unfinished([&](const pending_operation& op) {
      const bool paused = links_[op.peer] && links_[op.peer]->is_paused();
      text += std::string{op.is_send ? "sending to " : "receiving from "} + peer_name(op.peer) + " (" + to_text(op.id) +
              ") for " + tenths(seconds(now - op.since)) + " s: " + std::to_string(op.moved) +
              (op.is_send ? " of " : " of at most ") + std::to_string(op.length) + " bytes; last heard from it " +
              tenths(seconds(now - links_[op.peer]->last_heard())) + " s ago" + (paused ? ", reading is paused" : "") +
              "\n";
    });
    return text;
  }

  void discard_before(std::uint32_t epoch) {
    const std::lock_guard lock{shared_.mutex};
    for (const auto& l : links_) {
      if (l) l->discard_before(epoch);
    }
  }

  /// Breaks the connections to a peer without a goodbye, as a crash would.
  void drop(peer_index peer, const std::string& why) {
    const std::lock_guard lock{shared_.mutex};
    if (peer < links_.size() && links_[peer]) links_[peer]->lose(fail(errc::peer_lost, peer_name(peer), why));
  }

 private:
  /// How long the trainer may stay away before the background thread takes the event loop over.
  static constexpr auto patience = std::chrono::milliseconds{2};

  /// Runs the event loop, or lets the background thread run it, until `done` or the deadline. Needs and keeps the lock.
  template <class Done>
  bool drive(std::unique_lock<std::mutex>& lock, time_point deadline, Done done) {
    trainer_waits_ = true;
    bool finished = done();
    if (!finished && shared_.clock.now() >= deadline) finished = look_once(lock, done);
    while (!finished && shared_.clock.now() < deadline) {
      const auto until = to_std(deadline);
      if (loop_taken_) {
        trainer_turn_.wait_until(lock, until);
      } else {
        loop_taken_ = true;
        lock.unlock();
        io_->run_one_until(until);
        lock.lock();
        loop_taken_ = false;
      }
      finished = done();
    }
    trainer_waits_ = false;
    ++trainer_turns_;
    return finished;
  }

  /// What the sockets already hold counts, also when the deadline has passed: a wait with one in the past is a poll.
  template <class Done>
  bool look_once(std::unique_lock<std::mutex>& lock, Done done) {
    if (loop_taken_) return false;
    loop_taken_ = true;
    lock.unlock();
    io_->poll();
    lock.lock();
    loop_taken_ = false;
    return done();
  }

  void run_background() {
    std::unique_lock lock{shared_.mutex};
    std::uint64_t seen_turns = 0;
    while (!stopping_) {
      if (loop_taken_ || trainer_waits_ || seen_turns != trainer_turns_) {
        seen_turns = trainer_turns_;
        background_turn_.wait_for(lock, trainer_waits_ ? 5 * patience : patience);
        continue;
      }
      loop_taken_ = true;
      lock.unlock();
      io_->run_one();
      lock.lock();
      loop_taken_ = false;
      if (trainer_waits_) trainer_turn_.notify_all();
    }
  }

  /// The deadline on the standard clock, at most an hour ahead (waits are repeated until the real deadline).
  [[nodiscard]] std::chrono::steady_clock::time_point to_std(time_point deadline) const {
    const time_point now = shared_.clock.now();
    const time_point capped = std::min(deadline, now + std::chrono::hours{1});
    return std::chrono::steady_clock::time_point{
        std::chrono::duration_cast<std::chrono::steady_clock::duration>(capped.since_start)};
  }

  void time_out(slot_index slot) {
    pending_operation& op = shared_.operations[slot];
    links_[op.peer]->cancel(slot);
    const double waited = seconds(shared_.clock.now() - op.since);
    shared_.operations.finish(
        slot, fail(errc::timeout, peer_name(op.peer),
                   std::string{op.is_send ? "it did not take our message (" : "its message did not come ("} +
                       to_text(op.id) + ") within " + tenths(waited) + " s: " + std::to_string(op.moved) + " of " +
                       (op.is_send ? "" : "at most ") + std::to_string(op.length) + " bytes moved; last heard from it " +
                       tenths(seconds(shared_.clock.now() - links_[op.peer]->last_heard())) + " s ago"));
  }

  void arm_timer() {
    timer_.expires_after(shared_.options.heartbeat);
    timer_.async_wait([this](std::error_code failure) {
      if (failure) return;
      const std::lock_guard lock{shared_.mutex};
      if (stopping_) return;
      const time_point now = shared_.clock.now();
      for (const auto& l : links_) {
        if (l) l->tick(now - last_tick_);
      }
      last_tick_ = now;
      arm_timer();
    });
  }

  static std::string tenths(double s) {
    const auto t = static_cast<std::int64_t>(s * 10 + 0.5);
    return std::to_string(t / 10) + "." + std::to_string(t % 10);
  }

  // Declared before the links: their sockets must go before the event loop does.
  std::unique_ptr<asio::io_context> io_;
  asio::steady_timer timer_;
  mutable link_context shared_;
  std::vector<std::unique_ptr<link>> links_;
  time_point last_tick_;

  bool loop_taken_ = false;     // somebody is inside io_->run_one
  bool trainer_waits_ = false;  // the trainer's thread is inside drive
  bool stopping_ = false;
  bool closed_ = false;
  bool interrupted_ = false;
  std::uint64_t trainer_turns_ = 0;  // ends of drive: tells the background thread that the trainer was here lately
  std::condition_variable trainer_turn_;
  std::condition_variable background_turn_;
  std::thread background_;
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
  asio_transport(peer_index self, std::uint64_t run_id, detail::mesh connections, transport_options options)
      : engine_{std::make_shared<detail::engine>(self, run_id, std::move(connections), std::move(options))} {}

  [[nodiscard]] peer_index self() const noexcept { return engine_->self(); }
  [[nodiscard]] std::uint32_t size() const noexcept { return engine_->size(); }

  /// Starts sending. Writes at once what the sockets take. Errors come from `wait`.
  operation send(peer_index to, const message_id& id, std::span<const std::byte> bytes) {
    return engine_->start({.is_send = true, .peer = to, .id = id, .source = bytes.data(), .length = bytes.size()});
  }

  /// Starts receiving. A message whose receive was started before it arrives is read straight into `buffer`.
  operation receive(peer_index from, const message_id& id, std::span<std::byte> buffer) {
    return engine_->start({.is_send = false, .peer = from, .id = id, .target = buffer.data(), .length = buffer.size()});
  }

  /// Blocks until the operation ended (see Transport). Deadlines are moments of `causeway::steady_clock`.
  result<std::size_t> wait(operation op, time_point deadline) { return engine_->wait(op, deadline); }

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
  [[nodiscard]] std::function<void()> interrupter() const {
    return [weak = std::weak_ptr{engine_}] {
      if (const auto engine = weak.lock()) engine->interrupt();
    };
  }

  /// Says goodbye to everybody, waits up to `close_grace` for theirs, and ends the background thread. Operations that
  /// were not waited for end with errc::cancelled. The destructor does the same.
  void close() { engine_->close(); }

 private:
  std::shared_ptr<detail::engine> engine_;
};
static_assert(Transport<asio_transport>);

}  // namespace causeway::inline CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_ASIO_TRANSPORT_HPP
