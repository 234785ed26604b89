// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_SCHEDULER_HPP
#define CAUSEWAY_SIM_SCHEDULER_HPP

// Virtual time: a queue of things to come, ordered by their time and then by the order in which they were asked for, so
// that nothing depends on anything but the program. Everything that happens is folded into a running hash: two runs with
// equal hashes did the same things in the same order.

#include <causeway/core/clock.hpp>
#include <causeway/core/hash.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

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
  CAUSEWAY_DECL explicit virtual_clock(std::shared_ptr<const time_point> now);
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
  CAUSEWAY_DECL [[nodiscard]] virtual_clock clock() const;
  /// What the clocks of hosts are made from.
  CAUSEWAY_DECL [[nodiscard]] std::shared_ptr<const time_point> shared_now() const;

  /// `what` happens at `when`; a time in the past means now. Cost: O(log n).
  CAUSEWAY_DECL ticket at(time_point when, const event_label& label, std::function<void()> what);

  CAUSEWAY_DECL ticket after(duration delay, const event_label& label, std::function<void()> what);

  /// The event will not happen. Nothing if it has, or was cancelled before.
  CAUSEWAY_DECL void cancel(ticket t);

  [[nodiscard]] bool empty() const noexcept { return heap_.empty(); }
  [[nodiscard]] std::size_t pending() const noexcept { return heap_.size(); }
  /// When the next event happens; no_deadline if there is none.
  [[nodiscard]] time_point next_time() const noexcept { return heap_.empty() ? no_deadline : heap_.front().when; }

  /// Moves on to the next event and lets it happen. There must be one.
  CAUSEWAY_DECL void run_next();

  /// Time passes without an event; never back, and not beyond the next one.
  CAUSEWAY_DECL void advance_to(time_point when);

  /// Folds something that happens now into the history.
  CAUSEWAY_DECL void record(const event_label& label) noexcept;

  [[nodiscard]] std::uint64_t history_hash() const noexcept { return causeway::detail::scramble(history_); }
  [[nodiscard]] std::uint64_t executed() const noexcept { return executed_; }

 private:
  static constexpr std::size_t nowhere = ~std::size_t{0};

  struct entry {
    time_point when;
    std::uint64_t sequence = 0;
    std::uint32_t slot = 0;

    CAUSEWAY_DECL [[nodiscard]] bool before(const entry& other) const noexcept;
  };

  struct slot_state {
    event_label label;
    std::function<void()> what;
    std::size_t position = nowhere;  ///< in the heap
    std::uint32_t generation = 1;
  };

  CAUSEWAY_DECL std::uint32_t free_slot();

  CAUSEWAY_DECL void release(std::uint32_t slot);

  CAUSEWAY_DECL void take_out(std::size_t position);

  CAUSEWAY_DECL void put(std::size_t position, const entry& e);

  CAUSEWAY_DECL void rise(std::size_t position);

  CAUSEWAY_DECL void sink(std::size_t position);

  std::shared_ptr<time_point> now_ = std::make_shared<time_point>();
  std::vector<entry> heap_;  // 4-ary: children of i are 4 i + 1 to 4 i + 4
  std::vector<slot_state> slots_;
  std::vector<std::uint32_t> free_;
  std::uint64_t next_sequence_ = 0;
  std::uint64_t history_ = 0;
  std::uint64_t executed_ = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#ifndef CAUSEWAY_COMPILED
#include <causeway/sim/impl/scheduler.ipp>
#endif

#endif  // CAUSEWAY_SIM_SCHEDULER_HPP
