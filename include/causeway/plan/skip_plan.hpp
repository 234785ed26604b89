// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_SKIP_PLAN_HPP
#define CAUSEWAY_PLAN_SKIP_PLAN_HPP

// Paths through some of the stages for all groups of micro-batches of a step: SkipPipe (Blagoev et al. 2025, arXiv
// 2502.19913; github.com/gensyn-ai/skippipe 1443624, schedulers/CBS.py). Conflict-based search: every group gets its
// quickest path; where paths do not go together, the first conflict is taken, and each of those in it is forbidden its part
// in turn, in a plan of its own, where it gets its quickest path of what it may still do. Conflicts are more groups in a
// stage than the others leave it, more at a peer than it has room for, and two at a peer at a time. Plans with the quickest
// slowest group are looked at first. Of those that go together the event simulation decides: routed_time.hpp.
//
// Here the groups in an overfull stage, or at an overfull peer, are forbidden it one by one, so that no plan is lost; the
// authors' code forbids it to several at once, and looks at no more than three such choices. Paths keep to the order of the
// stages; theirs may swap some. Half of the search goes to plans with few conflicts first, so that there is one in time.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/plan/skip_route.hpp>
#include <causeway/plan/stage_costs.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

struct skip_plan_options {
  std::size_t micro_batches = 0;  ///< of the simulated step, group by group in turn; 0: one for each group
  std::size_t plans = 8;          ///< without conflicts, after which the search ends
  std::size_t looks = 2000;       ///< at plans with conflicts, at most
};

struct skip_plan {
  std::vector<std::vector<std::uint32_t>> paths;  ///< [group][stage]: peer, or left_out
  double seconds = 0;                             ///< of the simulated step
  double slowest = 0;                             ///< group's end as the search sees it, without what waits beyond it
  std::size_t free_of_conflicts = 0;              ///< plans found
  std::size_t looks = 0;                          ///< at plans
};

/// Seconds of a step whose micro-batch m takes path m modulo their number; as in `skip_plan`. Averages are not in it.
CAUSEWAY_DECL [[nodiscard]] double seconds_of(const skip_task& task, const std::vector<std::vector<std::uint32_t>>& paths,
                                              std::size_t micro_batches);

/// The plan with the shortest simulated step among those in which no stage and no peer has too many groups; where the
/// search finds eight that have no two groups at a peer at a time either, it ends. Deterministic.
/// errc::invalid_argument: a task that is none. errc::not_found: no plan in so many looks.
CAUSEWAY_DECL result<skip_plan> plan_skips(const skip_task& task, const skip_plan_options& options = {});

/// The quickest slowest group of all plans: those kinds of conflicts are minded, up to `minded`, in the order above. For
/// comparisons: not found in `looks` looks is errc::not_found.
enum class skip_conflicts : std::uint8_t { none, stages, peers, times };
CAUSEWAY_DECL result<skip_plan> least_slowest(const skip_task& task, skip_conflicts minded, std::size_t looks);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/skip_plan.ipp>
#endif

#endif  // CAUSEWAY_PLAN_SKIP_PLAN_HPP
