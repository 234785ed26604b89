// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_SCHEDULER_HPP
#define CAUSEWAY_SIM_SCHEDULER_HPP

// Virtual time: a queue of things to come, ordered by their time and then by the order in which they were asked for, so
// that nothing depends on anything but the program. Everything that happens is folded into a running hash: two runs with
// equal hashes did the same things in the same order.

#include <causeway/core/clock.hpp>
#include <causeway/core/hash.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::sim {

/// What an event is, for the history.
enum class event_kind : std::uint8_t {
  script,   ///< asked for with world::at or after
  timer,    ///< a deadline, a sleep, a wake_at
  resume,   ///< a process runs on
  uplink,   ///< a host may put its next piece on the wire
  pace,     ///< a flow may go on
  arrive,   ///< a piece reaches a host's downlink
  deliver,  ///< a piece is in the host's memory
  connect,  ///< a step of making a connection
  reset,    ///< the news that a connection has ended
  heal,     ///< what a black hole held back comes out
  notify,   ///< a fabric tells its owner something it was asked to tell later
  fault,    ///< kill, stop, resume, restart, a link cut or mended
};

struct event_label {
  event_kind kind = event_kind::script;
  std::uint32_t host = UINT32_MAX;
  std::uint64_t size = 0;  ///< bytes, or whatever else tells events of one kind apart
};

/// The time of a scheduler. Models Clock; stays readable when the scheduler is gone.
class virtual_clock {
 public:
  explicit virtual_clock(std::shared_ptr<const time_point> now) : now_{std::move(now)} {}
  [[nodiscard]] time_point now() const noexcept { return *now_; }

 private:
  std::shared_ptr<const time_point> now_;
};
static_assert(Clock<virtual_clock>);

class scheduler {
 public:
  /// Names an event to come. 0 names none.
  using ticket = std::uint64_t;

  [[nodiscard]] time_point now() const noexcept { return *now_; }
  [[nodiscard]] virtual_clock clock() const { return virtual_clock{now_}; }
  /// What the clocks of hosts are made from.
  [[nodiscard]] std::shared_ptr<const time_point> shared_now() const { return now_; }

  /// `what` happens at `when`; a time in the past means now. Cost: O(log n).
  ticket at(time_point when, const event_label& label, std::function<void()> what) {
    const std::uint32_t slot = free_slot();
    slots_[slot].label = label;
    slots_[slot].what = std::move(what);
    heap_.push_back({std::max(when, *now_), next_sequence_++, slot});
    slots_[slot].position = heap_.size() - 1;
    rise(heap_.size() - 1);
    return ticket{slots_[slot].generation} << 32U | (ticket{slot} + 1);
  }

  ticket after(duration delay, const event_label& label, std::function<void()> what) {
    return at(*now_ + delay, label, std::move(what));
  }

  /// The event will not happen. Nothing if it has, or was cancelled before.
  void cancel(ticket t) {
    const auto slot = static_cast<std::uint32_t>((t & UINT32_MAX) - 1);
    if (slot >= slots_.size() || slots_[slot].generation != t >> 32U || slots_[slot].position == nowhere) return;
    take_out(slots_[slot].position);
    release(slot);
  }

  [[nodiscard]] bool empty() const noexcept { return heap_.empty(); }
  [[nodiscard]] std::size_t pending() const noexcept { return heap_.size(); }
  /// When the next event happens; no_deadline if there is none.
  [[nodiscard]] time_point next_time() const noexcept { return heap_.empty() ? no_deadline : heap_.front().when; }

  /// Moves on to the next event and lets it happen. There must be one.
  void run_next() {
    CAUSEWAY_EXPECT(!heap_.empty());
    const entry next = heap_.front();
    take_out(0);
    *now_ = next.when;
    record(slots_[next.slot].label);
    const std::function<void()> what = std::move(slots_[next.slot].what);
    release(next.slot);
    what();
  }

  /// Time passes without an event; never back, and not beyond the next one.
  void advance_to(time_point when) {
    CAUSEWAY_EXPECT(when <= next_time());
    *now_ = std::max(when, *now_);
  }

  /// Folds something that happens now into the history.
  void record(const event_label& label) noexcept {
    const auto time = static_cast<std::uint64_t>(now_->since_start.count());
    const std::uint64_t what = label.size << 24U ^ std::uint64_t{label.host} << 8U ^ static_cast<std::uint64_t>(label.kind);
    history_ =
        causeway::detail::scramble(history_ ^ time * causeway::detail::hash_prime) + what * causeway::detail::hash_prime;
    ++executed_;
  }

  [[nodiscard]] std::uint64_t history_hash() const noexcept { return causeway::detail::scramble(history_); }
  [[nodiscard]] std::uint64_t executed() const noexcept { return executed_; }

 private:
  static constexpr std::size_t nowhere = ~std::size_t{0};

  struct entry {
    time_point when;
    std::uint64_t sequence = 0;
    std::uint32_t slot = 0;

    [[nodiscard]] bool before(const entry& other) const noexcept {
      return when != other.when ? when < other.when : sequence < other.sequence;
    }
  };

  struct slot_state {
    event_label label;
    std::function<void()> what;
    std::size_t position = nowhere;  ///< in the heap
    std::uint32_t generation = 1;
  };

  std::uint32_t free_slot() {
    if (free_.empty()) {
      slots_.emplace_back();
      return static_cast<std::uint32_t>(slots_.size() - 1);
    }
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }

  void release(std::uint32_t slot) {
    slots_[slot].what = nullptr;
    slots_[slot].position = nowhere;
    ++slots_[slot].generation;
    free_.push_back(slot);
  }

  void take_out(std::size_t position) {
    const entry last = heap_.back();
    slots_[heap_[position].slot].position = nowhere;
    heap_.pop_back();
    if (position == heap_.size()) return;
    put(position, last);
    rise(position);
    sink(slots_[last.slot].position);
  }

  void put(std::size_t position, const entry& e) {
    heap_[position] = e;
    slots_[e.slot].position = position;
  }

  void rise(std::size_t position) {
    const entry e = heap_[position];
    while (position > 0 && e.before(heap_[(position - 1) / 4])) {
      put(position, heap_[(position - 1) / 4]);
      position = (position - 1) / 4;
    }
    put(position, e);
  }

  void sink(std::size_t position) {
    const entry e = heap_[position];
    for (;;) {
      std::size_t first = 4 * position + 1;
      if (first >= heap_.size()) break;
      const std::size_t end = std::min(first + 4, heap_.size());
      for (std::size_t other = first + 1; other < end; ++other) {
        if (heap_[other].before(heap_[first])) first = other;
      }
      if (!heap_[first].before(e)) break;
      put(position, heap_[first]);
      position = first;
    }
    put(position, e);
  }

  std::shared_ptr<time_point> now_ = std::make_shared<time_point>();
  std::vector<entry> heap_;  // 4-ary: children of i are 4 i + 1 to 4 i + 4
  std::vector<slot_state> slots_;
  std::vector<std::uint32_t> free_;
  std::uint64_t next_sequence_ = 0;
  std::uint64_t history_ = 0;
  std::uint64_t executed_ = 0;
};

}  // namespace causeway::inline CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_SCHEDULER_HPP
