// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_SUBSPACE_PIECES_HPP
#define CAUSEWAY_STAGE_SUBSPACE_PIECES_HPP

// A model whose blocks write into the residual stream along a subspace only (Protocol Models: Ramasinghe et al., 2025):
// which parameters of nn::gpt and nn::llama that concerns, and how they start. Embedding tables start free, for tokens must
// differ in more than `rank` directions; training moves them along the subspace, and what lies outside is known to all
// stages.

#include <causeway/config/config.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/stage/subspace_adamw.hpp>
#include <causeway/stage/subspace_basis.hpp>
#include <causeway/tensor/parameters.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::stage {

/// The parameters that write into the residual stream: attention's output projection and the second matrix of the
/// feed-forward part, with their biases, and the tables of tokens and positions.
[[nodiscard]] inline std::vector<confined_pieces> residual_writers() {
  return {{"attn.c_proj.weight", confined::columns},      {"attn.c_proj.bias", confined::rows},
          {"mlp.c_proj.weight", confined::columns},       {"mlp.c_proj.bias", confined::rows},
          {"wte.weight", confined::row_changes},          {"wpe.weight", confined::row_changes},
          {"self_attn.o_proj.weight", confined::columns}, {"mlp.down_proj.weight", confined::columns},
          {"embed_tokens.weight", confined::row_changes}};
}

/// Puts the confined pieces of `parameters` into the subspace; tables stay as they are. Before training, on every peer.
inline void confine(thread_pool& pool, parameter_store& parameters, const subspace_basis& basis,
                    std::span<const confined_pieces> pieces) {
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

}  // namespace causeway::inline CAUSEWAY_ABI::stage

#endif  // CAUSEWAY_STAGE_SUBSPACE_PIECES_HPP
