// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_IMPL_RECOVERY_MORPH_IPP
#define CAUSEWAY_STAGE_IMPL_RECOVERY_MORPH_IPP

#include <causeway/stage/recovery_morph.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage { namespace recovery {

CAUSEWAY_DECL morph::morph(morph_options options) : options_{std::move(options)} {}

CAUSEWAY_DECL result<layout> morph::arrange(const cluster_snapshot& g) {
  plan::varuna_calibration calibration = options_.calibration;
  if (calibration.points.empty()) {
    calibration.sizes = {1};
    calibration.points.assign(static_cast<std::size_t>(g.layers), {{1}, {2}, 0, 1, 0});
  }
  if (calibration.points.size() != static_cast<std::size_t>(g.layers) || calibration.sizes.size() != 1) {
    return fail(errc::invalid_argument, "morph",
                "its calibration needs one cut-point for every block of the model, for one size of micro-batches");
  }
  calibration.sizes = {1};  // counted in micro-batches
  const plan::varuna_options search{
      .devices = g.peers.size(), .global_batch = g.micro_batches, .device_memory = options_.device_memory};
  CAUSEWAY_ASSIGN(const plan::varuna_plan plan, plan::plan_varuna(calibration, search));
  std::vector<nn::block_range> row;
  for (std::size_t s = 0; s < plan.stages(); ++s) {
    row.push_back({static_cast<std::int64_t>(plan.split.first_block[s]), static_cast<std::int64_t>(plan.split.end(s))});
  }
  const std::size_t replicas = std::min<std::size_t>(plan.replicas, g.micro_batches);
  return assign_peers(std::vector(replicas, row), even_shares(g.micro_batches, replicas), g);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::stage::recovery

#endif  // CAUSEWAY_STAGE_IMPL_RECOVERY_MORPH_IPP
