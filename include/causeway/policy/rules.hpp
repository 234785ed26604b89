// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_POLICY_RULES_HPP
#define CAUSEWAY_POLICY_RULES_HPP

// Which policies go together, as pure functions of their traits, and the one readable error for each mix that does not.
// docs/reference/rules.md explains every id; tests/compile_fail holds every message to its id.

#include <causeway/policy/traits.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI {

namespace rules {

/// A changing set of peers needs a communication policy that tolerates it.
constexpr bool c1(comm_traits c, fault_traits f) { return f.produces == peers::fixed || c.tolerates == peers::elastic; }

/// A stage must not stay without an owner.
constexpr bool c2(parallel_traits p, fault_traits f) {
  return !p.staged || f.produces == peers::fixed || p.reroutes || f.refills_stage;
}

/// Stages that go on their own time exchange after the same number of steps at every holder, or they wait in a circle.
constexpr bool c3(comm_traits c, parallel_traits p) { return p.global_step || !(c.gathers_samples || c.rounds_by_clock); }

/// Stages that make the same steps must also make the same rounds, each in its own group of peers: by counting steps, or
/// the samples of all peers where all know them, or by asking each other.
constexpr bool c4(comm_traits c, parallel_traits p) {
  return !p.staged || !p.global_step || c.rounds_by_steps || (p.sums_over_stages && c.rounds_over_stages) ||
         (p.gathers_together && c.gathers_samples);
}

/// Parts of a gradient are worth nothing alone: they are added up, or are rows of a mean over all.
constexpr bool c5(comm_traits c, parallel_traits p) {
  return !p.shares_gradient || c.sums_gradients || (c.exchanges_gradients && c.moves_with_blocks);
}

/// What peers step on when an exchange is attempted must be in what they send then, or in what they send later.
constexpr bool c6(comm_traits c, parallel_traits p) { return !p.computes_late || c.allows_late_steps; }

/// What a policy keeps for each parameter must go where that goes, and replicas that take steps of their own exchange no
/// gradients.
constexpr bool c7(comm_traits c, parallel_traits p) {
  return !p.moves_blocks || (c.moves_with_blocks && !c.exchanges_gradients);
}

/// A mean of rows is of the same parameters in each: where peers have other blocks, there is a row for each range of them.
/// And a gradient is of one loss only if its micro-batch met one replica's parameters, whoever computes it: no replica's
/// that steps alone, and none that only the lost peer knew.
constexpr bool c8(comm_traits c, parallel_traits p) {
  const bool same_rows = !p.cut_apart || c.sums_gradients || (p.rows_in_parts && c.rows_in_parts);
  return same_rows && !p.detours && !(p.repeats_work && c.looks_ahead);
}

}  // namespace rules

namespace detail {

template <class Comm, class Parallel, class Fault>
struct compatible {
  static_assert(rules::c1(Comm::traits, Fault::traits),
                "causeway-C1: this fault policy lets peers join and leave, but the communication policy needs a fixed set. "
                "Use comm::periodic, or fault::fail_stop. docs/reference/rules.md#c1");
  static_assert(rules::c2(Parallel::traits, Fault::traits),
                "causeway-C2: a lost peer would leave a pipeline stage without an owner. "
                "Include causeway/pipelines.hpp for pipelines under fault::quorum, or use a parallelism that reroutes. "
                "docs/reference/rules.md#c2");
  static_assert(
      rules::c3(Comm::traits, Parallel::traits),
      "causeway-C3: stages run on their own time here, but with this communication policy the peers of a stage exchange "
      "when they have enough samples or have trained long enough, each after other steps: two stages could wait for each "
      "other. Use a policy "
      "whose exchanges come after a number of steps, such as comm::every_step. docs/reference/rules.md#c3");
  static_assert(rules::c4(Comm::traits, Parallel::traits),
                "causeway-C4: the stages of a pipeline must make the same rounds, but here rounds come when peers are "
                "quick enough or have enough to say, and stages do not ask each other. Use a policy whose rounds come "
                "after a number of steps; where stages can be asked, also one that asks all of them "
                "(comm_traits::rounds_over_stages); in elastic pipelines and swarms with local steps, also one "
                "that gathers samples. docs/reference/rules.md#c4");
  static_assert(
      rules::c5(Comm::traits, Parallel::traits),
      "causeway-C5: each peer computes a part of its stage's gradient here, which must be exchanged in every step. "
      "Use comm::every_step, or another policy of gradients of all peers. docs/reference/rules.md#c5");
  static_assert(rules::c6(Comm::traits, Parallel::traits),
                "causeway-C6: peers of a swarm with local steps compute what a lost peer had when their exchange is due, "
                "and step on it: it must be in what they exchange then or later. Use comm::periodic, comm::rounds "
                "of pseudo-gradients or parameters after a number of steps, comm::mirrors, or "
                "comm::async_parameter_server. "
                "docs/reference/rules.md#c6");
  static_assert(rules::c7(Comm::traits, Parallel::traits),
                "causeway-C7: blocks of the model move between peers here, with all that is kept for their parameters from "
                "one exchange to the next. Use comm::rounds of pseudo-gradients or parameters, with an exchange that "
                "remembers no factors, and by the clock only if it is waited for at once; two of these by comm::stacked, "
                "one of which may divide batches; comm::mirrors; or "
                "comm::async_parameter_server. "
                "docs/reference/rules.md#c7");
  static_assert(
      rules::c8(Comm::traits, Parallel::traits),
      "causeway-C8: with this recovery pipelines are not cut alike, or a peer has stages of others besides its "
      "own: the rows that holders of a stage exchange would be of other parameters at each; or micro-batches "
      "take detours through pipelines whose replicas step alone, and have other parameters. Use "
      "stage::recovery::regroup, morph, proactive, neighbour_init or swapped_neighbours, for gradients also "
      "reroute, or comm::every_step; of other policies with redundant, redundant_forward and templates those that "
      "exchange gradients, and in parallel::pipeline comm::rounds of local steps; with redundant_forward none that takes "
      "gradients ahead, at parameters of a lost peer's own, where others cannot repeat its forwards. "
      "docs/reference/rules.md#c8");
};

struct unchecked {};

}  // namespace detail
}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_POLICY_RULES_HPP
