// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_IMPL_SCHEDULER_IPP
#define CAUSEWAY_SIM_IMPL_SCHEDULER_IPP

#include <causeway/sim/scheduler.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

CAUSEWAY_DECL virtual_clock::virtual_clock(std::shared_ptr<const time_point> now) : now_{std::move(now)} {}

CAUSEWAY_DECL virtual_clock scheduler::clock() const { return virtual_clock{now_}; }

CAUSEWAY_DECL std::shared_ptr<const time_point> scheduler::shared_now() const { return now_; }

CAUSEWAY_DECL auto scheduler::at(time_point when, const event_label& label, std::function<void()> what) -> ticket {
  const std::uint32_t slot = free_slot();
  slots_[slot].label = label;
  slots_[slot].what = std::move(what);
  heap_.push_back({std::max(when, *now_), next_sequence_++, slot});
  slots_[slot].position = heap_.size() - 1;
  rise(heap_.size() - 1);
  return ticket{slots_[slot].generation} << 32U | (ticket{slot} + 1);
}

CAUSEWAY_DECL auto scheduler::after(duration delay, const event_label& label, std::function<void()> what) -> ticket {
  return at(*now_ + delay, label, std::move(what));
}

CAUSEWAY_DECL void scheduler::cancel(ticket t) {
  const auto slot = static_cast<std::uint32_t>((t & UINT32_MAX) - 1);
  if (slot >= slots_.size() || slots_[slot].generation != t >> 32U || slots_[slot].position == nowhere) return;
  take_out(slots_[slot].position);
  release(slot);
}

CAUSEWAY_DECL void scheduler::run_next() {
  CAUSEWAY_EXPECT(!heap_.empty());
  const entry next = heap_.front();
  take_out(0);
  *now_ = next.when;
  record(slots_[next.slot].label);
  const std::function<void()> what = std::move(slots_[next.slot].what);
  release(next.slot);
  what();
}

CAUSEWAY_DECL void scheduler::advance_to(time_point when) {
  CAUSEWAY_EXPECT(when <= next_time());
  *now_ = std::max(when, *now_);
}

CAUSEWAY_DECL void scheduler::record(const event_label& label) noexcept {
  const auto time = static_cast<std::uint64_t>(now_->since_start.count());
  const std::uint64_t what = label.size << 24U ^ std::uint64_t{label.host} << 8U ^ static_cast<std::uint64_t>(label.kind);
  history_ =
      causeway::detail::scramble(history_ ^ time * causeway::detail::hash_prime) + what * causeway::detail::hash_prime;
  ++executed_;
}

CAUSEWAY_DECL bool scheduler::entry::before(const entry& other) const noexcept {
  return when != other.when ? when < other.when : sequence < other.sequence;
}

CAUSEWAY_DECL std::uint32_t scheduler::free_slot() {
  if (free_.empty()) {
    slots_.emplace_back();
    return static_cast<std::uint32_t>(slots_.size() - 1);
  }
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  return slot;
}

CAUSEWAY_DECL void scheduler::release(std::uint32_t slot) {
  slots_[slot].what = nullptr;
  slots_[slot].position = nowhere;
  ++slots_[slot].generation;
  free_.push_back(slot);
}

CAUSEWAY_DECL void scheduler::take_out(std::size_t position) {
  const entry last = heap_.back();
  slots_[heap_[position].slot].position = nowhere;
  heap_.pop_back();
  if (position == heap_.size()) return;
  put(position, last);
  rise(position);
  sink(slots_[last.slot].position);
}

CAUSEWAY_DECL void scheduler::put(std::size_t position, const entry& e) {
  heap_[position] = e;
  slots_[e.slot].position = position;
}

CAUSEWAY_DECL void scheduler::rise(std::size_t position) {
  const entry e = heap_[position];
  while (position > 0 && e.before(heap_[(position - 1) / 4])) {
    put(position, heap_[(position - 1) / 4]);
    position = (position - 1) / 4;
  }
  put(position, e);
}

CAUSEWAY_DECL void scheduler::sink(std::size_t position) {
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

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_IMPL_SCHEDULER_IPP
