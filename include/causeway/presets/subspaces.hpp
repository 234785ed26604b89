// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PRESETS_SUBSPACES_HPP
#define CAUSEWAY_PRESETS_SUBSPACES_HPP

// Protocol Models: a pipeline of a model that is made for its links. Pipeline and inner optimizer must know the same
// subspace, and the parameters must start in it; both come from the same options here.

#include <causeway/core/result.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/parallel/pipeline.hpp>
#include <causeway/stage/schedules.hpp>
#include <causeway/stage/subspace.hpp>
#include <causeway/stage/subspace_adamw.hpp>
#include <causeway/stage/subspace_basis.hpp>
#include <causeway/stage/subspace_pieces.hpp>

#include <cstdint>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace presets {

/// Protocol Models (Ramasinghe et al. 2025): blocks write into the residual stream along `rank` directions only, which all
/// stages know, so that `rank` numbers for each token cross a boundary in place of `width`, both ways, and nothing is lost
/// of the model that is trained. That model is a smaller one than without the limit: see the benchmark. The order of
/// micro-batches and the first directions are our choice. Directions stay as they are, as in the authors' programs; the
/// paper also turns them now and then, by a rule that no public text has whole (docs/reference/not_here.md). The same codec
/// and optimizer go with stages whose peers come and go (rule P6).
///
/// Formula:
///   U: width × rank, orthonormal, the same on all peers;  weights W that write into the residual stream: W = W·U·Uᵀ
///   boundary: z = (x − e)·U;  x = e + z·Uᵀ;  backward: g·U;  e: what the embedding has outside of U, from the tokens
/// Sent: rank f32 numbers for each token over each boundary, both ways.
struct protocol_models_options {
  std::int64_t micro_batches = 8;
  std::uint32_t ranks = 0;
  std::int64_t rank = 64;  ///< directions of the residual stream; the paper goes down to a hundredth of its width
  std::uint64_t seed = 0;  ///< of the directions: the same on all peers
};
using protocol_models = parallel::pipeline<stage::gpipe, stage::subspace<>>;
CAUSEWAY_DECL [[nodiscard]] protocol_models make(const protocol_models_options& o);

/// Puts the parameters of an nn::gpt or nn::llama, or of a part of one, into the subspace, also those of parts that it
/// holds later, and gives the inner optimizer that keeps them there. Before training; not for a checkpoint that is resumed,
/// whose parameters are in it.
[[nodiscard]] result<stage::subspace_adamw> confined_adamw(const protocol_models_options& o, auto& model,
                                                           const optim::adamw_options& adamw = {}) {
  CAUSEWAY_ASSIGN(stage::subspace_basis basis, stage::subspace_basis::random(o.seed, model.width(), o.rank));
  auto pieces = stage::residual_writers();
  model.adjust_initial(
      [basis, pieces](thread_pool& pool, parameter_store& all) { stage::confine(pool, all, basis, pieces); });
  return stage::subspace_adamw{std::move(basis), std::move(pieces), adamw};
}

}}}  // namespace causeway::CAUSEWAY_ABI::presets

#ifndef CAUSEWAY_COMPILED
#include <causeway/presets/impl/subspaces.ipp>
#endif

#endif  // CAUSEWAY_PRESETS_SUBSPACES_HPP
