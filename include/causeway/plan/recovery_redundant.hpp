// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_RECOVERY_REDUNDANT_HPP
#define CAUSEWAY_PLAN_RECOVERY_REDUNDANT_HPP

// redundant: Bamboo (Thorpe et al., NSDI 2023). Each peer holds its successor's stage too (the last one the first stage)
// and repeats its forwards in bubbles; when the successor is lost it does both stages from then on, backwards included, and
// the step goes on. After the step the peers regroup, by the rule of Bamboo's simulator, as long as there are enough for a
// pipeline: if spare peers can fill all holes,
// if more than 5 % of the peers are such that another loss would be fatal, or if there are enough peers for one more
// pipeline. Losing a peer and its predecessor is fatal: the step begins again if another pipeline holds the stage, else
// all since the last checkpoint is lost.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/plan/peer_grid.hpp>
#include <causeway/plan/recovery.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

struct redundant_options {
  std::size_t stages = 1;      ///< of each pipeline; the paper takes 1.5 times as many as without redundancy
  double failover = 0;         ///< seconds until a predecessor has taken over: the lost stage's state back to the device
  double most_at_risk = 0.05;  ///< of the peers, without regrouping
};

class redundant_recovery {
 public:
  CAUSEWAY_DECL static result<redundant_recovery> make(const recovery_job& job, const redundant_options& options);

  CAUSEWAY_DECL recovery_action changed(std::span<const std::uint32_t> lost, std::span<const std::uint32_t> come);

  recovery_action boundary() { return must_regroup() ? regroup() : recovery_action{}; }

  [[nodiscard]] double step_seconds() const { return step_; }
  [[nodiscard]] double checkpoint_bytes() const { return cut_.state_bytes(); }
  [[nodiscard]] const peer_grid& grid() const { return grid_; }

 private:
  CAUSEWAY_DECL redundant_recovery(cut_job cut, const redundant_options& options);

  [[nodiscard]] std::size_t before(std::size_t s) const { return s == 0 ? cut_.stages() - 1 : s - 1; }

  /// A hole whose predecessor is a hole has nobody who can do it.
  CAUSEWAY_DECL [[nodiscard]] bool fatal() const;

  /// A stage is held by its own peers and their predecessors.
  CAUSEWAY_DECL [[nodiscard]] bool all_stages_held() const;

  CAUSEWAY_DECL [[nodiscard]] bool must_regroup() const;

  CAUSEWAY_DECL recovery_action regroup();

  /// From nothing, once there are enough peers: only a checkpoint has the weights.
  CAUSEWAY_DECL recovery_action revive();

  /// A step takes as long as the slowest pipeline.
  CAUSEWAY_DECL void update();

  CAUSEWAY_DECL double pipeline_seconds(std::size_t d);

  cut_job cut_;
  redundant_options options_;
  peer_grid grid_;
  double step_ = no_step;
  std::map<std::pair<std::size_t, std::vector<std::uint32_t>>, double> seconds_;  // of (micro-batches, route)
};

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/recovery_redundant.ipp>
#endif

#endif  // CAUSEWAY_PLAN_RECOVERY_REDUNDANT_HPP
