// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_IMPL_SUBSPACE_PIECES_IPP
#define CAUSEWAY_STAGE_IMPL_SUBSPACE_PIECES_IPP

#include <causeway/stage/subspace_pieces.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage {

CAUSEWAY_DECL std::vector<confined_pieces> residual_writers() {
  return {{"attn.c_proj.weight", confined::columns},      {"attn.c_proj.bias", confined::rows},
          {"mlp.c_proj.weight", confined::columns},       {"mlp.c_proj.bias", confined::rows},
          {"wte.weight", confined::row_changes},          {"wpe.weight", confined::row_changes},
          {"self_attn.o_proj.weight", confined::columns}, {"mlp.down_proj.weight", confined::columns},
          {"embed_tokens.weight", confined::row_changes}};
}

CAUSEWAY_DECL void confine(thread_pool& pool, parameter_store& parameters, const subspace_basis& basis,
                           const std::vector<confined_pieces>& pieces) {
  for (std::size_t s = 0; s < parameters.segments().size(); ++s) {
    const parameter_segment& segment = parameters.segments()[s];
    const std::span<float> values{parameters.value(s), static_cast<std::size_t>(segment.size())};
    for (const confined_pieces& piece : pieces) {
      if (!segment.name.ends_with(piece.suffix)) continue;
      if (piece.what == confined::columns) basis.project_columns(pool, values);
      if (piece.what == confined::rows) basis.project_rows(pool, values);
      break;
    }
  }
  parameters.touch();
}

}}}  // namespace causeway::CAUSEWAY_ABI::stage

#endif  // CAUSEWAY_STAGE_IMPL_SUBSPACE_PIECES_IPP
