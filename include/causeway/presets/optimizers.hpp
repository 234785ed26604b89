// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PRESETS_OPTIMIZERS_HPP
#define CAUSEWAY_PRESETS_OPTIMIZERS_HPP

// Published systems that are an inner optimizer: give it to the trainer beside a policy that leaves parameters alone
// between steps, `make_trainer(model, env, o, presets::every_step{}, presets::make(presets::snoo_options{}))`.

#include <causeway/comm/every_step.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/optim/dion.hpp>
#include <causeway/optim/snoo.hpp>

#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace presets {

/// SNOO (Kallusky et al. 2025): DiLoCo's outer Nesterov step without other workers, after every K steps of AdamW. Around
/// another optimizer: optim::snoo. The paper's own numbers were not at hand: rate and momentum are DiLoCo's, K is chosen.
struct snoo_options {
  std::uint32_t local_steps = 50;  ///< K
  float outer_learning_rate = 0.7F;
  float outer_momentum = 0.9F;
};
using snoo = optim::snoo<optim::adamw>;
CAUSEWAY_DECL_WHERE_CALLED [[nodiscard]] snoo make(const snoo_options& o);

/// Dion (Ahn, Xu et al. 2025, algorithm 1): momentum with an orthonormal update of low rank for hidden matrices, and what
/// it leaves out kept; AdamW for the rest. With gradients that travel whole: that only factors do, which leaves the same
/// parameters, is not here. The rank is its authors' default; their papers' runs take a quarter of the width and more.
struct dion_options {
  std::uint32_t rank = 768;    ///< at most
  float momentum = 0.95F;      ///< μ
  float weight_decay = 0.01F;  ///< of matrices
  float adamw_rate = 0.1F;     ///< AdamW's learning rate as a part of Dion's
};
using dion = optim::dion;
CAUSEWAY_DECL_WHERE_CALLED [[nodiscard]] dion make(const dion_options& o);

}}}  // namespace causeway::CAUSEWAY_ABI::presets

#ifndef CAUSEWAY_COMPILED
#include <causeway/presets/impl/optimizers.ipp>
#endif

#endif  // CAUSEWAY_PRESETS_OPTIMIZERS_HPP
