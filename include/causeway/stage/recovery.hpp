// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_RECOVERY_HPP
#define CAUSEWAY_STAGE_RECOVERY_HPP

// What becomes of the stages of pipelines when peers come and go, as a policy: a function from who is there and what they
// hold to a layout. The same facts give the same layout on all peers, so nobody has to be told.

#include <causeway/config/config.hpp>
#include <causeway/core/concepts.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/plan/routed_schedule.hpp>
#include <causeway/stage/layout.hpp>
#include <causeway/stage/run_history.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage {

/// What a peer has begun of the step under way, where the policy keeps that. It stays where it was then.
struct begun_step {
  std::uint64_t name = 0;      ///< of its layout and state; 0: nothing
  std::uint32_t replicas = 0;  ///< of the layout
  std::uint32_t stages = 0;    ///< of its pipeline
  std::uint32_t stage = 0;     ///< its own
  /// What it holds in memory to compute with: its stage, and others'.
  std::vector<nn::block_range> keeps{};

  friend bool operator==(const begun_step&, const begun_step&) = default;
};

/// What a peer says when an attempt begins.
struct present_peer {
  std::uint64_t id = 0;
  std::vector<nn::block_range> holds;  ///< in the newest state; rising and apart
  /// Its assignment in the last attempt that it took part in; `computes` is empty without one.
  std::uint32_t replica = 0;
  nn::block_range computes{};
  /// Squared norms of the last step's gradient, of every block that it holds, in their order; none before it took one.
  std::vector<double> squares{};
  begun_step begun{};
  bool leaves = false;  ///< after this step; see assignable

  CAUSEWAY_DECL [[nodiscard]] std::int64_t overlap(const nn::block_range& with) const;
  [[nodiscard]] bool holds_all(const nn::block_range& r) const { return overlap(r) == r.size(); }
  /// 0 where it does not know.
  CAUSEWAY_DECL [[nodiscard]] double squares_of(std::int64_t block) const;
};

/// What all peers of an attempt know.
struct cluster_snapshot {
  std::int64_t layers = 0;
  std::uint32_t micro_batches = 0;  ///< of the global batch
  std::vector<present_peer> peers;  ///< by rising id
  // what was voted on
  std::uint64_t step = 0;   ///< steps that the run has taken
  std::uint64_t state = 0;  ///< names the parameters after them: a seed that all peers have
  run_history history{};    ///< of policies with an `interval`

  /// The place of the first peer that holds a block; peers.size() where nobody does.
  CAUSEWAY_DECL [[nodiscard]] std::size_t first_holder(std::int64_t block) const;
  /// Ids of all that hold it, rising.
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::uint64_t> holders(std::int64_t block) const;
  [[nodiscard]] bool somebody_holds(std::int64_t block) const { return first_holder(block) < peers.size(); }
};

/// What to do about blocks that nobody holds any more.
enum class lost_blocks : std::uint8_t {
  wait,        ///< the run stands until a peer that has them is back
  neighbours,  ///< they are made up from the stages beside them; see MakingUp
};

struct recovery_traits {
  lost_blocks lost = lost_blocks::wait;
  bool keeps_work = false;   ///< what peers have done of a step outlives a failed attempt; see WorkKeeping
  bool joined_ends = false;  ///< for models whose ends are one block: its pipelines are rings, in an order of their own
  /// All pipelines of a layout are cut alike, and each peer has one stage: so its holders can exchange one row each, of all
  /// that they hold. Else each range of blocks, or with local steps each block, has a row of its own (rule C8). Some
  /// stages may have nobody; see Rerouting.
  bool cut_alike = false;
};

/// - `arrange(snapshot)`: the layout of the next attempt. An error of errc::out_of_memory means: too few peers; the run
///   waits for more.
/// - `interval()`: steps from one entry of cluster_snapshot::history to the next; 0: the policy does not look back.
template <class R>
concept Recovery = Movable<R> && DefaultInitializable<R> && requires(R& r, const cluster_snapshot& g) {
  { R::name } -> ConvertibleTo<std::string_view>;
  { R::traits } -> ConvertibleTo<recovery_traits>;
  { r.arrange(g) } -> std::same_as<result<layout>>;
  { std::as_const(r).interval() } -> std::same_as<std::uint64_t>;
};

template <Recovery R>
inline constexpr bool cut_apart = !R::traits.cut_alike;

/// A policy whose layouts may have stages without a peer: `order(layout)` is what all peers do then, by their places in
/// layout::assigned.
template <class R>
concept Rerouting = Recovery<R> && requires(const R& r, const layout& l) {
  { r.order(l) } -> std::same_as<result<plan::routed_schedule>>;
};

/// A policy with `keeps_work`: an attempt goes on where the last one failed, if enough of its peers are there. A rank then
/// has a shadow (`shadow_of`), which repeats its forwards and takes its place.
/// - `resumes(snapshot)`: whether `arrange` gives the layout of the step that was begun, without those who are lost.
/// - `repeats_all()`: a shadow repeats every forward; else only in idle time.
template <class R>
concept WorkKeeping = Recovery<R> && R::traits.keeps_work&& requires(const R& r, const cluster_snapshot& g) {
  { r.resumes(g) } -> std::same_as<bool>;
  { r.repeats_all() } -> std::same_as<bool>;
};

/// The same without those who leave.
CAUSEWAY_DECL [[nodiscard]] cluster_snapshot who_stays(const cluster_snapshot& g);

/// Those among whom the next layout divides the work: who stays, so that those who leave compute nothing any more, and what
/// they hold moves to the others while they are there. Where the others cannot do without them: all.
template <Recovery R>
[[nodiscard]] cluster_snapshot assignable(R& recovery, const cluster_snapshot& g) {
  cluster_snapshot stay = who_stays(g);
  const bool somebody_leaves = stay.peers.size() < g.peers.size();
  return somebody_leaves && recovery.arrange(stay) ? stay : g;
}

/// What a block that nobody has any more becomes: share · W_before + (1 - share) · W_behind.
struct made_up_block {
  std::int64_t block = 0;
  std::int64_t before = 0;
  std::int64_t behind = 0;
  float share = 0.5F;
};

/// A policy with lost_blocks::neighbours.
/// - `makes_up()`: whether it ever does; one of several that are chosen at run time need not.
/// - `made_up(snapshot)`: what lost blocks are made of; the run stands for want of those that are lost and not among them.
/// - `rate_factor()`: multiplies the learning rate of a stage that was made up, for the rest of the run.
/// - `agreement()`: equal on peers that make up alike.
template <class R>
concept MakingUp = Recovery<R> &&(R::traits.lost == lost_blocks::neighbours) &&
                   requires(const R& r, const cluster_snapshot& g) {
  { r.makes_up() } -> std::same_as<bool>;
  { r.made_up(g) } -> std::same_as<std::vector<made_up_block>>;
  { r.rate_factor() } -> std::same_as<float>;
  { r.agreement() } -> std::same_as<std::uint64_t>;
};

/// Blocks in a row that no peer of the snapshot holds.
CAUSEWAY_DECL [[nodiscard]] std::vector<nn::block_range> lost_runs(const cluster_snapshot& g);

/// Whether peers keep what lost blocks are made up by.
template <Recovery R>
[[nodiscard]] bool makes_up(const R& recovery) {
  if constexpr (MakingUp<R>) return recovery.makes_up();
  return false;
}

/// What `recovery` makes lost blocks of; nothing where it makes up none.
template <Recovery R>
[[nodiscard]] std::vector<made_up_block> made_up_by(const R& recovery, const cluster_snapshot& g) {
  if constexpr (MakingUp<R>) {
    return recovery.made_up(g);
  } else {
    static_assert(R::traits.lost == lost_blocks::wait, "see stage::MakingUp");
    return {};
  }
}

/// Lost blocks in a row that are not all made up; empty where there are none.
CAUSEWAY_DECL [[nodiscard]] nn::block_range lost_for_good(const cluster_snapshot& g,
                                                          const std::vector<made_up_block>& made);

/// Assignments for these rows of block ranges. Those who hold most of a range already get it: pair after pair with the
/// greatest overlap, ties to whoever was assigned it, then by the order of rows and ids. Precondition: at least as many
/// peers as ranges.
CAUSEWAY_DECL [[nodiscard]] layout assign_peers(const std::vector<std::vector<nn::block_range>>& rows,
                                                std::span<const std::uint32_t> micro_batches, const cluster_snapshot& g);

namespace recovery {

CAUSEWAY_DECL [[nodiscard]] error too_few(std::size_t peers, std::int64_t needed);

/// As many pipelines of `stages` even stages as there are peers for; the others are spare. A lost peer's assignment goes to
/// a spare one, or to one of a pipeline that is given up; what it held is copied from another pipeline.
class regroup {
 public:
  static constexpr std::string_view name = "regroup";
  static constexpr recovery_traits traits{.cut_alike = true};

  explicit regroup(std::int64_t stages = 2) : stages_{stages} {}

  /// It does not look back.
  [[nodiscard]] std::uint64_t interval() const noexcept { return 0; }

  CAUSEWAY_DECL result<layout> arrange(const cluster_snapshot& g);

 private:
  std::int64_t stages_;
};
static_assert(Recovery<regroup>);

}  // namespace recovery

}}}  // namespace causeway::CAUSEWAY_ABI::stage

#ifndef CAUSEWAY_COMPILED
#include <causeway/stage/impl/recovery.ipp>
#endif

#endif  // CAUSEWAY_STAGE_RECOVERY_HPP
