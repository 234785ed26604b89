// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_RUN_GROUP_HPP
#define CAUSEWAY_TRAIN_RUN_GROUP_HPP

// Who is there, as the context asks it: a membership that changes during a run (train/member.hpp, over net::fabric), or a
// fixed set of peers (train/fixed_group.hpp).

#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/parallel/elastic/step_group.hpp>
#include <causeway/policy/traits.hpp>
#include <causeway/tensor/parameters.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI {

/// The memory that all peers hold alike after a committed round, in pieces whose order and sizes are equal on all of them.
/// The first piece holds the shared parameters.
struct shared_state {
  std::vector<std::span<std::byte>> parts;
  /// Called on the trainer's thread when other contents were put there. `previous`: see ElasticPolicy::adopt.
  std::function<void(std::span<const float> previous)> adopted;
  /// Called on the trainer's thread: does to the parts what the next round did, whose mean this is. None: this policy
  /// cannot.
  std::function<result<void>(std::span<const float> mean)> replay{};
  /// What every peer has its own of: kept on this peer's disk with the parts, and put back with them when it is started
  /// again; else nobody's business.
  std::vector<std::span<std::byte>> own{};
  /// What all peers gather for a round, before they make it: samples, or what else the policy counts (`announce`); 0: each
  /// says for itself when it is ready.
  std::uint64_t round_samples = 0;
  bool by_pace = false;  ///< they come when the quickest has done enough
  /// Or when it has trained so long, and all together have made so many steps as `round_samples` says then.
  std::optional<double> round_seconds{};
  /// Numbers that the policy asks all stages of a model for in one exchange, at most (stage_peers::will_ask).
  std::size_t stage_sums = 0;
  parallel::exchange_state exchange{};  ///< what the policy keeps, and does for who has a part of the model
  /// Of a policy whose peers answer each other: called on the trainer's thread while it waits in a step for other stages.
  std::function<void()> meanwhile{};
  /// Once this peer is in, a round begins only after it has done its part, or others instead: so it never waits for one to
  /// be held back.
  bool awaited = false;
  /// So many of the parts, the first, are of the model and the inner optimizer: who has other blocks has other ones.
  std::size_t of_model = 0;
};

/// What a policy of paths, or regions, does where its group says who is on which.
template <class Comm, class Context>
void follow_with(parallel::exchange_state& state, Comm& comm, Context& ctx) {
  state.follow = [&comm, &ctx](std::optional<std::uint32_t> path) { return comm.follow(ctx, path); };
  state.parameters_of = [&comm](std::uint32_t path, std::span<float> to) { comm.parameters_of(path, to); };
}
/// And one with comm_traits::trains_paths.
template <class Comm, class Context>
void share_paths(parallel::exchange_state& state, Comm& comm, Context& ctx) {
  state.paths = state.batch_parts = static_cast<std::uint32_t>(comm.paths());
  follow_with(state, comm, ctx);
}

/// What a communication policy with comm_traits::moves_with_blocks does where blocks move. Both stay where they are.
template <class Comm, class Context>
void move_with_blocks(parallel::exchange_state& state, Comm& comm, Context& ctx) {
  state.rows = [&comm] { return comm.block_rows(); };
  state.divide = [&comm, &ctx](std::span<const parameter_segment> before) { return comm.divide(ctx, before); };
  state.rows_in_parts = Comm::traits.rows_in_parts;
  state.memory = [&comm](std::size_t) { return comm.memory(); };
  state.forget = [&comm, &ctx](std::size_t) { return comm.forget(ctx); };
  state.exchanges_next = [&comm] { return comm.exchanges_next(); };
  state.row_waits = [&comm] { return comm.row_waits(); };
  if constexpr (Comm::traits.divides_batches) {
    state.parts_for = [&comm](const std::vector<double>& speeds) { return comm.parts_for(speeds); };
  }
  using gradient_pass = std::function<result<double>()>;
  if constexpr (Comm::traits.looks_ahead) {
    state.compute = [&](const gradient_pass& pass) { return comm.compute(ctx, pass); };
  }
  if constexpr (Comm::traits.in_regions) {
    if (comm.regions() > 0) {
      state.paths = static_cast<std::uint32_t>(comm.regions());
      follow_with(state, comm, ctx);
    }
  }
  if constexpr (Comm::traits.talks_between) {
    state.meet_holders = [&](const parallel::block_holders& who) { return comm.meet_holders(ctx, who); };
  }
}

/// The exchange that a peer has been let into.
struct round_entry {
  net::any_transport* transport = nullptr;      ///< to the peers that take part, numbered without gaps
  std::uint64_t round = 0;                      ///< the one that is being made
  std::uint64_t parent = 0;                     ///< names the committed state that contributions are based on
  time_point deadline = no_deadline;            ///< for the whole exchange, from how long earlier ones took
  double share = 0;                             ///< this peer's samples / everybody's
  std::vector<double> shares{};                 ///< the same of each peer that takes part
  std::vector<std::uint64_t> identities{};      ///< of each of them, as the membership knows it: see identity()
  std::vector<std::uint32_t> paths{};           ///< of pipelines: the path of each; of swarms: of each row that counts
  std::vector<parallel::row_holders> blocks{};  ///< see parallel::exchange_entry
  std::vector<std::uint32_t> replicas{};        ///< likewise
  std::uint64_t quota = 0;                      ///< samples that the ledger lets a peer hold; 0: any number
  bool empty = false;                           ///< nobody has anything to contribute: the round only admits members
  std::uint32_t attempt = 0;                    ///< another one for every attempt at a round
  bool last = false;                            ///< with it all samples of the run's budget are contributed
  /// An exchange of this round that was called off afterwards had come to its end at this peer: what it came to counts, and
  /// goes from there to everybody.
  std::optional<net::peer_index> result_at{};
  std::span<const float> result{};  ///< that, where this peer has it: what it `received`, one after the other
  bool result_kept = false;  ///< it is what this peer's policy received last; where that was several rows, it has them

  /// Those who exchange that row; none: all who are in the exchange.
  [[nodiscard]] const parallel::row_holders* holders_of(std::size_t block) const {
    return block < blocks.size() ? &blocks[block] : nullptr;
  }

  /// Whether that was several rows, which this peer's policy has as they were.
  [[nodiscard]] bool keeps_rows() const noexcept { return result_kept && result.empty(); }
  /// Whether nobody brings anything, and nothing is known of what others brought.
  [[nodiscard]] bool nobody_counts() const {
    return !shares.empty() && !result_at && std::count(shares.begin(), shares.end(), 0.0) == std::ssize(shares);
  }
};

/// Thread safety: all calls from the trainer's thread.
class run_group {
 public:
  virtual ~run_group() = default;

  /// A number that stays the same for this peer across restarts.
  [[nodiscard]] virtual std::uint64_t identity() const = 0;

  /// How many peers the run is meant to have.
  [[nodiscard]] virtual std::uint32_t expected() const { return 1; }

  /// Whether they are always the same ones, who exchange without being let in.
  [[nodiscard]] virtual bool is_fixed() const { return false; }
  /// The exchange that a peer is in before it was let into one: that of a fixed set, else of nobody.
  [[nodiscard]] virtual round_entry view() const { return {}; }

  /// Founds, joins or rejoins the run; returns when `state`, which must outlive the group's use, holds a committed round.
  virtual result<void> open(shared_state state, thread_pool& pool) = 0;

  /// Blocks until the next exchange may begin. `samples`: what this peer has trained on since its last committed
  /// contribution, for this exchange; `later`: after them, for the one that follows. Entering again before the exchange
  /// failed gives the same entry.
  virtual result<round_entry> enter(std::uint64_t samples, std::uint64_t later) = 0;

  /// Without waiting: this peer has trained on `samples`, and `gathered` so much of what a round is of
  /// (shared_state::round_samples). Whether it is time to enter.
  virtual bool announce(std::uint64_t, std::uint64_t) { return true; }

  /// Without waiting: says that this peer is ready, as `enter` does, with as many. Whether there is more for that to do
  /// than to wait for the others.
  virtual bool stand_by(std::uint64_t, std::uint64_t) { return true; }

  /// Whether others have begun an exchange that this peer said it was ready for, and wait for it to enter.
  [[nodiscard]] virtual bool exchange_waits() const { return false; }

  /// Whether an exchange is entered only when its mean is wanted, and nothing is under way during inner steps.
  [[nodiscard]] virtual bool exchanges_at_once() const { return false; }
  /// Of such exchanges: the one after the step under way is the run's last, whatever is due.
  [[nodiscard]] virtual bool run_ends() const { return false; }
  /// Whether a peer's part of the model may change, with what the policy keeps for it (parallel::exchange_state::rows).
  [[nodiscard]] virtual bool moves_blocks() const { return false; }
  /// The peers of a stage make the same steps, each with other values, and meet in records alone (parallel::local_swarm).
  [[nodiscard]] bool is_swarm() const { return exchanges_at_once() && !moves_blocks(); }
  /// Then: whether those who exchange may hold different blocks, so that each block is a row (round_entry::blocks).
  [[nodiscard]] virtual bool rows_by_block() const { return false; }

  /// Others are given the shared parameters from there: a copy, where they are changed for a while; or their own place.
  virtual void offer_parameters_at(std::span<float>) {}

  /// To the peers of the exchange entered last, in their order: one that stays when that exchange is over, whoever comes
  /// and goes. A peer that is lost ends what is under way with it. Ends those that were given before.
  [[nodiscard]] virtual net::any_transport lasting() { return {}; }
  /// Where blocks move between peers, the same before the exchange: to those whom the next one is expected to be with. Once
  /// after each exchange, and only where all peers come from it; else none.
  [[nodiscard]] virtual std::optional<round_entry> lines() { return {}; }
  /// To the same, in the same order, until the attempt is over or called off: what is under way then ends.
  [[nodiscard]] virtual net::any_transport of_attempt() { return {}; }

  /// This peer goes. It takes part until the others do without it; then `enter` or `decide` ends with errc::cancelled.
  virtual void leave() {}

  /// A row of the exchange is there, or how many peers each of its values came from: in their order, before `exchanged`.
  /// Where a gradient has several rows, also the parts of it that this one is of.
  virtual void received(std::span<const float>, const std::vector<index_range>*) {}

  /// The exchange went through; the shared state is about to change. errc::cancelled: the attempt is over, nothing may
  /// come of it. `mean`: what came of it, the same bits on all peers, for those who could not take part; empty where that
  /// was more than one row.
  virtual result<void> exchanged(std::span<const float> mean) = 0;

  /// The shared state is that of a round which was just made. A fixed set commits it. `hash`: of what all hold alike, by
  /// the number of the round.
  virtual void made(const std::function<std::uint64_t(std::uint64_t)>&) {}

  /// Judges an attempted step. `candidate`: the shared state in memory is that of the round entered, complete. commit: the
  /// shared state is that of a committed round. retry: the exchange has to be entered again. An error: this peer is out.
  virtual result<verdict> decide(const result<void>& outcome, bool candidate) = 0;

  /// Whether `sit_out` may be called.
  [[nodiscard]] virtual bool can_sit_out() const { return false; }

  /// What this peer computed since its last commit cannot be used, and `why` says what is wrong with it: gives it up, gets
  /// the shared state back as it was committed, and calls shared_state::adopted. For the rounds that follow, more of them
  /// after each time in a row, `draw` gives nothing: this peer takes part with no contribution. Ends with verdict::commit,
  /// or with an error where it happened too often.
  virtual result<verdict> sit_out(const error& why) { return why; }

  /// The newest committed round that this peer holds, and the name of its state.
  [[nodiscard]] virtual std::uint64_t round() const = 0;
  [[nodiscard]] virtual std::uint64_t parent() const = 0;
  [[nodiscard]] virtual std::uint64_t state_hash() const = 0;

  /// Samples that the last `decide` put into a commit, out of those given to `enter`.
  [[nodiscard]] virtual std::uint64_t contributed() const = 0;

  /// Up to `count` sample numbers that the ledger gave this peer, after the first `skipped` of them.
  [[nodiscard]] virtual std::vector<std::uint64_t> draw(std::uint64_t skipped, std::uint64_t count) = 0;
  /// Whether every sample of the run's budget is in a commit.
  [[nodiscard]] virtual bool budget_used() const = 0;

  /// The group of elastic pipelines that this is, if it is one.
  [[nodiscard]] virtual parallel::step_group* steps() noexcept { return nullptr; }

  /// The trainer ends: the memory that `open` was given is about to go, and is not touched after this call. `stays`:
  /// somebody else holds this group, too, so what was committed last is copied, and given to who asks for it, until the
  /// group goes. Of what is above only `leave` and what changes nothing may be called from then on.
  virtual void close(bool) {}
};

/// Closes a group when it goes, if it was given one: a trainer's last member.
class opened_group {
 public:
  opened_group() = default;
  /// `holders`: of the group, among those that go with this object; without it.
  explicit opened_group(std::shared_ptr<run_group> group, long holders) : group_{std::move(group)}, holders_{holders + 1} {}
  opened_group(opened_group&&) noexcept = default;
  opened_group& operator=(opened_group&& other) noexcept {
    std::swap(group_, other.group_);
    std::swap(holders_, other.holders_);
    return *this;
  }
  ~opened_group() {
    if (group_) group_->close(group_.use_count() > holders_);
  }

 private:
  std::shared_ptr<run_group> group_;
  long holders_ = 0;
};

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_RUN_GROUP_HPP
