// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_RECOVERY_PROACTIVE_IPP
#define CAUSEWAY_PLAN_IMPL_RECOVERY_PROACTIVE_IPP

#include <causeway/plan/recovery_proactive.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL proactive_recovery::proactive_recovery(const recovery_job& job, const proactive_options& options)
    : job_{&job}, options_{options} {}

CAUSEWAY_DECL recovery_action proactive_recovery::changed(std::span<const std::uint32_t> lost,
                                                          std::span<const std::uint32_t> come) {
  const std::size_t before = peers();
  std::size_t broken = 0;
  for (auto& stage : of_stage_) broken += detail::take_out(stage, lost);
  detail::take_out(spare_, lost);
  spare_.insert(spare_.end(), come.begin(), come.end());
  if (broken == 0 && shape_.instances() > 0) return {};  // peers that came wait for the next plan
  const double pause = take(next_shape(before), broken > 0);
  return {pause + (broken > 0 ? job_->detection : 0), step_fate::begins_again};
}

CAUSEWAY_DECL recovery_action proactive_recovery::boundary() {
  elapsed_ += step_;
  if (elapsed_ < options_.interval) return {};
  elapsed_ = 0;
  history_.push_back(peers());
  if (history_.size() > options_.history) history_.erase(history_.begin());
  return {take(next_shape(peers()), false)};
}

CAUSEWAY_DECL std::size_t proactive_recovery::peers() const {
  std::size_t n = spare_.size();
  for (const auto& stage : of_stage_) n += stage.size();
  return n;
}

CAUSEWAY_DECL double proactive_recovery::seconds(const pipeline_shape& s) {
  if (s.instances() == 0 || s.stages > job_->model.blocks.size()) return no_step;
  const auto [known, fresh] = seconds_.try_emplace({s.replicas, s.stages}, no_step);
  if (!fresh) return known->second;
  const auto cut = cut_job::make(*job_, s.stages);
  if (cut && cut->state_bytes() <= options_.device_memory) known->second = cut->step_seconds(s.replicas);
  return known->second;
}

CAUSEWAY_DECL pipeline_shape proactive_recovery::next_shape(std::size_t before) {
  std::vector<std::size_t> available{peers()};
  for (const std::size_t n : forecast(fit_availability(history_), peers(), options_.lookahead)) available.push_back(n);
  const std::size_t had = std::max(before, shape_.instances());
  std::vector<std::size_t> key{shape_.replicas, shape_.stages, had};
  key.insert(key.end(), available.begin(), available.end());
  const auto [known, fresh] = planned_.try_emplace(std::move(key));
  if (!fresh) return known->second;
  const double copy = job_->link.seconds(largest_stage());
  const migration_costs costs{job_->regroup, job_->regroup + copy, job_->regroup + copy};
  const auto throughput = [&](const pipeline_shape& s) { return job_->samples() / seconds(s); };
  const liveput_plan plan =
      plan_liveput(shape_, had, available, options_.interval, options_.most_stages, costs, throughput, options_.draws);
  return known->second = plan.shapes.front();
}

CAUSEWAY_DECL double proactive_recovery::largest_stage() {
  if (shape_.instances() == 0) return 0;
  return cut_job::make(*job_, shape_.stages)->state_bytes();
}

CAUSEWAY_DECL double proactive_recovery::take(const pipeline_shape& next, bool broken) {
  const bool grows = next.replicas > shape_.replicas;
  const bool same = next.stages == shape_.stages && next.instances() > 0;
  if (!same) {
    for (const auto& stage : of_stage_) spare_.insert(spare_.end(), stage.begin(), stage.end());
    of_stage_.assign(next.stages, {});
  }
  shape_ = next;
  step_ = seconds(next);
  if (next.instances() == 0) return 0;
  const std::size_t moved = deal();
  if (moved > 0) return job_->regroup + job_->link.seconds(largest_stage());
  return broken || grows ? job_->regroup : 0;
}

CAUSEWAY_DECL std::size_t proactive_recovery::deal() {
  std::size_t moved = 0;
  for (auto& stage : of_stage_) {
    for (; stage.size() < shape_.replicas; ++moved) {
      auto* from = &spare_;
      for (auto& other : of_stage_) {
        if (from->empty() && other.size() > shape_.replicas) from = &other;
      }
      CAUSEWAY_EXPECT(!from->empty());  // a shape has at most as many instances as there are
      stage.push_back(from->back());
      from->pop_back();
    }
  }
  return moved;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_RECOVERY_PROACTIVE_IPP
