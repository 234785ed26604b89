// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_RECOVERY_REDUNDANT_IPP
#define CAUSEWAY_PLAN_IMPL_RECOVERY_REDUNDANT_IPP

#include <causeway/plan/recovery_redundant.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL redundant_recovery::redundant_recovery(cut_job cut, const redundant_options& options)
    : cut_{std::move(cut)}, options_{options}, grid_{options.stages} {}

CAUSEWAY_DECL result<redundant_recovery> redundant_recovery::make(const recovery_job& job,
                                                                  const redundant_options& options) {
  CAUSEWAY_ASSIGN(cut_job cut, cut_job::make(job, options.stages));
  return redundant_recovery{std::move(cut), options};
}

CAUSEWAY_DECL recovery_action redundant_recovery::changed(std::span<const std::uint32_t> lost,
                                                          std::span<const std::uint32_t> come) {
  const std::size_t broken = grid_.lose(lost).size();
  grid_.add_spares(come);
  const recovery_job& job = cut_.job();
  if (grid_.pipelines() == 0) return revive();
  if (broken == 0) return {};
  if (!fatal()) {
    update();
    return {job.detection + options_.failover};
  }
  const bool held = all_stages_held();
  recovery_action action = regroup();
  action.pause += job.detection;
  action.fate = step_fate::begins_again;
  if (!held) action = {job.detection + job.restart + 2 * cut_.load_seconds(), step_fate::from_checkpoint};
  return action;
}

CAUSEWAY_DECL bool redundant_recovery::fatal() const {
  for (std::size_t d = 0; d < grid_.pipelines(); ++d) {
    for (std::size_t s = 0; s < cut_.stages(); ++s) {
      if (!grid_.filled(d, s) && !grid_.filled(d, before(s))) return true;
    }
  }
  return false;
}

CAUSEWAY_DECL bool redundant_recovery::all_stages_held() const {
  for (std::size_t s = 0; s < cut_.stages(); ++s) {
    if (grid_.holders(s) + grid_.holders(before(s)) == 0) return false;
  }
  return true;
}

CAUSEWAY_DECL bool redundant_recovery::must_regroup() const {
  if (grid_.peers() < cut_.stages()) return false;  // the last pipeline goes on with peers that do two stages
  const std::size_t doubled = grid_.holes();  // peers with two stages; neither they nor their predecessors may be lost
  const auto active = static_cast<double>(grid_.pipelines() * cut_.stages() - doubled);
  return (doubled > 0 && grid_.spares() >= doubled) || 2 * static_cast<double>(doubled) > options_.most_at_risk * active ||
         grid_.peers() / cut_.stages() > grid_.pipelines();
}

CAUSEWAY_DECL recovery_action redundant_recovery::regroup() {
  const std::size_t moved = grid_.rebuild();
  update();
  // A peer with a new stage fetches that and its successor's.
  return {cut_.job().regroup + (moved > 0 ? 2 * cut_.copy_seconds() : 0)};
}

CAUSEWAY_DECL recovery_action redundant_recovery::revive() {
  if (grid_.peers() < cut_.stages()) return {};
  regroup();
  return {cut_.job().restart + 2 * cut_.load_seconds(), step_fate::from_checkpoint};
}

CAUSEWAY_DECL void redundant_recovery::update() {
  step_ = grid_.pipelines() == 0 ? no_step : 0;
  for (std::size_t d = 0; d < grid_.pipelines(); ++d) step_ = std::max(step_, pipeline_seconds(d));
  step_ += cut_.average_seconds(grid_.pipelines());
}

CAUSEWAY_DECL double redundant_recovery::pipeline_seconds(std::size_t d) {
  const std::size_t m = cut_.share(grid_.pipelines());
  std::vector<std::uint32_t> route(cut_.stages());
  for (std::size_t s = 0; s < route.size(); ++s) route[s] = static_cast<std::uint32_t>(grid_.filled(d, s) ? s : before(s));
  const auto [known, fresh] = seconds_.try_emplace({m, route});
  if (fresh) {
    const std::vector<std::vector<std::uint32_t>> routes(m, route);
    known->second = seconds_of({cut_.costs(), routes, static_cast<std::uint32_t>(m), false, true});
  }
  return known->second;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_RECOVERY_REDUNDANT_IPP
