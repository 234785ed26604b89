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

namespace causeway::inline CAUSEWAY_ABI::plan {

class restart_recovery {
 public:
  static result<restart_recovery> make(const recovery_job& job, std::size_t stages) {
    CAUSEWAY_ASSIGN(cut_job cut, cut_job::make(job, stages));
    return restart_recovery{std::move(cut)};
  }

  recovery_action changed(std::span<const std::uint32_t> lost, std::span<const std::uint32_t> come) {
    const std::size_t broken = detail::take_out(active_, lost);
    detail::take_out(spare_, lost);
    spare_.insert(spare_.end(), come.begin(), come.end());
    const std::size_t replicas = (active_.size() + spare_.size()) / cut_.stages();
    if (broken == 0 && replicas <= replicas_) return {};
    spare_.insert(spare_.end(), active_.begin(), active_.end());
    const auto used = spare_.begin() + static_cast<std::ptrdiff_t>(replicas * cut_.stages());
    active_.assign(spare_.begin(), used);
    spare_.erase(spare_.begin(), used);
    replicas_ = replicas;
    step_ = cut_.step_seconds(replicas);
    const recovery_job& job = cut_.job();
    return {(broken > 0 ? job.detection : 0) + job.restart + cut_.load_seconds(), step_fate::from_checkpoint};
  }

  recovery_action boundary() { return {}; }
  [[nodiscard]] double step_seconds() const { return step_; }
  [[nodiscard]] double checkpoint_bytes() const { return cut_.state_bytes(); }
  [[nodiscard]] std::size_t replicas() const { return replicas_; }

 private:
  explicit restart_recovery(cut_job cut) : cut_{std::move(cut)} {}

  cut_job cut_;
  std::vector<std::uint32_t> active_, spare_;
  std::size_t replicas_ = 0;
  double step_ = no_step;
};

}  // namespace causeway::inline CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_RECOVERY_RESTART_HPP
