// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_POLICY_CONCEPTS_HPP
#define CAUSEWAY_POLICY_CONCEPTS_HPP

// What a policy is: a movable value with a name, traits, all hooks of its kind and of its traits, and `serialize` for its
// run state. No base class, nothing virtual, no optional hooks: a misspelt hook is an error, not silence.
//
// Two promises that no concept can check, and that the conformance suite does:
// - a hook that returns an error has left the policy and the parameters as they were, so that it can be called again;
// - a hook is a function of the context and the policy's state: equal inputs give equal bits.

#include <causeway/core/concepts.hpp>
#include <causeway/core/result.hpp>
#include <causeway/policy/archetype.hpp>
#include <causeway/policy/traits.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

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
/// what there is, nothing for a peer that has just joined, and commit the round.
template <class P, class Context = archetype::context>
concept ElasticPolicy = requires(P& p, Context& ctx, archetype::archive& ar, std::span<const float> previous) {
  p.shared(ar);
  p.adopt(ctx, previous);
  { p.catch_up(ctx) } -> std::same_as<result<void>>;
};

/// With comm_traits::looks_ahead. `compute`: pass() makes the gradients and gives the loss; the parameters may be others
/// while it does, and are then as they were. It may be called again in the step.
template <class P, class Context = archetype::context>
concept LooksAhead = requires(P& p, Context& ctx, result<double> (*pass)()) {
  { p.compute(ctx, pass) } -> std::same_as<result<double>>;
};

/// With comm_traits::replays. `replay`: the gradients are what ctx.mean gave in a round; do to the shared state what that
/// round did, bit for bit. So a peer can join where rounds are shorter than the transfer of the state. `replays`: whether
/// it can.
template <class P, class Context = archetype::context>
concept Replays = requires(P& p, Context& ctx) {
  { p.replays() } -> std::same_as<bool>;
  { p.replay(ctx) } -> std::same_as<result<void>>;
};

/// With comm_traits::draws_peers. `trains`: whether this peer computes in the next step, or only counts it.
template <class P, class Context = archetype::context>
concept DrawsPeers = requires(P& p, Context& ctx) {
  { p.trains(ctx) } -> std::same_as<bool>;
};

/// With comm_traits::divides_batches. `part_of_batch`: the sequences of each batch that are this peer's in the next step,
/// or none where all have as many. `parts_for`: of pipelines of these speeds (0: unknown), each one's part of a batch in
/// micro-batches; nothing: as the recovery shares them out.
template <class P>
concept DividesBatches = requires(P& p, const std::vector<double>& speeds) {
  { p.part_of_batch() } -> ConvertibleTo<std::optional<index_range>>;
  { p.parts_for(speeds) } -> std::same_as<std::vector<std::size_t>>;
};

/// With comm_traits::talks_between. `stand_by`: before `catch_up`, as long as others still train: serves them.
/// `meanwhile`: what to do while this peer waits for others in a step; empty: nothing. `meet_holders`: where blocks move,
/// an attempt has begun in which these peers hold the same blocks.
template <class P, class Context = archetype::context>
concept TalksBetween = requires(P& p, Context& ctx, const archetype::holders& who) {
  p.stand_by(ctx);
  { p.meanwhile(ctx) } -> std::same_as<std::function<void()>>;
  { p.meet_holders(ctx, who) } -> std::same_as<result<void>>;
};

/// With comm_traits::takes_turns, for comm::stacked. `turn_part`: the parts of its turn. `followed`: what all hold alike,
/// which the live parameters follow. `count_step`: one inner step more.
template <class P, class Context = archetype::context>
concept TakesTurns = requires(P& p, Context& ctx) {
  p.turn_part();
  { p.followed() } -> std::same_as<std::span<const float>>;
  p.count_step(ctx);
};

/// With paths or regions. `follow`: this peer has that one from now on, or none; whether it is another than before, whose
/// shared parameters the live ones are to become. `parameters_of`: the shared parameters of any.
template <class P, class Context = archetype::context>
concept FollowsPaths = requires(P& p, Context& ctx, std::optional<std::uint32_t> path, std::span<float> to) {
  { p.follow(ctx, path) } -> std::same_as<bool>;
  p.parameters_of(std::uint32_t{}, to);
};

/// With comm_traits::trains_paths. `admit`: a round in which nobody has anything to give; who is there for the first time
/// gets a path. `paths`: how many there are to share out, each with an equal part of each batch.
template <class P, class Context = archetype::context>
concept TrainsPaths = FollowsPaths<P> && requires(P& p, Context& ctx) {
  { p.admit(ctx) } -> std::same_as<result<void>>;
  { p.paths() } -> ConvertibleTo<std::size_t>;
};

/// With comm_traits::in_regions. `regions`: how many pipelines share out, all with the same batches.
template <class P>
concept InRegions = FollowsPaths<P> && requires(P& p) {
  { p.regions() } -> ConvertibleTo<std::size_t>;
};

/// With comm_traits::moves_with_blocks. `block_rows`: what is kept for each parameter, the shared parameters first.
/// `divide`: the model has another part than `before`. `memory`: what an exchange remembers of the one before; `forget`:
/// begins without it. `exchanges_next`: whether an exchange comes after the step under way. `row_waits`: where results are
/// a round late, whether a row waits for the next exchange.
template <class P, class Context = archetype::context>
concept MovesWithBlocks = requires(P& p, Context& ctx, std::span<const parameter_segment> before) {
  { p.block_rows() } -> std::same_as<std::vector<parameter_row>>;
  { p.divide(ctx, before) } -> std::same_as<result<void>>;
  { p.memory() } -> std::same_as<std::vector<std::span<std::byte>>>;
  { p.forget(ctx) } -> std::same_as<result<void>>;
  { p.exchanges_next() } -> std::same_as<bool>;
  { p.row_waits() } -> std::same_as<std::optional<bool>>;
};

/// Of gradients, with comm_traits::rows_in_parts. `another`: one like it that has not begun, for other blocks.
template <class P>
concept InParts = requires(const P& p) {
  { p.another() } -> std::same_as<P>;
};

/// `start`: once, before the first step; parameters are equal on all peers. `before_inner_step`: gradients are ready.
/// `after_inner_step`: parameters have moved. `finish`: once, after the last step: bring the replicas together.
template <class P, class Context = archetype::context>
concept HasCommunicationHooks = PolicyOf<P, comm_traits> && requires(P& p, Context& ctx) {
  { p.start(ctx) } -> std::same_as<result<void>>;
  { p.before_inner_step(ctx) } -> std::same_as<result<void>>;
  { p.after_inner_step(ctx) } -> std::same_as<result<void>>;
  { p.finish(ctx) } -> std::same_as<result<void>>;
};

namespace detail {

/// Whether a policy has the hooks that go with each of its traits.
template <class P>
struct hooks_of_traits {
  static constexpr comm_traits t = P::traits;
  static constexpr bool elastic = t.tolerates == peers::fixed || ElasticPolicy<P>;
  static constexpr bool looks_ahead = !t.looks_ahead || LooksAhead<P>;
  static constexpr bool replays = !t.replays || Replays<P>;
  static constexpr bool draws_peers = !t.draws_peers || DrawsPeers<P>;
  static constexpr bool divides_batches = !t.divides_batches || DividesBatches<P>;
  static constexpr bool talks_between = !t.talks_between || TalksBetween<P>;
  static constexpr bool takes_turns = !t.takes_turns || TakesTurns<P>;
  static constexpr bool trains_paths = !t.trains_paths || TrainsPaths<P>;
  static constexpr bool in_regions = !t.in_regions || InRegions<P>;
  static constexpr bool moves_with_blocks = !t.moves_with_blocks || MovesWithBlocks<P>;
  static constexpr bool in_parts = !t.rows_in_parts || !t.exchanges_gradients || InParts<P>;
  static constexpr bool all = in_parts && elastic && looks_ahead && replays && draws_peers && divides_batches &&
                              talks_between && takes_turns && trains_paths && in_regions && moves_with_blocks;
};

/// One error for each trait whose hooks are missing.
template <class P, bool IsPolicy>
struct promised {};
template <class P>
struct promised<P, true> {
  using has = hooks_of_traits<P>;
  static_assert(has::elastic,
                "causeway-P11: the traits of this communication policy say `tolerates = peers::elastic`, but it lacks "
                "`shared`, `adopt` or `catch_up`. docs/reference/rules.md#p11");
  static_assert(has::looks_ahead,
                "causeway-P11: the traits of this communication policy say `looks_ahead`, but it lacks "
                "`compute`. docs/reference/rules.md#p11");
  static_assert(has::replays,
                "causeway-P11: the traits of this communication policy say `replays`, but it lacks "
                "`replays()` or `replay`. docs/reference/rules.md#p11");
  static_assert(has::draws_peers,
                "causeway-P11: the traits of this communication policy say `draws_peers`, but it lacks "
                "`trains`. docs/reference/rules.md#p11");
  static_assert(has::divides_batches,
                "causeway-P11: the traits of this communication policy say `divides_batches`, but it lacks "
                "`part_of_batch` or `parts_for`. docs/reference/rules.md#p11");
  static_assert(has::talks_between,
                "causeway-P11: the traits of this communication policy say `talks_between`, but it lacks "
                "`stand_by`, `meanwhile` or `meet_holders`. docs/reference/rules.md#p11");
  static_assert(has::takes_turns,
                "causeway-P11: the traits of this communication policy say `takes_turns`, but it lacks "
                "`turn_part`, `followed` or `count_step`. docs/reference/rules.md#p11");
  static_assert(has::trains_paths,
                "causeway-P11: the traits of this communication policy say `trains_paths`, but it lacks "
                "`admit`, `paths`, `follow` or `parameters_of`. docs/reference/rules.md#p11");
  static_assert(has::in_regions,
                "causeway-P11: the traits of this communication policy say `in_regions`, but it lacks "
                "`regions`, `follow` or `parameters_of`. docs/reference/rules.md#p11");
  static_assert(has::moves_with_blocks,
                "causeway-P11: the traits of this communication policy say `moves_with_blocks`, but it lacks "
                "`block_rows`, `divide`, `memory`, `forget`, `exchanges_next` or `row_waits`. docs/reference/rules.md#p11");
  static_assert(has::in_parts,
                "causeway-P11: the traits of this communication policy say `exchanges_gradients` and `rows_in_parts`, but "
                "it lacks `another`. "
                "docs/reference/rules.md#p11");
};

}  // namespace detail

/// With all hooks that its traits promise.
template <class P>
concept CommunicationPolicy = HasCommunicationHooks<P> && detail::hooks_of_traits<P>::all;

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
