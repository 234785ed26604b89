// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PRESETS_OPTIMIZERS_HPP
#define CAUSEWAY_PRESETS_OPTIMIZERS_HPP

// Published systems that are an inner optimizer: give it to the trainer beside a policy that leaves parameters alone
// between steps, `make_trainer(model, env, o, presets::every_step{}, presets::make(presets::snoo_options{}))`.

#include <causeway/comm/every_step.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/optim/snoo.hpp>

#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace presets {

/// SNOO (Kallusky et al. 2025): DiLoCo's outer Nesterov step without other workers, after every K steps of AdamW. Around
/// another optimizer: optim::snoo. The paper's own numbers were not at hand: rate and momentum are DiLoCo's, K is chosen.
///
/// Formula:
///   x̃: K steps of AdamW from x;  s = x − x̃;  b ← μ·b + s;  x ← x − η·(s + μ·b)
/// Sent: nothing by itself: peers that step alike move alike.
struct snoo_options {
  std::uint32_t local_steps = 50;  ///< K
  float outer_learning_rate = 0.7F;
  float outer_momentum = 0.9F;
};
using snoo = optim::snoo<optim::adamw>;
CAUSEWAY_DECL [[nodiscard]] snoo make(const snoo_options& o);

}}}  // namespace causeway::CAUSEWAY_ABI::presets

#ifndef CAUSEWAY_COMPILED
#include <causeway/presets/impl/optimizers.ipp>
#endif

#endif  // CAUSEWAY_PRESETS_OPTIMIZERS_HPP
