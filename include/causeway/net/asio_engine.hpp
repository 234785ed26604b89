// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_ENGINE_HPP
#define CAUSEWAY_NET_ASIO_ENGINE_HPP

// What transports and fabrics over TCP have in common: links, operations on them, the event loop with its heartbeat, and
// one lock that guards all state. Who the peers are and how links come and go is for whoever derives from it.

#include <causeway/core/clock.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/asio_library.hpp>
#include <causeway/net/asio_link.hpp>
#include <causeway/net/asio_loop.hpp>
#include <causeway/net/descriptors.hpp>
#include <causeway/net/memory_budget.hpp>
#include <causeway/net/operations.hpp>
#include <causeway/net/transport.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::net::detail {

class engine {
 public:
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;

  operation start(pending_operation what) {
    const std::lock_guard lock{shared_.mutex};
    what.since = shared_.clock.now();
    const slot_index slot = shared_.operations.start(what);
    if (closed_) {
      shared_.operations.finish(slot, fail(errc::cancelled, "transport", "it was closed"));
    } else if (what.peer >= links_.size() || !links_[what.peer]) {
      shared_.operations.finish(slot, fail(errc::invalid_argument, peer_name(what.peer), "there is no such other peer"));
    } else if (what.id.epoch < first_epoch_) {
      shared_.operations.finish(slot, epoch_over(what.peer));
    } else if (what.is_send && what.length > max_message_bytes) {
      shared_.operations.finish(slot, fail(errc::too_large, links_[what.peer]->name(), "a message is at most 64 GiB"));
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
    if (!loop_.drive(lock, deadline, [&] { return shared_.operations[slot].done || interrupted_; })) {
      time_out(slot);
    } else if (!shared_.operations[slot].done) {
      links_[shared_.operations[slot].peer]->cancel(slot);
      shared_.operations.finish(slot, fail(errc::cancelled, "transport", "stopped on request"));
    }
    return shared_.operations.release(slot);
  }

  [[nodiscard]] bool done(operation handle) const {
    const std::lock_guard lock{shared_.mutex};
    return shared_.operations.done(handle);
  }

  void interrupt() {
    const std::lock_guard lock{shared_.mutex};
    interrupted_ = true;
    loop_.wake();
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
      const link& l = *links_[op.peer];
      text += std::string{op.is_send ? "sending to " : "receiving from "} + l.name() + " (" + to_text(op.id) + ") for " +
              tenths(seconds(now - op.since)) + " s: " + std::to_string(op.moved) + (op.is_send ? " of " : " of at most ") +
              std::to_string(op.length) + " bytes; last heard from it " + tenths(seconds(now - l.last_heard())) + " s ago" +
              (l.is_paused() ? ", reading is paused" : "") + "\n";
    });
    return text;
  }

 protected:
  /// `sender`: what our frames name as their sender.
  engine(std::unique_ptr<asio::io_context> io, std::uint64_t run_id, std::uint32_t sender, transport_options options)
      : loop_{std::move(io), shared_.mutex}, timer_{loop_.io()} {
    raise_descriptor_limit();
    shared_.options = std::move(options);
    shared_.early = memory_budget{shared_.options.unexpected_total};
    shared_.unsent = memory_budget{shared_.options.control_total};
    shared_.run_id = run_id;
    shared_.self = sender;
    last_tick_ = shared_.clock.now();
  }
  ~engine() = default;

  /// Starts the heartbeat and the background thread. Needs the lock.
  void run() {
    arm_timer();
    loop_.start();
  }

  /// Says goodbye to everybody, waits up to the grace for theirs, and ends the background thread. Gives the lock up; after
  /// that nobody but the caller is here. False if it was called before.
  bool shut_down(std::unique_lock<std::mutex>& lock) {
    if (closed_) return false;
    closed_ = true;
    for (const auto& l : links_) {
      if (l) l->say_goodbye();
    }
    const time_point grace = shared_.clock.now() + shared_.options.close_grace;
    loop_.drive(lock, grace,
                [&] { return std::all_of(links_.begin(), links_.end(), [](const auto& l) { return !l || l->over(); }); });
    timer_.cancel();
    loop_.stop(lock);
    return true;
  }

  /// Ends operations of epochs before `epoch`. Needs the lock.
  void end_epochs_before(std::uint32_t epoch) {
    if (epoch <= first_epoch_) return;
    first_epoch_ = epoch;
    shared_.operations.for_each_unfinished_slot([&](slot_index slot) {
      const pending_operation& op = shared_.operations[slot];
      if (op.id.epoch >= epoch) return;
      links_[op.peer]->cancel(slot);
      shared_.operations.finish(slot, epoch_over(op.peer));
    });
    for (const auto& l : links_) {
      if (l) l->refuse_before(epoch);
    }
    loop_.wake();
  }

  /// Once per heartbeat interval, with the lock held, after the links' ticks.
  virtual void tick(duration) {}

  // The loop comes before the links: their sockets must go before it does.
  mutable link_context shared_;
  event_loop loop_;
  std::vector<std::unique_ptr<link>> links_;
  std::uint32_t first_epoch_ = 0;
  bool closed_ = false;
  bool interrupted_ = false;

 private:
  [[nodiscard]] error epoch_over(peer_index peer) const {
    return fail(errc::cancelled, links_[peer]->name(), "the epoch of this message is over");
  }

  void time_out(slot_index slot) {
    pending_operation& op = shared_.operations[slot];
    link& l = *links_[op.peer];
    l.cancel(slot);
    const double waited = seconds(shared_.clock.now() - op.since);
    shared_.operations.finish(
        slot, fail(errc::timeout, l.name(),
                   std::string{op.is_send ? "it did not take our message (" : "its message did not come ("} +
                       to_text(op.id) + ") within " + tenths(waited) + " s: " + std::to_string(op.moved) + " of " +
                       (op.is_send ? "" : "at most ") + std::to_string(op.length) + " bytes moved; last heard from it " +
                       tenths(seconds(shared_.clock.now() - l.last_heard())) + " s ago"));
  }

  void arm_timer() {
    timer_.expires_after(shared_.options.heartbeat);
    timer_.async_wait([this](std::error_code failure) {
      if (failure) return;
      const std::lock_guard lock{shared_.mutex};
      if (loop_.stopping()) return;
      const time_point now = shared_.clock.now();
      for (const auto& l : links_) {
        if (l) l->tick(now - last_tick_);
      }
      tick(now - last_tick_);
      last_tick_ = now;
      arm_timer();
    });
  }

  static std::string tenths(double s) {
    const auto t = static_cast<std::int64_t>(s * 10 + 0.5);
    return std::to_string(t / 10) + "." + std::to_string(t % 10);
  }

  asio::steady_timer timer_;
  time_point last_tick_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_ASIO_ENGINE_HPP
