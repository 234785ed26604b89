// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_STEP_ESTIMATE_HPP
#define CAUSEWAY_PLAN_STEP_ESTIMATE_HPP

// How long a training step takes on given devices and links, and where the time goes. Each replica runs its micro-batches
// through its stages as in GPipe: all forward, then all backward. Stages and links are machines that each micro-batch takes
// alike, so a pass takes the first one's way through all of them and the slowest machine's time for each further one: exact
// (a flow shop of equal jobs). Links carry both directions at once and do not disturb one another. When the slowest replica
// is through, each stage's replicas average their gradients as in DTFM's model (placement.hpp). Nothing of the average is
// overlapped.

#include <causeway/config/config.hpp>
#include <causeway/plan/link_matrix.hpp>
#include <causeway/plan/placement.hpp>

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// What a step consists of. Seconds are those of a device of speed 1.
struct step_work {
  std::vector<double> forward;         ///< of one micro-batch, each stage
  std::vector<double> backward;        ///< with what is recomputed
  std::vector<double> gradient_bytes;  ///< of each stage
  double message_bytes = 0;            ///< of one micro-batch between two stages, and its gradient back
  std::size_t micro_batches = 1;       ///< of one replica, at least 1
};

/// Seconds of a step, in parts that add up.
struct step_estimate {
  double compute = 0;               ///< that the busiest device of the slowest replica computes
  double bubble = 0;                ///< that it waits for other stages' work
  double activations = 0;           ///< that the replica's messages add to that: exposed communication
  double averaging = 0;             ///< of gradients: exposed communication too
  std::size_t replica = 0;          ///< the slowest
  std::size_t averaging_stage = 0;  ///< whose average takes the longest

  [[nodiscard]] double total() const noexcept { return compute + bubble + activations + averaging; }
};

/// The step of `where`; device d computes at `speeds[d]`, which is above 0.
CAUSEWAY_DECL step_estimate estimate_step(const link_matrix& links, const placement& where, std::span<const double> speeds,
                                          const step_work& work);

/// Swaps devices of `where` with one another, and with those that it leaves out, as long as that makes the step shorter;
/// at most `evaluations` tries. DTFM's cost takes all devices as equally fast and a batch as one message: this does not.
CAUSEWAY_DECL step_estimate refine_by_swaps(const link_matrix& links, placement& where, std::span<const double> speeds,
                                            const step_work& work, std::size_t evaluations);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/step_estimate.ipp>
#endif

#endif  // CAUSEWAY_PLAN_STEP_ESTIMATE_HPP
