// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_POLICY_CONCEPTS_HPP
#define CAUSEWAY_POLICY_CONCEPTS_HPP

// What a policy is: a movable value with a name, traits, all hooks of its kind, and `serialize` for its run state. No base
// class, nothing virtual, no optional hooks: a misspelt hook is an error, not silence.
//
// Two promises that no concept can check, and that the conformance suite does:
// - a hook that returns an error has left the policy and the parameters as they were, so that it can be called again;
// - a hook is a function of the context and the policy's state: equal inputs give equal bits.

#include <causeway/core/concepts.hpp>
#include <causeway/core/result.hpp>
#include <causeway/policy/archetype.hpp>
#include <causeway/policy/traits.hpp>

#include <concepts>
#include <cstdint>
#include <span>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI {

/// Run state that a checkpoint keeps. Options are not state: they come from the program.
template <class P>
concept Stateful = requires(P& p, archetype::archive& ar) {
  { P::state_version } -> ConvertibleTo<std::uint32_t>;
  p.serialize(ar);
};

template <class P, class Traits>
concept PolicyOf = Movable<P> && DefaultInitializable<P> && Stateful<P> && requires {
  { P::name } -> ConvertibleTo<std::string_view>;  // its section in checkpoints, its name in logs
  { P::traits } -> std::same_as<const Traits&>;    // also says which slot it belongs to
};

/// What a communication policy for a changing set of peers has besides. `shared`: its run state that all peers hold alike
/// after a committed round, as `serialize` does it, the shared parameters first; a peer that joins is given it. `adopt`:
/// the shared state was replaced by the committed one of a later round; `previous` is what the shared parameters were
/// before, so that local progress can be kept, or empty where it must not be. `catch_up`: take part in an exchange with
/// what there is, nothing for a peer that has just joined, and commit the round. Optional, `result<void> replay(ctx)`: the
/// gradients are what ctx.mean gave in a round; do to the shared state what that round did, bit for bit. With it a peer can
/// join where rounds are shorter than the transfer of the state.
template <class P, class Context = archetype::context>
concept ElasticPolicy = requires(P& p, Context& ctx, archetype::archive& ar, std::span<const float> previous) {
  p.shared(ar);
  p.adopt(ctx, previous);
  { p.catch_up(ctx) } -> std::same_as<result<void>>;
};

/// `start`: once, before the first step; parameters are equal on all peers. `before_inner_step`: gradients are ready.
/// `after_inner_step`: parameters have moved. `finish`: once, after the last step: bring the replicas together. Where
/// `looks_ahead`, `result<double> compute(ctx, pass)`: pass() makes the gradients and gives the loss; the parameters may be
/// others while it does, and are then as they were. It may be called again in the step; `bool looks_ahead()`: whether it is
/// needed.
template <class P, class Context = archetype::context>
concept CommunicationPolicy = PolicyOf<P, comm_traits> &&
    (P::traits.tolerates == peers::fixed || ElasticPolicy<P>)&&requires(P& p, Context& ctx) {
  { p.start(ctx) } -> std::same_as<result<void>>;
  { p.before_inner_step(ctx) } -> std::same_as<result<void>>;
  { p.after_inner_step(ctx) } -> std::same_as<result<void>>;
  { p.finish(ctx) } -> std::same_as<result<void>>;
};

/// `start`: once, before the communication policy's. `forward_backward`: adds the gradient of the mean loss over the batch;
/// gives that mean. Cuts the batch as it likes. `norm`: the gradient is exchanged; completes what peers share of it, and
/// gives the norm over the whole model, by which it is clipped. `after_step`: parameters have moved and what was due is
/// exchanged. `evaluate`: the mean loss over a batch, without gradients.
template <class P, class Context = archetype::context>
concept ParallelismPolicy = PolicyOf<P, parallel_traits> && requires(P& p, Context& ctx, const batch& b) {
  { p.start(ctx) } -> std::same_as<result<void>>;
  { p.forward_backward(ctx, b) } -> std::same_as<result<double>>;
  { p.norm(ctx) } -> std::same_as<result<float>>;
  { p.after_step(ctx) } -> std::same_as<result<void>>;
  { p.evaluate(ctx, b) } -> std::same_as<result<double>>;
};

/// `begin_step`: before anything of a step. `end_step`: judge the attempt; called after a failed phase or a whole step. It
/// may block, to learn what the others made of the round, and its own error ends the step as an abort does.
template <class P, class Context = archetype::context>
concept FaultPolicy = PolicyOf<P, fault_traits> && requires(P& p, Context& ctx, const result<void>& outcome) {
  { p.begin_step(ctx) } -> std::same_as<result<void>>;
  { p.end_step(ctx, outcome) } -> std::same_as<result<verdict>>;
};

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_POLICY_CONCEPTS_HPP
