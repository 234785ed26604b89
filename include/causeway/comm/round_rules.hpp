// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_ROUND_RULES_HPP
#define CAUSEWAY_COMM_ROUND_RULES_HPP

// Which axes go together, as pure functions of their constants, and one readable error for each mix that does not. Every id
// is explained in docs/reference/rules.md, and held to its message by a test in tests/compile_fail.

#include <causeway/axis/content.hpp>
#include <causeway/axis/every.hpp>
#include <causeway/axis/exchange.hpp>
#include <causeway/axis/fragments.hpp>
#include <causeway/axis/groups.hpp>
#include <causeway/axis/merge_rule.hpp>
#include <causeway/axis/outer.hpp>
#include <causeway/axis/participation.hpp>
#include <causeway/axis/parts.hpp>
#include <causeway/axis/residual.hpp>
#include <causeway/optim/optimizer.hpp>

#include <type_traits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm {

/// The constants that the rules are about.
struct round_mix {
  bool anchored = true;            ///< content: there are shared parameters
  bool before_inner_step = false;  ///< content: gradients
  bool sends_anchor = false;       ///< content: shared parameters travel too
  bool everybody = true;           ///< group
  bool lasting = true;             ///< group: the same peers in all exchanges of a fragment
  bool by_context = true;          ///< exchange: the context's all-reduce
  bool bit_parity = true;          ///< exchange
  bool own_support = false;        ///< exchange: peers may send coordinates of their own choice
  bool gives_residual = true;      ///< exchange
  bool gives_counts = false;       ///< exchange
  bool sparse = false;             ///< exchange: its codec
  bool shared_support = false;     ///< exchange: all peers send the same coordinates
  bool keeps_residual = false;     ///< residual
  bool residual_in_parameters = false;
  bool waits_at_once = true;       ///< merge rule
  bool waits_a_round = false;      ///< merge rule
  bool own_is_fresh = false;       ///< merge rule
  bool keeps_steps = true;         ///< merge rule
  bool wants_mean_shared = false;  ///< outer optimizer
  bool linear_outer = true;        ///< outer optimizer
  bool single = true;              ///< one fragment of one tensor
  bool trigger_talks = false;      ///< trigger: to all peers, after exchanges or before them
  bool tells = false;              ///< trigger: in each exchange, so that nothing is said outside of one
  bool watches_movement = false;   ///< trigger
  bool keeps_local = false;        ///< participation
  bool always = true;              ///< participation
  bool accumulates = false;        ///< trigger: gathers gradients of many steps
  bool weighs = false;             ///< trigger or participation: rows count by the samples behind them
  bool meets = false;              ///< trigger: peers meet whatever number of steps each has made
};

namespace rules {

/// All-reduce and its kin add up what they are given: sparse messages must agree on their coordinates, or be gathered.
constexpr bool a2(round_mix m) { return !m.sparse || m.own_support || m.shared_support; }
/// Overlap needs an exchange that can be begun and finished.
constexpr bool a3(round_mix m) { return m.waits_at_once || !m.by_context; }
/// A gossip step needs the others' shared parameters, and only that wants them.
constexpr bool a4(round_mix m) { return m.wants_mean_shared == m.sends_anchor; }
/// Where others meet each time, shared parameters cannot stay equal: they must travel, or there must be none.
constexpr bool a5(round_mix m) { return m.lasting || !m.anchored || m.sends_anchor; }
/// The context's all-reduce is always among all peers.
constexpr bool a6(round_mix m) { return m.everybody || !m.by_context; }
/// Shared parameters that all hold alike need the same bits everywhere.
constexpr bool a7(round_mix m) { return !(m.anchored && m.lasting) || m.bit_parity; }
/// Who keeps what was not sent must know what was sent.
constexpr bool a8(round_mix m) {
  const bool changes = (m.anchored && !m.sends_anchor) || m.before_inner_step;  // parameters themselves leave nothing out
  return !m.keeps_residual || (m.gives_residual && changes && (!m.residual_in_parameters || m.anchored));
}
/// Replacing only the coordinates that came needs to know which came.
constexpr bool a9(round_mix m) { return m.anchored || m.before_inner_step || !m.sparse || m.gives_counts; }
/// A part of one's own can only be fresh in a mean that goes to an outer optimizer, over all; and what is a round late
/// cannot be compared with shared parameters of now.
constexpr bool a10(round_mix m) {
  const bool late = !m.waits_a_round || !m.sends_anchor;
  return late &&
         (!m.own_is_fresh || (m.anchored && m.everybody && m.always && m.gives_residual && !m.residual_in_parameters));
}
/// What peers adapt to must be equal on all.
constexpr bool a11(round_mix m) {
  return !m.watches_movement || (m.anchored && m.everybody && !m.own_is_fresh && !m.sends_anchor);
}
/// Peers that gather as they can have different numbers of samples: gradients, weighted, taken at once.
constexpr bool a14(round_mix m) {
  return !m.accumulates || (m.before_inner_step && !m.by_context && m.waits_at_once && m.everybody && !m.keeps_residual);
}
/// Whether each peer has parameters of its own, of no model but the one that all train: peers meet in groups, other ones
/// each time.
constexpr bool own_parameters(round_mix m) { return !m.everybody && !m.lasting && !m.before_inner_step; }
/// Whether models are made of modules, of which each peer has a path: the same peers exchange a fragment each time, some.
constexpr bool by_path(round_mix m) { return m.lasting && !m.everybody; }
/// Rows that count unequally need an exchange that weighs, and one that takes no row out again as 1/M. Who shares a batch
/// or is drawn is a matter of all peers.
constexpr bool a15(round_mix m) {
  const bool together = m.everybody || (own_parameters(m) && m.always && !m.trigger_talks);
  return !m.weighs || (!m.by_context && together && !m.own_is_fresh);
}
/// Where what was not sent lies in the live parameters, a blend of those with others would lose a part of it.
constexpr bool a16(round_mix m) { return !m.residual_in_parameters || m.keeps_steps; }
/// Who has made other steps than the rest, or none, has a part in what steps moved; a step's gradient is of that step.
/// Nobody knows how many steps a peer makes until the next meeting: what is not taken when peers meet is taken when they
/// meet again.
constexpr bool a17(round_mix m) { return !m.meets || (!m.before_inner_step && (m.waits_at_once || m.waits_a_round)); }
/// Who is left out of a mean of gradients would make another step than the others, or none.
constexpr bool a18(round_mix m) { return m.always || !m.before_inner_step; }
/// Whether all peers hold the same (shared) parameters after each exchange.
constexpr bool identical(round_mix m) {
  if (!m.everybody || !m.bit_parity || m.own_is_fresh) return false;
  return m.anchored || m.before_inner_step || (m.single && !m.sparse && m.waits_at_once && !m.keeps_local);
}
/// Whether peers may come and go: there are values that all hold alike after each turn, so that a newcomer can be given
/// them, and what the schedule and the exchange remember is either among them or nobody else's. Where parameters themselves
/// are exchanged, they are the last mean of each. Where peers have their own, a newcomer gets those of whom it meets, who
/// must send all of them. Where they have paths, all keep all modules; rows that are under way meanwhile are not built.
constexpr bool elastic(round_mix m) {
  const bool together = m.bit_parity && !m.sends_anchor && !m.keeps_local;
  const bool modules = together && m.anchored && m.waits_at_once && !m.keeps_residual && m.always && !m.trigger_talks;
  const bool groups = by_path(m) ? modules : own_parameters(m) && !m.sparse && m.always;
  const bool alike = m.everybody ? together : groups;
  const bool late = m.single && (m.anchored || m.before_inner_step) && (!m.own_is_fresh || m.linear_outer);
  return alike && (!m.waits_a_round || late) && (!m.trigger_talks || m.tells);
}

/// Whether peers of a swarm can step on what was lost when an exchange is due. All peers' rows are made of the live values
/// then, anew at every attempt; or before, and set aside: they do not change then, and what was lost since is in the rows
/// that follow. Gradients that gather are of parameters that do not move meanwhile: what was lost is added to them.
constexpr bool allows_late_steps(round_mix m) { return elastic(m) && (m.accumulates || !m.before_inner_step) && !m.meets; }

/// Whether pipelines that come and go can divide a round's batches by speed: replicas take local steps, and a row counts by
/// the samples behind it, whatever rounds they are of.
constexpr bool divides_batches(round_mix m) { return m.tells && !m.meets && !m.before_inner_step; }

/// Whether blocks of the model can move between peers, each with all that is kept for its parameters: rows as long as
/// these, in fragments that are the same ones for all stages. A residual is of the rows that a peer sent, and stays there,
/// in memory of its own or in the live parameters; so is a row that waits to be sent. Factors that an exchange remembers
/// are those of a stage: they are forgotten where its holders have not the same, which gradients of one row can do in any
/// step. Of modules all versions go along. Pipelines can look at the clock for a policy, and count steps; a gap: results of
/// such rounds that are a round late.
constexpr bool moves_with_blocks(round_mix m, bool keeps_factors) {
  const bool by_clock = m.meets && m.waits_at_once;
  if (!elastic(m) || (m.trigger_talks && !divides_batches(m) && !by_clock)) return false;
  const bool each_step = m.waits_at_once || m.waits_a_round;
  if (m.before_inner_step) return each_step && m.bit_parity && (!keeps_factors || (m.single && m.waits_at_once));
  return !keeps_factors;
}

/// Whether exchanges can be under one record with those of another policy (comm::stacked), where peers come and go.
/// Gradients in every step leave that nothing. Gaps: results that are a round late, own parameters.
constexpr bool takes_turns(round_mix m) {
  return elastic(m) && !m.waits_a_round && !m.before_inner_step && !own_parameters(m) && !m.meets && !by_path(m);
}

}  // namespace rules

namespace detail {

template <class Trigger>
inline constexpr bool follows_speed = (requires { Trigger::follows_speed; });
template <class Trigger>
inline constexpr bool accumulates = (requires { Trigger::accumulates; });
template <class Axis>
inline constexpr bool weighs = (requires { Axis::weighs; });
template <class Trigger>
inline constexpr bool tells = (requires { Trigger::tells; });
template <class Trigger>
inline constexpr bool meets = (requires { Trigger::meets; });

/// Whether peers have paths by these rules. (clang has no constants of a mix that was refused, whose refusal is to be the
/// only error.)
template <class Laws>
constexpr bool trains_paths() {
  if constexpr (requires { typename std::bool_constant<Laws::by_path>; }) return Laws::by_path;
  return false;
}

}  // namespace detail

/// The rules for one mix: derive from it. Instantiated only with known axes, so that a wrong one is the only error.
template <class... Axes>
struct round_rules {
  static_assert(
      axis::all_known<Axes...>,
      "causeway-A0: a type given to comm::rounds is no axis value: it has no `decides`. docs/reference/rules.md#a0");
  static_assert(axis::all_different<Axes...>,
                "causeway-A1: two values for one axis were given to comm::rounds; keep one. docs/reference/rules.md#a1");
  static_assert((axis::has_codecs<Axes>() && ...),
                "causeway-P8: an exchange is given a codec that is none: it lacks a member of compress::Codec. Codecs are "
                "in compress/; a choice of entries, as compress::top_k, goes into compress::sparse. "
                "docs/reference/rules.md#p8");

 protected:
  using trigger_axis = axis::pick<axis::part::trigger, axis::every, Axes...>;
  using content_axis = axis::pick<axis::part::content, axis::pseudo_gradient, Axes...>;
  using fragments_axis = axis::pick<axis::part::fragments, axis::whole, Axes...>;
  using group_axis = axis::pick<axis::part::group, axis::all_peers, Axes...>;
  using exchange_axis = axis::pick<axis::part::exchange, axis::all_reduce<>, Axes...>;
  using residual_axis = axis::pick<axis::part::residual, axis::no_residual, Axes...>;
  using participation_axis = axis::pick<axis::part::participation, axis::everyone, Axes...>;
  using outer_axis = axis::pick<axis::part::outer, axis::outer<>, Axes...>;
  using merge_rule_axis = axis::pick<axis::part::merge_rule, axis::blocking, Axes...>;

 public:
  static constexpr round_mix mix{.anchored = content_axis::anchored,
                                 .before_inner_step = content_axis::before_inner_step,
                                 .sends_anchor = content_axis::with_anchor,
                                 .everybody = group_axis::everybody,
                                 .lasting = group_axis::everybody || axis::groups_last<group_axis>,
                                 .by_context = axis::by_context<exchange_axis>,
                                 .bit_parity = exchange_axis::traits.bit_parity,
                                 .own_support = exchange_axis::traits.own_support,
                                 .gives_residual = exchange_axis::traits.residual,
                                 .gives_counts = exchange_axis::traits.counts,
                                 .sparse = axis::message_traits<exchange_axis>().sparse,
                                 .shared_support = axis::message_traits<exchange_axis>().shared_support,
                                 .keeps_residual = residual_axis::keeps != axis::keeping::nothing,
                                 .residual_in_parameters = residual_axis::keeps == axis::keeping::in_parameters,
                                 .waits_at_once = merge_rule_axis::waits == axis::waiting::at_once,
                                 .waits_a_round = merge_rule_axis::waits == axis::waiting::a_round,
                                 .own_is_fresh = merge_rule_axis::own_is_fresh,
                                 .keeps_steps = merge_rule_axis::keeps_steps,
                                 .wants_mean_shared = content_axis::anchored && outer_axis::wants_mean_shared,
                                 .linear_outer = optim::is_linear<outer_axis>,
                                 .single = fragments_axis::single && content_axis::tensor_count == 1,
                                 .trigger_talks = detail::follows_speed<trigger_axis>,
                                 .tells = detail::tells<trigger_axis>,
                                 .watches_movement = trigger_axis::watches_movement,
                                 .keeps_local = participation_axis::keeps_local,
                                 .always = participation_axis::always,
                                 .accumulates = detail::accumulates<trigger_axis>,
                                 .weighs = detail::weighs<trigger_axis> || detail::weighs<participation_axis>,
                                 .meets = detail::meets<trigger_axis>};
  static constexpr bool identical = rules::identical(mix);
  static constexpr bool elastic = rules::elastic(mix);
  static constexpr bool own_parameters = rules::own_parameters(mix);
  static constexpr bool by_path = elastic && rules::by_path(mix);
  static constexpr bool allows_late_steps = rules::allows_late_steps(mix);

 private:
  static_assert(
      rules::a2(mix),
      "causeway-A2: with this codec every peer sends coordinates of its own choice, but this topology can only add up "
      "rows. Use axis::gather_mean, or a codec with a shared mask. docs/reference/rules.md#a2");
  static_assert(rules::a3(mix),
                "causeway-A3: this merge rule lets the exchange overlap with inner steps, but axis::all_reduce blocks. "
                "Use axis::split_mean or axis::gather_mean. docs/reference/rules.md#a3");
  static_assert(rules::a4(mix),
                "causeway-A4: a gossip outer step needs the others' shared parameters, and nothing else does. Use "
                "axis::gossip_nesterov together with axis::pseudo_gradient_and_anchor. docs/reference/rules.md#a4");
  static_assert(
      rules::a5(mix),
      "causeway-A5: only some peers meet, so that their shared parameters drift apart. Use axis::parameters, or "
      "axis::pseudo_gradient_and_anchor with axis::gossip_nesterov, or axis::module_groups. docs/reference/rules.md#a5");
  static_assert(rules::a6(mix),
                "causeway-A6: axis::all_reduce is among all peers, but this group is not. Use axis::gather_mean or "
                "axis::split_mean. docs/reference/rules.md#a6");
  static_assert(
      rules::a7(mix),
      "causeway-A7: all peers must hold the same shared parameters, but this exchange ends with different bits on "
      "different peers. Use one with bit parity. docs/reference/rules.md#a7");
  static_assert(rules::a8(mix),
                "causeway-A8: a residual needs changes (gradients or pseudo-gradients; an implicit one the latter) and a "
                "topology that tells what was sent. Use axis::split_mean or axis::gather_mean. docs/reference/rules.md#a8");
  static_assert(rules::a9(mix),
                "causeway-A9: parameters are replaced only where something came, but this exchange does not say where. Use "
                "axis::gather_mean with collective::contributor_mean. docs/reference/rules.md#a9");
  static_assert(
      rules::a10(mix),
      "causeway-A10: axis::eager replaces this peer's old row in a mean over all peers, and gossip cannot be late. Use "
      "axis::pseudo_gradient, axis::all_peers, axis::everyone and axis::split_mean. docs/reference/rules.md#a10");
  static_assert(rules::a11(mix),
                "causeway-A11: this trigger adapts to the mean's size, which must be equal on all peers. Use "
                "axis::pseudo_gradient with axis::all_peers. docs/reference/rules.md#a11");
  static_assert(
      rules::a14(mix),
      "causeway-A14: peers gather different numbers of samples until all have enough together: only gradients can be "
      "weighted so, at once, by axis::split_mean or axis::gather_mean. docs/reference/rules.md#a14");
  static_assert(rules::a15(mix),
                "causeway-A15: peers' rows must count by the samples behind them. Use axis::split_mean or "
                "axis::gather_mean among axis::all_peers, without axis::eager. docs/reference/rules.md#a15");
  static_assert(
      rules::a16(mix),
      "causeway-A16: axis::implicit_residual leaves what was not sent in the live parameters, and this merge rule "
      "blends or corrects those. Use axis::blocking, axis::replayed or axis::one_round_late. "
      "docs/reference/rules.md#a16");
  static_assert(rules::a17(mix),
                "causeway-A17: peers that meet by the clock have made different numbers of steps, and exchange what these "
                "moved. Use axis::pseudo_gradient or axis::parameters with axis::blocking or axis::one_round_late. "
                "docs/reference/rules.md#a17");
  static_assert(rules::a18(mix),
                "causeway-A18: lots are drawn, and who is left out of a mean of gradients would make another step than the "
                "others. Use axis::pseudo_gradient, or axis::everyone. docs/reference/rules.md#a18");
};
}}}  // namespace causeway::CAUSEWAY_ABI::comm

#endif  // CAUSEWAY_COMM_ROUND_RULES_HPP
