// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_RECOVERY_RESTART_IPP
#define CAUSEWAY_PLAN_IMPL_RECOVERY_RESTART_IPP

#include <causeway/plan/recovery_restart.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL restart_recovery::restart_recovery(cut_job cut) : cut_{std::move(cut)} {}

CAUSEWAY_DECL result<restart_recovery> restart_recovery::make(const recovery_job& job, std::size_t stages) {
  CAUSEWAY_ASSIGN(cut_job cut, cut_job::make(job, stages));
  return restart_recovery{std::move(cut)};
}

CAUSEWAY_DECL recovery_action restart_recovery::changed(std::span<const std::uint32_t> lost,
                                                        std::span<const std::uint32_t> come) {
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

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_RECOVERY_RESTART_IPP
