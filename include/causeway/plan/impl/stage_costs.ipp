// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_STAGE_COSTS_IPP
#define CAUSEWAY_PLAN_IMPL_STAGE_COSTS_IPP

#include <causeway/plan/stage_costs.hpp>

#include <algorithm>
#include <cmath>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL stage_costs equal_costs(std::uint32_t virtual_stages, const stage_cost& stage, const edge_cost& edge) {
  CAUSEWAY_EXPECT(virtual_stages > 0);
  return {std::vector<stage_cost>(virtual_stages, stage), std::vector<edge_cost>(virtual_stages - 1, edge)};
}

CAUSEWAY_DECL double jitter::factor(std::uint32_t stage, const operation& op, bool message) const {
  if (sigma == 0) return 1;
  const std::uint64_t what = static_cast<std::uint64_t>(op.kind) * 2 + (message ? 1 : 0);
  rng draw{seed, mix(stage, op.micro_batch, what)};
  return std::exp(sigma * static_cast<double>(draw.normal()) - sigma * sigma / 2);
}

CAUSEWAY_DECL result<void> check(const stage_costs& costs, std::uint32_t virtual_stages) {
  if (costs.stages.size() != virtual_stages || costs.edges.size() + 1 != virtual_stages) {
    return fail(errc::invalid_argument, "costs",
                "are of " + std::to_string(costs.stages.size()) + " stages and " + std::to_string(costs.edges.size()) +
                    " edges, but the pipeline has " + std::to_string(virtual_stages) +
                    " virtual stages, and one edge less");
  }
  const auto good = [](double x) { return x >= 0 && x <= 1e18; };
  for (std::size_t v = 0; v < costs.stages.size(); ++v) {
    const stage_cost& c = costs.stages[v];
    if (!good(c.forward) || !good(c.input_gradient) || !good(c.weight_gradient) || !good(c.recompute))
      return fail(errc::non_finite, "costs of stage " + std::to_string(v), "must be seconds from 0 to 1e18");
  }
  for (std::size_t v = 0; v < costs.edges.size(); ++v) {
    const edge_cost& e = costs.edges[v];
    const bool moves = e.bytes_per_second > 0 && good(std::max(e.bytes_forward, e.bytes_backward) / e.bytes_per_second);
    if (!good(e.latency) || !good(e.bytes_forward) || !good(e.bytes_backward) || !moves) {
      return fail(errc::non_finite, "costs of edge " + std::to_string(v),
                  "must be from 0 to 1e18 seconds and bytes, with a bandwidth above 0 that carries them in that time");
    }
  }
  return {};
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_STAGE_COSTS_IPP
