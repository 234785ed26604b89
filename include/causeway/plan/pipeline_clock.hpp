// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_PIPELINE_CLOCK_HPP
#define CAUSEWAY_PLAN_PIPELINE_CLOCK_HPP

// Time in a pipeline, event by event: when ranks are free, when messages arrive, when links are busy. Who decides what a
// rank does next is the caller: a cursor on a given order (timeline.hpp), or a rule that writes an order
// (schedule_rules.hpp).

#include <causeway/config/config.hpp>
#include <causeway/plan/schedule.hpp>
#include <causeway/plan/stage_costs.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// One operation with its place in time, in seconds.
struct timed_operation {
  operation op;
  double start = 0;
  double end = 0;
};

namespace detail {

/// Runs all ranks of a pipeline of the shape (ranks, chunks, micro-batches) of a schedule; its orders are not read.
class pipeline_clock {
 public:
  CAUSEWAY_DECL pipeline_clock(const schedule& shape, const stage_costs& costs, const jitter& noise);

  static constexpr double never = std::numeric_limits<double>::infinity();

  [[nodiscard]] double now() const noexcept { return now_; }
  CAUSEWAY_DECL [[nodiscard]] bool arrived(std::uint32_t rank, const operation& op) const noexcept;

  /// When the input of an operation is there, if its sender has begun with it, on links without queues or jitter; else
  /// `never`. 0 for what needs no input from elsewhere.
  CAUSEWAY_DECL [[nodiscard]] double expected(std::uint32_t rank, const operation& op) const noexcept;

  /// Seconds that an operation takes, without jitter.
  CAUSEWAY_DECL [[nodiscard]] double cost(std::uint32_t rank, const operation& op) const noexcept;

  /// Until nothing happens any more: `choose(rank)` gives an optional operation whenever a rank is free and something may
  /// have changed for it; `started(rank, timed_operation)` learns what has begun.
  template <class Choose, class Started>
  void run(Choose&& choose, Started&& started) {
    for (std::uint32_t r = 0; r < shape_.ranks; ++r) wake(0, r);
    std::vector<std::uint32_t> awake;
    while (take_events(awake)) {
      for (const std::uint32_t rank : awake) {
        if (running_[rank].busy) continue;
        if (const auto op = choose(rank)) started(rank, start(rank, *op));
      }
    }
  }

  /// Asks this rank again at this moment.
  CAUSEWAY_DECL void wake(std::uint32_t rank);

 private:
  struct state {
    bool busy = false;
    operation op;
    double end = 0;
  };
  using event = std::pair<double, std::uint32_t>;  // when, rank

  CAUSEWAY_DECL void wake(double when, std::uint32_t rank);

  CAUSEWAY_DECL [[nodiscard]] std::size_t input(std::uint32_t stage, const operation& op) const noexcept;

  CAUSEWAY_DECL timed_operation start(std::uint32_t rank, const operation& op);

  // All ranks for which something happens at the next moment, in their order.
  CAUSEWAY_DECL bool take_events(std::vector<std::uint32_t>& awake);

  CAUSEWAY_DECL void finish(std::uint32_t rank);

  // The end of a message's way. Messages of all chunks share the link from this rank to that one.
  CAUSEWAY_DECL double send(std::uint32_t rank, const stage_place& target, const operation& op);

  CAUSEWAY_DECL [[nodiscard]] const edge_cost& edge(std::uint32_t from, const stage_place& target) const noexcept;

  // Seconds for which a message occupies its link.
  CAUSEWAY_DECL [[nodiscard]] double transfer(std::uint32_t from, const stage_place& target,
                                              const operation& op) const noexcept;

  // Ranks are on a ring: each has a link to the next and one to the one before; with two ranks these are the same.
  CAUSEWAY_DECL [[nodiscard]] bool is_next(std::uint32_t rank, std::uint32_t target) const noexcept;

  const schedule& shape_;
  const stage_costs& costs_;
  jitter noise_;
  std::vector<state> running_;
  std::vector<double> link_free_;  // [2 rank + (1: to the next)]: from when on
  std::vector<double> arrives_;    // [forward or backward][virtual stage][micro-batch]
  std::vector<double> expected_;   // the same
  std::priority_queue<event, std::vector<event>, std::greater<>> events_;
  double now_ = 0;
};

}  // namespace detail

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/pipeline_clock.ipp>
#endif

#endif  // CAUSEWAY_PLAN_PIPELINE_CLOCK_HPP
