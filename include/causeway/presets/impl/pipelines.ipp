// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PRESETS_IMPL_PIPELINES_IPP
#define CAUSEWAY_PRESETS_IMPL_PIPELINES_IPP

#include <causeway/presets/pipelines.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace presets { namespace detail {

CAUSEWAY_DECL std::vector<std::vector<net::peer_index>> rows_of(const plan::placement& where) {
  std::vector<std::vector<net::peer_index>> rows(where.replicas);
  for (std::size_t replica = 0; replica < where.replicas; ++replica) {
    for (std::size_t rank = 0; rank < where.stages(); ++rank) {
      rows[replica].push_back(static_cast<net::peer_index>(where.device(rank, replica)));
    }
  }
  return rows;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::presets::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace presets {

CAUSEWAY_DECL varuna make(const varuna_options& o) {
  return varuna{{.micro_batches = o.micro_batches, .ranks = o.ranks}, stage::varuna{o.costs, o.stored_inputs}};
}

CAUSEWAY_DECL dtfm make(const dtfm_options& o) {
  return dtfm{{.micro_batches = o.micro_batches, .ranks = o.ranks, .placement = detail::rows_of(o.where)}};
}

CAUSEWAY_DECL aq_sgd_pipeline make(const aq_sgd_pipeline_options& o) {
  return aq_sgd_pipeline{{.micro_batches = o.micro_batches, .ranks = o.ranks},
                         {},
                         stage::delta<4, 8, compress::fp16>{{.memory_limit = o.memory_limit}}};
}

CAUSEWAY_DECL crosspipe make(const crosspipe_options& o) {
  return crosspipe{{.micro_batches = o.micro_batches, .ranks = o.ranks}, stage::crosspipe{o.costs, o.activations}};
}

CAUSEWAY_DECL fusion_llm make(const fusion_llm_options& o) {
  return fusion_llm{{.micro_batches = o.micro_batches, .ranks = o.ranks, .cuts = o.cuts},
                    {},
                    stage::adaptive_top_k<>{{.ratio = o.ratio, .speeds = o.speeds}}};
}

CAUSEWAY_DECL nag_pp make(const nag_pp_options& o) {
  return nag_pp{{.cut = {.micro_batches = o.micro_batches, .ranks = o.ranks}, .stashing = o.stashing, .ahead = o.ahead}};
}

CAUSEWAY_DECL basis_rotation make(const basis_rotation_options& o) {
  return basis_rotation{
      {.cut = {.micro_batches = o.micro_batches, .ranks = o.ranks}, .stashing = o.stashing, .ahead = o.ahead}};
}

}}}  // namespace causeway::CAUSEWAY_ABI::presets

#endif  // CAUSEWAY_PRESETS_IMPL_PIPELINES_IPP
