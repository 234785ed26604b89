// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_RECOVERY_RESTART_HPP
#define CAUSEWAY_PLAN_RECOVERY_RESTART_HPP

// checkpoint_restart: when a peer of a pipeline is lost, or peers for one more pipeline are there, all processes end, meet
// again as whole pipelines, and load the last checkpoint. The baseline of Bamboo (NSDI 2023, section 3; its simulator
// restarts for both reasons, too).

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/plan/recovery.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

class restart_recovery {
 public:
  CAUSEWAY_DECL static result<restart_recovery> make(const recovery_job& job, std::size_t stages);

  CAUSEWAY_DECL recovery_action changed(std::span<const std::uint32_t> lost, std::span<const std::uint32_t> come);

  recovery_action boundary() { return {}; }
  [[nodiscard]] double step_seconds() const { return step_; }
  [[nodiscard]] double checkpoint_bytes() const { return cut_.state_bytes(); }
  [[nodiscard]] std::size_t replicas() const { return replicas_; }

 private:
  CAUSEWAY_DECL explicit restart_recovery(cut_job cut);

  cut_job cut_;
  std::vector<std::uint32_t> active_, spare_;
  std::size_t replicas_ = 0;
  double step_ = no_step;
};

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/recovery_restart.ipp>
#endif

#endif  // CAUSEWAY_PLAN_RECOVERY_RESTART_HPP
