// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_IMPL_RECOVERY_TEMPLATES_IPP
#define CAUSEWAY_STAGE_IMPL_RECOVERY_TEMPLATES_IPP

#include <causeway/stage/recovery_templates.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage { namespace recovery {

CAUSEWAY_DECL templates::templates(templates_options options) : options_{std::move(options)} {}

CAUSEWAY_DECL result<layout> templates::arrange(const cluster_snapshot& g) {
  if (!set_) {
    plan::model_cost model = options_.model;
    if (model.blocks.empty()) model.blocks.assign(static_cast<std::size_t>(g.layers), plan::block_cost{1, 1, 1, 0});
    if (model.blocks.size() != static_cast<std::size_t>(g.layers) || options_.kind.accelerators != 1) {
      return fail(errc::invalid_argument, "templates",
                  "they need the cost of every block of the model, and one accelerator in a peer");
    }
    CAUSEWAY_ASSIGN(set_,
                    plan::make_templates(model, options_.kind, options_.most_peers, options_.failures, g.micro_batches));
  }
  const std::size_t peers = std::min(g.peers.size(), options_.most_peers);
  CAUSEWAY_ASSIGN(const plan::template_choice choice, plan::choose_templates(*set_, peers, g.micro_batches));
  std::vector<std::vector<nn::block_range>> rows;
  std::vector<std::uint32_t> shares;
  for (std::size_t i = 0; i < choice.sizes.size(); ++i) {
    std::vector<nn::block_range>& row = rows.emplace_back();
    for (const plan::template_stage& s : set_->of(choice.sizes[i]).stages) {
      row.push_back({static_cast<std::int64_t>(s.first_block), static_cast<std::int64_t>(s.end)});
    }
    shares.push_back(static_cast<std::uint32_t>(choice.micro_batches[i]));
  }
  return assign_peers(rows, shares, g);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::stage::recovery

#endif  // CAUSEWAY_STAGE_IMPL_RECOVERY_TEMPLATES_IPP
