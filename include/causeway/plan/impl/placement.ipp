// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_PLACEMENT_IPP
#define CAUSEWAY_PLAN_IMPL_PLACEMENT_IPP

#include <causeway/plan/placement.hpp>

#include <algorithm>
#include <numeric>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

CAUSEWAY_DECL double exchange_seconds(const link_matrix& links, std::size_t a, std::size_t b, const pipeline_task& task) {
  return 2 * links.mean_seconds(a, b, task.stage_bytes / static_cast<double>(task.replicas));
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL std::size_t placement::device(std::size_t stage, std::size_t replica) const {
  CAUSEWAY_EXPECT(replica < replicas && stage < stages());
  return devices[stage * replicas + replica];
}

CAUSEWAY_DECL std::span<const std::size_t> placement::group(std::size_t stage) const {
  CAUSEWAY_EXPECT(stage < stages());
  return std::span{devices}.subspan(stage * replicas, replicas);
}

CAUSEWAY_DECL double data_parallel_seconds(const link_matrix& links, std::span<const std::size_t> group,
                                           const pipeline_task& task) {
  double slowest = 0;
  for (const std::size_t d : group) {
    double sum = 0;
    for (const std::size_t other : group) {
      if (other != d) sum += detail::exchange_seconds(links, d, other, task);
    }
    slowest = std::max(slowest, sum);
  }
  return slowest;
}

CAUSEWAY_DECL placement_cost cost_of(const link_matrix& links, const placement& where, const pipeline_task& task) {
  CAUSEWAY_EXPECT(where.replicas == task.replicas && where.stages() == task.stages);
  placement_cost cost;
  for (std::size_t s = 0; s < task.stages; ++s) {
    cost.data_parallel = std::max(cost.data_parallel, data_parallel_seconds(links, where.group(s), task));
    double hop = 0;
    for (std::size_t r = 0; s + 1 < task.stages && r < task.replicas; ++r) {
      hop = std::max(hop, links.mean_seconds(where.device(s, r), where.device(s + 1, r), task.activation_bytes));
    }
    cost.pipeline += hop;
  }
  return cost;
}

CAUSEWAY_DECL placement placed_by_stage(const pipeline_task& task) {
  placement p{task.replicas, std::vector<std::size_t>(task.replicas * task.stages)};
  std::iota(p.devices.begin(), p.devices.end(), std::size_t{0});
  return p;
}

CAUSEWAY_DECL placement placed_by_replica(const pipeline_task& task) {
  placement p = placed_by_stage(task);
  for (std::size_t s = 0; s < task.stages; ++s) {
    for (std::size_t r = 0; r < task.replicas; ++r) p.devices[s * task.replicas + r] = r * task.stages + s;
  }
  return p;
}

CAUSEWAY_DECL placement placed_at_random(const pipeline_task& task, std::size_t devices, rng& draw) {
  CAUSEWAY_EXPECT(devices >= task.replicas * task.stages);
  std::vector<std::size_t> all(devices);
  std::iota(all.begin(), all.end(), std::size_t{0});
  shuffle(all, draw);
  all.resize(task.replicas * task.stages);
  return {task.replicas, std::move(all)};
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_PLACEMENT_IPP
