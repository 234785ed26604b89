// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_ASIO_LOOP_IPP
#define CAUSEWAY_NET_IMPL_ASIO_LOOP_IPP

// Bodies of net/asio_loop.hpp.

#include <causeway/net/asio_loop.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL std::chrono::steady_clock::time_point to_standard(time_point when, time_point now) {
  const time_point capped = std::min(when, now + std::chrono::hours{1});
  return std::chrono::steady_clock::time_point{
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(capped.since_start)};
}

CAUSEWAY_DECL event_loop::event_loop(std::unique_ptr<asio::io_context> io, std::mutex& mutex)
    : io_{std::move(io)}, mutex_{&mutex} {}

CAUSEWAY_DECL void event_loop::start() {
  background_ = std::thread{[this] { run_background(); }};
}

CAUSEWAY_DECL void event_loop::wake() {
  if (!trainer_waits_) return;
  asio::post(*io_, std::function<void()>{[] {}});
  trainer_turn_.notify_all();
}

CAUSEWAY_DECL void event_loop::stop(std::unique_lock<std::mutex>& lock) {
  stopping_ = true;
  asio::post(*io_, std::function<void()>{[] {}});  // in case it is inside the loop
  background_turn_.notify_all();
  lock.unlock();
  if (background_.joinable()) background_.join();
}

CAUSEWAY_DECL void event_loop::run_background() {
  std::unique_lock lock{*mutex_};
  std::uint64_t seen_turns = 0;
  while (!stopping_) {
    if (loop_taken_ || trainer_waits_ || seen_turns != trainer_turns_) {
      seen_turns = trainer_turns_;
      background_turn_.wait_for(lock, trainer_waits_ ? 5 * patience : patience);
      continue;
    }
    run_unlocked(lock, [&] { io_->run_one(); });
    if (trainer_waits_) trainer_turn_.notify_all();
  }
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_ASIO_LOOP_IPP
