// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_LIVEPUT_IPP
#define CAUSEWAY_PLAN_IMPL_LIVEPUT_IPP

#include <causeway/plan/liveput.hpp>

#include <numeric>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

CAUSEWAY_DECL preemption_draws::preemption_draws(const pipeline_shape& shape, std::size_t available, std::size_t lost,
                                                 const liveput_options& o)
    : shape_{shape} {
  std::vector<std::size_t> all(available);
  std::iota(all.begin(), all.end(), std::size_t{0});
  rng draw{o.seed, mix(shape.replicas, shape.stages, available * 4096 + lost)};
  for (std::size_t i = 0; i < std::max<std::size_t>(1, o.samples); ++i) {
    std::vector<std::size_t> alive(shape.stages, shape.replicas);
    for (std::size_t k = 0; k < std::min(lost, available); ++k) {
      std::swap(all[k], all[k + draw.below(available - k)]);
      if (all[k] < shape.instances()) --alive[all[k] % shape.stages];
    }
    draws_.push_back(std::move(alive));
  }
}

CAUSEWAY_DECL double preemption_draws::migration(const pipeline_shape& next, const migration_costs& costs) const {
  if (next.instances() == 0) return 0;
  if (next.stages != shape_.stages) return costs.pipeline;
  return mean([&](const std::vector<std::size_t>& alive) {
    const std::size_t fewest = *std::min_element(alive.begin(), alive.end());
    const std::size_t most = *std::max_element(alive.begin(), alive.end());
    if (next.replicas > fewest) return costs.inter_stage;
    return fewest == shape_.replicas && most == shape_.replicas ? 0.0 : costs.intra_stage;
  });
}

CAUSEWAY_DECL double preemption_draws::lost_share() const {
  if (shape_.instances() == 0) return 0;
  return mean(
      [](const std::vector<std::size_t>& alive) { return *std::min_element(alive.begin(), alive.end()) == 0 ? 1.0 : 0.0; });
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL double expected_migration(const pipeline_shape& now, std::size_t before, const pipeline_shape& next,
                                        std::size_t after, const migration_costs& costs, const liveput_options& options) {
  if (now.instances() == 0) return next.instances() == 0 ? 0 : costs.pipeline;
  return detail::preemption_draws{now, before, before > after ? before - after : 0, options}.migration(next, costs);
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_LIVEPUT_IPP
