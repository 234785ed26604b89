// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_ASIO_ENGINE_IPP
#define CAUSEWAY_NET_IMPL_ASIO_ENGINE_IPP

#include <causeway/net/asio_engine.hpp>

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

CAUSEWAY_DECL operation engine::start(pending_operation what) {
  const std::lock_guard lock{shared_.mutex};
  what.since = shared_.clock.now();
  const slot_index slot = shared_.operations.start(what);
  if (closed_) {
    shared_.operations.finish(slot, fail(errc::cancelled, "transport", "it was closed"));
  } else if (what.peer >= links_.size() || !links_[what.peer]) {
    shared_.operations.finish(slot, fail(errc::invalid_argument, peer_name(what.peer), "there is no such other peer"));
  } else if (past_.contains(what.id.epoch)) {
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

CAUSEWAY_DECL result<std::size_t> engine::wait(operation handle, time_point deadline) {
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

CAUSEWAY_DECL bool engine::done(operation handle) const {
  const std::lock_guard lock{shared_.mutex};
  return shared_.operations.done(handle);
}

CAUSEWAY_DECL bool engine::wait_any(std::span<const operation> handles, time_point deadline) {
  std::unique_lock lock{shared_.mutex};
  const auto ended = [&](operation handle) { return shared_.operations.done(handle); };
  const auto any = [&] { return std::any_of(handles.begin(), handles.end(), ended); };
  return loop_.drive(lock, deadline, [&] { return interrupted_ || any(); }) && any();
}

CAUSEWAY_DECL void engine::interrupt() {
  const std::lock_guard lock{shared_.mutex};
  interrupted_ = true;
  loop_.wake();
}

CAUSEWAY_DECL traffic engine::stats() const {
  const std::lock_guard lock{shared_.mutex};
  return shared_.stats;
}

CAUSEWAY_DECL std::size_t engine::streams(peer_index peer) const {
  const std::lock_guard lock{shared_.mutex};
  return peer < links_.size() && links_[peer] ? links_[peer]->stream_count() : 0;
}

CAUSEWAY_DECL std::string engine::describe_waits() const {
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

CAUSEWAY_DECL engine::engine(std::unique_ptr<asio::io_context> io, std::uint64_t run_id, std::uint32_t sender,
                             transport_options options)
    : loop_{std::move(io), shared_.mutex}, timer_{loop_.io()} {
  raise_descriptor_limit();
  shared_.options = std::move(options);
  shared_.early = memory_budget{shared_.options.unexpected_total};
  shared_.unsent = memory_budget{shared_.options.control_total};
  shared_.run_id = run_id;
  shared_.self = sender;
  last_tick_ = shared_.clock.now();
}

CAUSEWAY_DECL void engine::run() {
  arm_timer();
  loop_.start();
}

CAUSEWAY_DECL bool engine::shut_down(std::unique_lock<std::mutex>& lock) {
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

CAUSEWAY_DECL void engine::end_epochs_before(std::uint32_t epoch) {
  if (!past_.end_before(epoch)) return;
  shared_.operations.for_each_unfinished_slot([&](slot_index slot) {
    const pending_operation& op = shared_.operations[slot];
    if (!past_epochs{epoch}.contains(op.id.epoch)) return;
    links_[op.peer]->cancel(slot);
    shared_.operations.finish(slot, epoch_over(op.peer));
  });
  for (const auto& l : links_) {
    if (l) l->refuse_before(epoch);
  }
  loop_.wake();
}

CAUSEWAY_DECL error engine::epoch_over(peer_index peer) const {
  return fail(errc::cancelled, links_[peer]->name(), "the epoch of this message is over");
}

CAUSEWAY_DECL void engine::time_out(slot_index slot) {
  pending_operation& op = shared_.operations[slot];
  link& l = *links_[op.peer];
  l.cancel(slot);
  const double waited = seconds(shared_.clock.now() - op.since);
  shared_.operations.finish(
      slot, fail(errc::timeout, l.name(),
                 std::string{op.is_send ? "it did not take our message (" : "its message did not come ("} + to_text(op.id) +
                     ") within " + tenths(waited) + " s: " + std::to_string(op.moved) + " of " +
                     (op.is_send ? "" : "at most ") + std::to_string(op.length) + " bytes moved; last heard from it " +
                     tenths(seconds(shared_.clock.now() - l.last_heard())) + " s ago"));
}

CAUSEWAY_DECL void engine::arm_timer() {
  timer_.expires_after(shared_.options.heartbeat);
  timer_.async_wait(completion{[this](std::error_code failure) {
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
  }});
}

CAUSEWAY_DECL std::string engine::tenths(double s) {
  const auto t = static_cast<std::int64_t>(s * 10 + 0.5);
  return std::to_string(t / 10) + "." + std::to_string(t % 10);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_ASIO_ENGINE_IPP
