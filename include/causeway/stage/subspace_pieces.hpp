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
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage {

/// The parameters that write into the residual stream: attention's output projection and the second matrix of the
/// feed-forward part, with their biases, and the tables of tokens and positions.
CAUSEWAY_DECL [[nodiscard]] std::vector<confined_pieces> residual_writers();

/// Puts the confined pieces of `parameters` into the subspace; tables stay as they are. Before training, on every peer.
CAUSEWAY_DECL void confine(thread_pool& pool, parameter_store& parameters, const subspace_basis& basis,
                           const std::vector<confined_pieces>& pieces);

}}}  // namespace causeway::CAUSEWAY_ABI::stage

#ifndef CAUSEWAY_COMPILED
#include <causeway/stage/impl/subspace_pieces.ipp>
#endif

#endif  // CAUSEWAY_STAGE_SUBSPACE_PIECES_HPP
