// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_RECOVERY_SWARM_HPP
#define CAUSEWAY_PLAN_RECOVERY_SWARM_HPP

// Peers that serve stages without being pipelines (SWARM, Ryabinin et al., ICML 2023): each micro-batch goes through any
// peer of each stage, so that what a lost peer did goes to the others of its stage, and the step goes on. Peers that come
// take the stage with the fewest; with rebalancing, a peer moves after a step while a stage has two more than another. A
// stage that lost its last peer stalls all until a peer has come to it, from its checkpoint. Routing is even here: equal
// peers behind queues of expected times (stage/) come to that.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/plan/recovery.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

struct swarm_options {
  std::size_t stages = 1;
  bool rebalances = true;
};

class swarm_recovery {
 public:
  CAUSEWAY_DECL static result<swarm_recovery> make(const recovery_job& job, const swarm_options& options);

  CAUSEWAY_DECL recovery_action changed(std::span<const std::uint32_t> lost, std::span<const std::uint32_t> come);

  CAUSEWAY_DECL recovery_action boundary();

  [[nodiscard]] double step_seconds() const { return step_; }
  [[nodiscard]] double checkpoint_bytes() const { return cut_.state_bytes(); }
  [[nodiscard]] std::size_t peers_of(std::size_t stage) const { return of_stage_[stage].size(); }

 private:
  CAUSEWAY_DECL swarm_recovery(cut_job cut, const swarm_options& options);

  CAUSEWAY_DECL [[nodiscard]] std::size_t extreme(bool most) const;
  [[nodiscard]] std::size_t fewest() const { return of_stage_[extreme(false)].size(); }

  CAUSEWAY_DECL recovery_action resume();

  CAUSEWAY_DECL void update();

  CAUSEWAY_DECL [[nodiscard]] std::vector<std::vector<std::uint32_t>> routes(const std::vector<std::size_t>& counts) const;

  cut_job cut_;
  swarm_options options_;
  std::vector<std::vector<std::uint32_t>> of_stage_;
  bool lost_weights_ = false;  // a stage had no peer
  double step_ = no_step;
  std::map<std::vector<std::size_t>, double> seconds_;  // of peers of each stage
};

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/recovery_swarm.ipp>
#endif

#endif  // CAUSEWAY_PLAN_RECOVERY_SWARM_HPP
