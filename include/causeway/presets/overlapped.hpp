// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PRESETS_OVERLAPPED_HPP
#define CAUSEWAY_PRESETS_OVERLAPPED_HPP

// Published systems that train on while an exchange is under way, as compositions; see presets/local_updates.hpp.

#include <causeway/axis/by_change.hpp>
#include <causeway/axis/every.hpp>
#include <causeway/axis/exchange.hpp>
#include <causeway/axis/fragments.hpp>
#include <causeway/axis/merge_rule.hpp>
#include <causeway/axis/outer.hpp>
#include <causeway/comm/rounds.hpp>
#include <causeway/compress/e3m0.hpp>
#include <causeway/optim/nesterov.hpp>

#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace presets {

/// Streaming DiLoCo (Douillard et al. 2025): fragments of three strided blocks one after another, 4-bit rows that are
/// summed in f32 by every receiver, blended in τ steps later.
///
/// Formula:
///   fragment p, every H steps, at a time of its own:  Δ_i = x̄ − x_i;  Δ = mean of E3M0(Δ_i)
///   v ← μ·v + Δ;  x̄ ← x̄ − η·(Δ + μ·v);  τ steps later: x_i ← α·x_i + (1 − α)·x̄
/// Sent: 4-bit rows of one fragment to everybody; fragments one after another, while training goes on.
struct streaming_diloco_options {
  std::uint32_t local_steps = 100;
  std::uint32_t blocks_in_fragment = 3;
  std::uint32_t overlap_steps = 1;  ///< τ
  float local_share = 0.5F;         ///< α
  float outer_learning_rate = 0.4F;
  float outer_momentum = 0.9F;
};
using streaming_diloco = comm::rounds<axis::staggered, axis::strided, axis::gather_mean<compress::e3m0>, axis::delayed,
                                      axis::outer<optim::nesterov>>;
CAUSEWAY_DECL [[nodiscard]] streaming_diloco make(const streaming_diloco_options& o);

/// Eager updates for DiLoCo (Kale et al. 2025): the exchange has a whole round; a peer's own part of the outer gradient is
/// fresh, the others' is one round old. Where rounds are short and move far, that and a momentum of 0.9 swing: use less.
///
/// Formula:
///   round t: Δ = (1/n)·Δ_i(t) + (1/n)·Σ over others of Δ_j(t − 1)
///   v ← μ·v + Δ;  x̄ ← x̄ − η·(Δ + μ·v);  x_i ← x̄
/// Sent: Δ_i in f32, to owners of parts and back, over the whole next round.
struct eager_diloco_options {
  std::uint32_t local_steps = 500;
  float outer_learning_rate = 0.7F;
  float outer_momentum = 0.9F;
};
using eager_diloco = comm::rounds<axis::every, axis::eager, axis::split_mean<>, axis::outer<optim::nesterov>>;
CAUSEWAY_DECL [[nodiscard]] eager_diloco make(const eager_diloco_options& o);

/// CoCoDC (Zhu et al. 2025): Streaming DiLoCo with delay compensation of the steps that were taken meanwhile, and fragments
/// that take turns by how much they change. How many exchanges the link carries is measured before:
/// axis::by_change::exchanges_for. The compensation is that of the authors' code (github.com/isaacveg/crosstrain, 05b30e6),
/// whose scripts have these numbers and 8 exchanges of 4 fragments.
///
/// Formula:
///   fragment p:  Δ = mean of (x̄ − x_i);  v ← μ·v + Δ;  x̄ ← x̄ − η·(Δ + μ·v)
///   τ steps later: g = (x_i at the send) − x_i;  D = x̄ − (x_i at the send);  λ = λ0·|g| / |g⊙g⊙D|
///   x_i ← x̄ − (g + λ·g⊙g⊙D);  next fragment: the one with the largest |Δ| / |x̄| a step
/// Sent: one fragment in f32, to owners of parts and back, every H/N steps, while training goes on.
struct cocodc_options {
  std::uint32_t local_steps = 100;
  std::uint32_t exchanges = 0;  ///< in so many steps; 0: as many as there are fragments
  std::uint32_t blocks_in_fragment = 3;
  std::uint32_t overlap_steps = 5;  ///< τ
  float lambda = 1.0F;              ///< λ0: length of the correction, of that of the steps
  float outer_learning_rate = 0.4F;
  float outer_momentum = 0.9F;
};
using cocodc =
    comm::rounds<axis::by_change, axis::strided, axis::split_mean<>, axis::compensated, axis::outer<optim::nesterov>>;
CAUSEWAY_DECL [[nodiscard]] cocodc make(const cocodc_options& o);

}}}  // namespace causeway::CAUSEWAY_ABI::presets

#ifndef CAUSEWAY_COMPILED
#include <causeway/presets/impl/overlapped.ipp>
#endif

#endif  // CAUSEWAY_PRESETS_OVERLAPPED_HPP
