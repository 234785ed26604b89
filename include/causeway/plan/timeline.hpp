// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_TIMELINE_HPP
#define CAUSEWAY_PLAN_TIMELINE_HPP

// When everything in a schedule happens, given what stages and links cost: a discrete simulation of one step. Each rank
// does one operation at a time, in strict or opportunistic order (schedule_cursor.hpp: the same cursor that the executor
// uses).

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/plan/pipeline_clock.hpp>
#include <causeway/plan/schedule.hpp>
#include <causeway/plan/schedule_check.hpp>
#include <causeway/plan/schedule_cursor.hpp>
#include <causeway/plan/stage_costs.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

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
  CAUSEWAY_DECL [[nodiscard]] double busy(std::uint32_t rank) const;
  /// The part of the makespan in which a rank does nothing.
  [[nodiscard]] double bubble(std::uint32_t rank) const { return makespan > 0 ? 1 - busy(rank) / makespan : 0; }
  /// The part of all ranks' time in which they compute.
  CAUSEWAY_DECL [[nodiscard]] double efficiency() const;
};

/// The timeline of a schedule. Errors: those of `check` for the schedule and for the costs; a limit below what an order
/// needs. Cost: O(operations log ranks) in strict order.
CAUSEWAY_DECL [[nodiscard]] result<timeline> timeline_of(const schedule& s, const stage_costs& costs,
                                                         const timeline_options& options = {});

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/timeline.ipp>
#endif

#endif  // CAUSEWAY_PLAN_TIMELINE_HPP
