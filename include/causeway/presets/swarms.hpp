// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PRESETS_SWARMS_HPP
#define CAUSEWAY_PRESETS_SWARMS_HPP

// Published systems whose stages are served by peers that come and go, as compositions of a router and an activation codec.
// Each is the parallelism of a trainer with fault::quorum and comm::every_step, or, where it says so, what `rounds_of`
// gives; its peer() says when the peer is called away (member_options::called_away).

#include <causeway/comm/periodic.hpp>
#include <causeway/compress/dynamic_int8.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/optim/nesterov.hpp>
#include <causeway/parallel/swarm.hpp>
#include <causeway/parallel/swarm/swarm_options.hpp>
#include <causeway/stage/activation.hpp>
#include <causeway/stage/routing.hpp>
#include <causeway/stage/routing_by_chance.hpp>
#include <causeway/stage/routing_flow.hpp>
#include <causeway/stage/routing_planned.hpp>
#include <causeway/train/swarm_executors.hpp>

#include <cstdint>
#include <memory>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace presets {

/// SWARM (Ryabinin et al., ICML 2023): every micro-batch goes to the peer of a stage with the least accumulated expected
/// time, idle peers move to the starved stage, and boundaries are crossed in dynamic 8 bits by blocks. Its trainers relay
/// the tensors and its updates are delayed by a step; here tensors go straight from stage to stage, and no update is late.
///
/// Formula:
///   peer of the next stage: argmin of accumulated expected seconds;  g = Σ over all micro-batches / B
///   activations and gradients at boundaries: dynamic 8 bits, by blocks of 4096;  x ← optimizer(x, g)
/// Sent: 8-bit activations and gradients to the chosen peer; gradients in f32 among the peers of a stage, in every step.
struct swarm_options {
  std::shared_ptr<net::fabric> fabric{};                                ///< of the swarm; another one than the membership's
  parallel::swarm_options peer{};                                       ///< stage, stages, micro-batches, addresses, times
  std::uint64_t seed = 1;                                               ///< of ties
  stage::routing::entry newcomers = stage::routing::entry::at_minimum;  ///< their accumulated time when they come
  log_sink log{};
};
using swarm = parallel::swarm<stage::coded<compress::dynamic_int8>>;
CAUSEWAY_DECL [[nodiscard]] swarm make(const swarm_options& o);

/// DiLoCo-SWARM: SWARM's stages and wiring, but the peers of a stage take H steps of AdamW on what passed through them and
/// then an outer step of Nesterov on the mean of what they moved (DiLoCo, arXiv 2311.08105, with its 0.7 and 0.9), instead
/// of summing gradients in every step: 1/H of the bytes between them. Which steps go together, and what becomes of a lost
/// peer's, is derived here (docs/design/swarm.md). H is less than DiLoCo's 500: what a lost peer had counts as one step.
///
/// Formula:
///   each peer of a stage: H steps of AdamW on what passed through it;  Δ = mean of (x̄ − x_i) of the stage
///   v ← μ·v + Δ;  x̄ ← x̄ − η·(Δ + μ·v);  x_i ← x̄
/// Sent: 8-bit activations and gradients to the chosen peer in every step; Δ_i in f32 among the peers of a stage after
/// every H-th.
struct diloco_swarm_options {
  std::shared_ptr<net::fabric> fabric{};                                ///< of the swarm; another one than the membership's
  parallel::swarm_options peer{};                                       ///< stage, stages, micro-batches, addresses, times
  std::uint32_t local_steps = 50;                                       ///< H; equal on all peers
  float outer_learning_rate = 0.7F;                                     ///< of the step after each round
  float momentum = 0.9F;                                                ///< Nesterov's, of the outer step
  std::uint64_t seed = 1;                                               ///< of ties
  stage::routing::entry newcomers = stage::routing::entry::at_minimum;  ///< their accumulated time when they come
  log_sink log{};
};
using diloco_swarm = parallel::swarm<stage::coded<compress::dynamic_int8>>;
CAUSEWAY_DECL [[nodiscard]] diloco_swarm make(const diloco_swarm_options& o);
/// The trainer's communication policy.
CAUSEWAY_DECL [[nodiscard]] comm::periodic<> rounds_of(const diloco_swarm_options& o);

/// GWTF (Go With The Flow: Blagoev et al. 2025): paths of a whole step at once, so that peers carry what they can in its
/// time and the sum of computation and measured link delays is least. The paper's peers find a flow among themselves, by
/// local exchanges; here the coordinator, which knows all of them, computes the least sum, or, with `by_peers`, what they
/// would find: plan/flow_search.hpp has their protocol as the first author's earlier program has it.
///
/// Formula:
///   paths of all micro-batches: least Σ of ((c_i + c_j)/2 + delay_ij), each peer within its capacity;
///   g = Σ over all micro-batches / B
/// Sent: activations and gradients in f32 along the paths; gradients among the peers of a stage, in every step.
struct gwtf_options {
  std::shared_ptr<net::fabric> fabric{};  ///< of the swarm; another one than the membership's
  parallel::swarm_options peer{};         ///< stage, stages, micro-batches, addresses, times
  bool by_peers = false;                  ///< the paths that peers find among themselves, which cost some per cent more
  std::uint64_t seed = 1;                 ///< of what they draw for that
  log_sink log{};
};
using gwtf = parallel::swarm<stage::plain>;
CAUSEWAY_DECL [[nodiscard]] gwtf make(const gwtf_options& o);

/// SkipPipe (Blagoev et al. 2025): micro-batches pass some of the stages, on paths that are planned from measured times so
/// that stages and peers have even work and no two groups are at a peer at a time (`plan::plan_skips`, `causeway plan
/// --skip`). For models of residual blocks. The paper may also swap stages, and computes the loss where a micro-batch
/// began; here paths keep to the order of the stages, and the last stage has the loss.
///
/// Formula:
///   path of micro-batch m: paths[m mod n], which leaves out some of the middle stages;
///   g of a stage = Σ over the micro-batches that pass it / B
/// Sent: activations and gradients in f32 along the paths, nothing to stages that are left out; gradients among the peers
/// of a stage, in every step.
struct skippipe_options {
  std::shared_ptr<net::fabric> fabric{};                                ///< of the swarm; another one than the membership's
  parallel::swarm_options peer{};                                       ///< stage, stages, micro-batches, addresses, times
  stage::routing::planned_options plan{};                               ///< the paths; equal on all peers
  std::uint64_t seed = 1;                                               ///< of ties where a planned peer is not there
  stage::routing::entry newcomers = stage::routing::entry::at_minimum;  ///< their accumulated time when they come
  log_sink log{};
};
using skippipe = parallel::swarm<stage::plain>;
CAUSEWAY_DECL [[nodiscard]] skippipe make(const skippipe_options& o);

}}}  // namespace causeway::CAUSEWAY_ABI::presets

#ifndef CAUSEWAY_COMPILED
#include <causeway/presets/impl/swarms.ipp>
#endif

#endif  // CAUSEWAY_PRESETS_SWARMS_HPP
