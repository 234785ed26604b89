// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_LOOP_HPP
#define CAUSEWAY_NET_ASIO_LOOP_HPP

// Who runs the event loop. Whoever waits does the input and output: while the trainer's thread is inside `drive`, it runs
// the loop itself, so that a message costs no hand-over between threads; while it computes, a background thread takes over
// after a few milliseconds and keeps transfers and heartbeats going. Exactly one of the two runs the loop at a time, so
// handlers never run two at once; they take the lock for what they share with the trainer's calls.

#include <causeway/core/clock.hpp>
#include <causeway/net/asio_library.hpp>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

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

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/asio_loop.ipp>
#endif

#endif  // CAUSEWAY_NET_ASIO_LOOP_HPP
