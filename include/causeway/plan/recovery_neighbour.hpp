// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_RECOVERY_NEIGHBOUR_HPP
#define CAUSEWAY_PLAN_RECOVERY_NEIGHBOUR_HPP

// neighbour_init: CheckFree. No checkpoints and no redundancy: a lost stage is made up from the weights of its two
// neighbours and training goes on. What that costs in training is not for a replay to know: it is a parameter, the steps
// that must be done once more for each stage that was made up. A stage that another pipeline still has is copied from
// there, whole. If two neighbours are gone with all their holders, or an end of the pipeline (which has one neighbour only;
// the paper's CheckFree+ swaps stages during training for that) the same parameter is taken: derived, and kind to the
// policy.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/plan/peer_grid.hpp>
#include <causeway/plan/recovery.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

struct neighbour_options {
  std::size_t stages = 1;
  double repeated_steps = 0;  ///< that make up for one stage's lost weights
};

class neighbour_recovery {
 public:
  CAUSEWAY_DECL static result<neighbour_recovery> make(const recovery_job& job, const neighbour_options& options);

  CAUSEWAY_DECL recovery_action changed(std::span<const std::uint32_t> lost, std::span<const std::uint32_t> come);

  CAUSEWAY_DECL recovery_action boundary();

  [[nodiscard]] double step_seconds() const { return step_; }
  [[nodiscard]] double checkpoint_bytes() const { return 0; }
  [[nodiscard]] const peer_grid& grid() const { return grid_; }

 private:
  CAUSEWAY_DECL neighbour_recovery(cut_job cut, const neighbour_options& options);

  cut_job cut_;
  neighbour_options options_;
  peer_grid grid_;
  double step_ = no_step;
  double owed_ = 0;  // stages that were lost while nothing could be made up
  bool started_ = false;
};

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/recovery_neighbour.ipp>
#endif

#endif  // CAUSEWAY_PLAN_RECOVERY_NEIGHBOUR_HPP
