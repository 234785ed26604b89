// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_TIMELINE_HPP
#define CAUSEWAY_PLAN_TIMELINE_HPP

// When everything in a schedule happens, given what stages and links cost: a discrete simulation of one step. Each rank
// does one operation at a time, in strict or opportunistic order (schedule_cursor.hpp: the same cursor that the executor
// uses).

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/plan/pipeline_clock.hpp>
#include <causeway/plan/schedule.hpp>
#include <causeway/plan/schedule_check.hpp>
#include <causeway/plan/schedule_cursor.hpp>
#include <causeway/plan/stage_costs.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::plan {

/// How ranks behave.
struct timeline_options {
  run_order order = run_order::strict;
  jitter noise;
  std::optional<held_memory> limit;  ///< of each rank in opportunistic order; none: what its order itself needs at most
};

/// A schedule in time.
struct timeline {
  std::vector<std::vector<timed_operation>> ranks;  ///< [rank]: as they ran
  std::vector<held_memory> peaks;                   ///< [rank]
  double makespan = 0;                              ///< seconds from the start to the last operation's end
  std::uint32_t chunks = 1;

  /// Seconds in which a rank computes. Recomputing counts.
  [[nodiscard]] double busy(std::uint32_t rank) const {
    double sum = 0;
    for (const timed_operation& t : ranks[rank]) sum += t.end - t.start;
    return sum;
  }
  /// The part of the makespan in which a rank does nothing.
  [[nodiscard]] double bubble(std::uint32_t rank) const { return makespan > 0 ? 1 - busy(rank) / makespan : 0; }
  /// The part of all ranks' time in which they compute.
  [[nodiscard]] double efficiency() const {
    double sum = 0;
    for (std::uint32_t r = 0; r < ranks.size(); ++r) sum += busy(r);
    return makespan > 0 ? sum / (static_cast<double>(ranks.size()) * makespan) : 1;
  }
};

/// The timeline of a schedule. Errors: those of `check` for the schedule and for the costs; a limit below what an order
/// needs. Cost: O(operations log ranks) in strict order.
[[nodiscard]] inline result<timeline> timeline_of(const schedule& s, const stage_costs& costs,
                                                  const timeline_options& options = {}) {
  CAUSEWAY_ASSIGN(const std::vector<held_memory> needs, options.limit ? plan::check(s, *options.limit) : plan::check(s));
  CAUSEWAY_TRY(plan::check(costs, virtual_stages(s)));
  std::vector<schedule_cursor> cursors;
  for (std::uint32_t r = 0; r < s.ranks; ++r) cursors.emplace_back(s, r, options.order, options.limit.value_or(needs[r]));

  timeline out{std::vector<std::vector<timed_operation>>(s.ranks), std::vector<held_memory>(s.ranks), 0, s.chunks};
  detail::pipeline_clock clock{s, costs, options.noise};
  const auto choose = [&](std::uint32_t rank) -> std::optional<operation> {
    schedule_cursor& cursor = cursors[rank];
    if (cursor.finished()) return std::nullopt;
    const auto chosen = cursor.next([&](const operation& op) { return clock.arrived(rank, op); });
    if (!chosen.ready) return std::nullopt;
    cursor.complete(chosen.index);  // nothing is chosen before its end
    return cursor.order()[chosen.index];
  };
  clock.run(choose, [&](std::uint32_t rank, const timed_operation& t) {
    out.ranks[rank].push_back(t);
    out.peaks[rank] = larger(out.peaks[rank], cursors[rank].held());
    out.makespan = std::max(out.makespan, t.end);
  });
  return out;
}

}  // namespace causeway::inline CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_TIMELINE_HPP
