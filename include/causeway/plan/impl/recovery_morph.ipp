// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_RECOVERY_MORPH_IPP
#define CAUSEWAY_PLAN_IMPL_RECOVERY_MORPH_IPP

#include <causeway/plan/recovery_morph.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL varuna_calibration calibration_of(const recovery_job& job) {
  varuna_calibration c{
      {job.micro_batch}, {}, job.boundary_bytes / static_cast<double>(job.micro_batch), job.link, job.link};
  const std::size_t blocks = job.model.blocks.size();
  for (std::size_t b = 0; b < blocks; ++b) {
    block_cost cost = job.model.blocks[b];
    if (b == 0) cost += job.model.embedding;
    if (b + 1 == blocks) cost += job.model.head;
    const double forward = cost.seconds * job.forward_share;
    c.points.push_back({{forward}, {cost.seconds - forward}, cost.parameters * job.gradient_bytes, cost.memory, 0});
  }
  return c;
}

CAUSEWAY_DECL morph_recovery::morph_recovery(const recovery_job& job, double device_memory)
    : job_{&job}, calibration_{calibration_of(job)} {
  options_.global_batch = job.micro_batches * job.micro_batch;
  options_.device_memory = device_memory;
}

CAUSEWAY_DECL recovery_action morph_recovery::changed(std::span<const std::uint32_t> lost,
                                                      std::span<const std::uint32_t> come) {
  const std::size_t broken = detail::take_out(active_, lost);
  detail::take_out(spare_, lost);
  spare_.insert(spare_.end(), come.begin(), come.end());
  const choice next = best(active_.size() + spare_.size());
  if (broken == 0 && next.stages == now_.stages && next.replicas == now_.replicas) return {};
  now_ = next;
  spare_.insert(spare_.begin(), active_.begin(), active_.end());
  const auto used = spare_.begin() + static_cast<std::ptrdiff_t>(next.stages * next.replicas);
  active_.assign(spare_.begin(), used);
  spare_.erase(spare_.begin(), used);
  return {(broken > 0 ? job_->detection : 0) + job_->restart + next.bytes / job_->read_bytes_per_second,
          step_fate::from_checkpoint};
}

CAUSEWAY_DECL auto morph_recovery::best(std::size_t peers) -> choice {
  const auto [known, fresh] = known_.try_emplace(peers);
  if (!fresh || peers == 0) return known->second;
  options_.devices = peers;
  const auto plan = plan_varuna(calibration_, options_);
  if (!plan) return known->second;  // too few
  choice& c = known->second;
  c = {plan->stages(), plan->replicas, plan->seconds(), 0};
  for (std::size_t s = 0; s < plan->stages(); ++s) {
    const block_cost stage = cost_of_stage(job_->model, plan->split.first_block[s], plan->split.end(s));
    c.bytes = std::max(c.bytes, stage.memory);
  }
  return c;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_RECOVERY_MORPH_IPP
