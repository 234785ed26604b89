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
#include <causeway/net/descriptors.hpp>
#include <causeway/net/epochs.hpp>
#include <causeway/net/memory_budget.hpp>
#include <causeway/net/operations.hpp>
#include <causeway/net/transport.hpp>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

// Who runs the event loop. Whoever waits does the input and output: while the trainer's thread is inside `drive`, it runs
// the loop itself, so that a message costs no hand-over between threads; while it computes, a background thread takes over
// after a few milliseconds and keeps transfers and heartbeats going. Exactly one of the two runs the loop at a time, so
// handlers never run two at once; they take the lock for what they share with the trainer's calls.

/// A moment of causeway::steady_clock on the standard clock, at most an hour from `now` (longer waits are repeated).
CAUSEWAY_DECL std::chrono::steady_clock::time_point to_standard(time_point when, time_point now);

class event_loop {
 public:
  CAUSEWAY_DECL event_loop(std::unique_ptr<asio::io_context> io, std::mutex& mutex);
  event_loop(const event_loop&) = delete;
  event_loop& operator=(const event_loop&) = delete;

  [[nodiscard]] asio::io_context& io() noexcept { return *io_; }

  /// Starts the background thread. Needs something in the loop that keeps it busy, such as a timer.
  CAUSEWAY_DECL void start();

  /// Runs the event loop, or lets the background thread run it, until `done` or the deadline. Needs and keeps the lock.
  template <class Done>
  bool drive(std::unique_lock<std::mutex>& lock, time_point deadline, Done done) {
    trainer_waits_ = true;
    bool finished = done();
    if (!finished && clock_.now() >= deadline) finished = look_once(lock, done);
    while (!finished && clock_.now() < deadline) {
      const auto until = to_standard(deadline, clock_.now());
      if (loop_taken_) {
        trainer_turn_.wait_until(lock, until);
      } else {
        run_unlocked(lock, [&] { io_->run_one_until(until); });
      }
      finished = done();
    }
    trainer_waits_ = false;
    ++trainer_turns_;
    return finished;
  }

  /// Makes a `drive` in progress ask again whether it is done. Needs the lock.
  CAUSEWAY_DECL void wake();

  /// Ends the background thread. Needs the lock, and gives it up.
  CAUSEWAY_DECL void stop(std::unique_lock<std::mutex>& lock);

  [[nodiscard]] bool stopping() const noexcept { return stopping_; }

 private:
  /// How long the trainer may stay away before the background thread takes the event loop over.
  static constexpr auto patience = std::chrono::milliseconds{2};

  template <class Turn>
  void run_unlocked(std::unique_lock<std::mutex>& lock, Turn turn) {
    loop_taken_ = true;
    lock.unlock();
    try {
      turn();
    } catch (const std::bad_alloc&) {  // of a handler: links and strangers have deadlines, so what it was at ends by itself
    }
    lock.lock();
    loop_taken_ = false;
  }

  /// What the sockets already hold counts, also when the deadline has passed: a wait with one in the past is a poll.
  template <class Done>
  bool look_once(std::unique_lock<std::mutex>& lock, Done done) {
    if (loop_taken_) return false;
    run_unlocked(lock, [&] { io_->poll(); });
    return done();
  }

  CAUSEWAY_DECL void run_background();

  std::unique_ptr<asio::io_context> io_;
  std::mutex* mutex_;
  steady_clock clock_;
  bool loop_taken_ = false;     // somebody is inside the event loop
  bool trainer_waits_ = false;  // the trainer's thread is inside drive
  bool stopping_ = false;
  std::uint64_t trainer_turns_ = 0;  // ends of drive: tells the background thread that the trainer was here lately
  std::condition_variable trainer_turn_;
  std::condition_variable background_turn_;
  std::thread background_;
};

class engine {
 public:
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;

  CAUSEWAY_DECL operation start(pending_operation what);

  CAUSEWAY_DECL result<std::size_t> wait(operation handle, time_point deadline);

  CAUSEWAY_DECL [[nodiscard]] bool done(operation handle) const;

  CAUSEWAY_DECL bool wait_any(std::span<const operation> handles, time_point deadline);

  CAUSEWAY_DECL void interrupt();

  CAUSEWAY_DECL [[nodiscard]] traffic stats() const;

  CAUSEWAY_DECL [[nodiscard]] std::size_t streams(peer_index peer) const;

  CAUSEWAY_DECL [[nodiscard]] std::string describe_waits() const;

 protected:
  /// `sender`: what our frames name as their sender.
  CAUSEWAY_DECL engine(std::unique_ptr<asio::io_context> io, std::uint64_t run_id, std::uint32_t sender,
                       transport_options options);
  ~engine() = default;

  /// Starts the heartbeat and the background thread. Needs the lock.
  CAUSEWAY_DECL void run();

  /// Says goodbye to everybody, waits up to the grace for theirs, and ends the background thread. Gives the lock up; after
  /// that nobody but the caller is here. False if it was called before.
  CAUSEWAY_DECL bool shut_down(std::unique_lock<std::mutex>& lock);

  /// Ends operations of epochs before `epoch`. Needs the lock.
  CAUSEWAY_DECL void end_epochs_before(std::uint32_t epoch);

  /// Once per heartbeat interval, with the lock held, after the links' ticks.
  virtual void tick(duration) {}

  // The loop comes before the links: their sockets must go before it does.
  mutable link_context shared_;
  event_loop loop_;
  std::vector<std::unique_ptr<link>> links_;
  past_epochs past_;
  bool closed_ = false;
  bool interrupted_ = false;

 private:
  CAUSEWAY_DECL [[nodiscard]] error epoch_over(peer_index peer) const;

  CAUSEWAY_DECL void time_out(slot_index slot);

  CAUSEWAY_DECL void arm_timer();

  CAUSEWAY_DECL static std::string tenths(double s);

  timer timer_;
  time_point last_tick_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/asio_engine.ipp>
#endif

#endif  // CAUSEWAY_NET_ASIO_ENGINE_HPP
