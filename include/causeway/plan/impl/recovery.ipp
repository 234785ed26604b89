// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_RECOVERY_IPP
#define CAUSEWAY_PLAN_IMPL_RECOVERY_IPP

#include <causeway/plan/recovery.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL double recovery_job::sample_seconds() const {
  return cost_of_stage(model, 0, model.blocks.size()).seconds / static_cast<double>(micro_batch);
}

CAUSEWAY_DECL result<cut_job> cut_job::make(const recovery_job& job, std::size_t stages) {
  const std::vector<stage_device> devices(stages);
  CAUSEWAY_ASSIGN(const stage_split split, split_by_time(job.model, devices));
  cut_job cut;
  cut.job_ = &job;
  for (std::size_t s = 0; s < stages; ++s) {
    const block_cost cost = cost_of_stage(job.model, split.first_block[s], split.end(s));
    const double forward = cost.seconds * job.forward_share, half = (cost.seconds - forward) / 2;
    cut.costs_.stages.push_back({forward, half, half, forward});
    cut.state_ = std::max(cut.state_, cost.memory);
    cut.parameters_ = std::max(cut.parameters_, cost.parameters);
  }
  const edge_cost edge{job.link.delay, job.boundary_bytes, job.boundary_bytes, job.link.bandwidth / 8};
  cut.costs_.edges.assign(stages - 1, edge);
  return cut;
}

CAUSEWAY_DECL double cut_job::average_seconds(std::size_t replicas) const {
  const auto d = static_cast<double>(replicas);
  return replicas < 2 ? 0 : 2 * (d - 1) * job_->link.seconds(parameters_ * job_->gradient_bytes / d);
}

CAUSEWAY_DECL double cut_job::step_seconds(std::size_t replicas) const {
  if (replicas == 0) return no_step;
  const std::size_t m = share(replicas);
  return seconds_of({costs_, straight_routes(stages(), m), static_cast<std::uint32_t>(m)}) + average_seconds(replicas);
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

CAUSEWAY_DECL std::size_t take_out(std::vector<std::uint32_t>& from, std::span<const std::uint32_t> gone) {
  return std::erase_if(from, [&](std::uint32_t id) { return std::binary_search(gone.begin(), gone.end(), id); });
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

#endif  // CAUSEWAY_PLAN_IMPL_RECOVERY_IPP
