// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_RECOVERY_NEIGHBOUR_IPP
#define CAUSEWAY_PLAN_IMPL_RECOVERY_NEIGHBOUR_IPP

#include <causeway/plan/recovery_neighbour.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL neighbour_recovery::neighbour_recovery(cut_job cut, const neighbour_options& options)
    : cut_{std::move(cut)}, options_{options}, grid_{options.stages} {}

CAUSEWAY_DECL result<neighbour_recovery> neighbour_recovery::make(const recovery_job& job,
                                                                  const neighbour_options& options) {
  CAUSEWAY_ASSIGN(cut_job cut, cut_job::make(job, options.stages));
  return neighbour_recovery{std::move(cut), options};
}

CAUSEWAY_DECL recovery_action neighbour_recovery::changed(std::span<const std::uint32_t> lost,
                                                          std::span<const std::uint32_t> come) {
  const std::size_t broken = grid_.lose(lost).size();
  grid_.add_spares(come);
  if (broken == 0 && (grid_.pipelines() > 0 || grid_.peers() < cut_.stages())) return {};
  double made_up = owed_;  // stages
  if (started_ && grid_.pipelines() > 0) {
    for (std::size_t s = 0; s < cut_.stages(); ++s) made_up += grid_.holders(s) == 0 ? 1 : 0;
  }
  grid_.rebuild();
  step_ = cut_.step_seconds(grid_.pipelines());
  started_ = true;
  owed_ = 0;
  if (grid_.pipelines() == 0) {  // those who are left keep their weights and wait
    owed_ = made_up;
    return {0, step_fate::begins_again};
  }
  return {cut_.job().detection + cut_.job().regroup + cut_.copy_seconds(), step_fate::begins_again,
          made_up * options_.repeated_steps};
}

CAUSEWAY_DECL recovery_action neighbour_recovery::boundary() {
  if (grid_.peers() / cut_.stages() <= grid_.pipelines()) return {};
  grid_.rebuild();
  step_ = cut_.step_seconds(grid_.pipelines());
  return {cut_.job().regroup + cut_.copy_seconds()};
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_RECOVERY_NEIGHBOUR_IPP
