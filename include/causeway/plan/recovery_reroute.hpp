// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_RECOVERY_REROUTE_HPP
#define CAUSEWAY_PLAN_RECOVERY_REROUTE_HPP

// reroute: ReCycle (Gandhi et al., SOSP 2024). The micro-batches of a lost peer go to the peers that have the same stage in
// other pipelines, in turn; backwards are split, so that weight gradients fill bubbles. No redundant work and no spare
// memory for it. The step begins again: the lost peer's gradients are gone. After the step losses are evened out among the
// stages (the paper's failure normalization), spare peers fill holes, and once there are peers for one more pipeline it is
// made. A stage without any peer: from the checkpoint, with whole pipelines of those that are left.

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

class reroute_recovery {
 public:
  CAUSEWAY_DECL static result<reroute_recovery> make(const recovery_job& job, std::size_t stages);

  CAUSEWAY_DECL recovery_action changed(std::span<const std::uint32_t> lost, std::span<const std::uint32_t> come);

  CAUSEWAY_DECL recovery_action boundary();

  [[nodiscard]] double step_seconds() const { return step_; }
  [[nodiscard]] double checkpoint_bytes() const { return cut_.state_bytes(); }
  [[nodiscard]] const peer_grid& grid() const { return grid_; }

 private:
  CAUSEWAY_DECL explicit reroute_recovery(cut_job cut);

  CAUSEWAY_DECL [[nodiscard]] std::size_t fewest() const;

  /// Until no stage has two peers more than another. How many peers moved.
  CAUSEWAY_DECL std::size_t even_out();

  CAUSEWAY_DECL [[nodiscard]] peer_grid::place place(std::size_t stage, bool filled) const;

  CAUSEWAY_DECL void update();

  /// Micro-batch m belongs to pipeline m mod D; where that has a hole, the twins take its micro-batches in turn.
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::vector<std::uint32_t>> routes() const;

  cut_job cut_;
  peer_grid grid_;
  double step_ = no_step;
  std::map<std::vector<std::uint32_t>, double> seconds_;  // of which places are filled
};

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/recovery_reroute.ipp>
#endif

#endif  // CAUSEWAY_PLAN_RECOVERY_REROUTE_HPP
