// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_SCHEDULE_GREEDY_HPP
#define CAUSEWAY_PLAN_SCHEDULE_GREEDY_HPP

// Orders written for given costs of stages and links, by list scheduling: whenever a rank is free, a rule takes one of the
// operations that it could run. In the manner of CrossPipe (arXiv 2507.00217), whose model of delay and bandwidth this
// takes; its greedy algorithm is not known to us in detail, so the rules are ours. None of them is best on all links,
// and with little memory an order for quicker or slower links is at times the better one: all rules are tried on links of
// several speeds, a closed form besides, and the timeline on the given links says which order is kept.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/plan/pipeline_clock.hpp>
#include <causeway/plan/schedule.hpp>
#include <causeway/plan/schedule_check.hpp>
#include <causeway/plan/schedules.hpp>
#include <causeway/plan/stage_costs.hpp>
#include <causeway/plan/timeline.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// What an order is to be written for.
struct greedy_options {
  std::uint32_t ranks = 1;
  std::uint32_t chunks = 1;
  std::uint32_t micro_batches = 1;
  std::uint32_t activations = 1;  ///< sets that a rank has room for; at least `chunks`
  bool halves = false;            ///< split each backward into its two gradients
};

/// The shortest order that list scheduling finds on these costs, never longer than zero_bubble with `halves`, interleaved
/// with several chunks, or one_f_one_b, where these fit the room. Gradients keep the order of micro-batches. Errors: sizes
/// or costs that do not fit; room for fewer activations than chunks. Cost: one simulation and one timeline for each of 8
/// rules.
CAUSEWAY_DECL [[nodiscard]] result<schedule> greedy(const stage_costs& costs, const greedy_options& options);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/schedule_greedy.ipp>
#endif

#endif  // CAUSEWAY_PLAN_SCHEDULE_GREEDY_HPP
