// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_PIPELINE_PEER_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_PIPELINE_PEER_HPP

// What a peer of pipelines does that are laid out anew when peers come and go, whatever their replicas exchange and when:
// it takes part in attempts, meets the others, takes its assignment in a layout, fetches the blocks that belong there,
// computes, and goes back to what is saved when nobody has a block any more.

#include <causeway/collective/channels.hpp>
#include <causeway/collective/options.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/io/storage.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/parallel/elastic/assigned_work.hpp>
#include <causeway/parallel/elastic/block_ownership.hpp>
#include <causeway/parallel/elastic/block_sums.hpp>
#include <causeway/parallel/elastic/cohort_exchange.hpp>
#include <causeway/parallel/elastic/cohorts.hpp>
#include <causeway/parallel/elastic/counted_steps.hpp>
#include <causeway/parallel/elastic/exchange_arrivals.hpp>
#include <causeway/parallel/elastic/part_change.hpp>
#include <causeway/parallel/elastic/peer_inventory.hpp>
#include <causeway/parallel/elastic/saved_rounds.hpp>
#include <causeway/parallel/elastic/shared_blocks.hpp>
#include <causeway/parallel/elastic/step_group.hpp>
#include <causeway/parallel/elastic/unsound_steps.hpp>
#include <causeway/parallel/pipeline/embedding_base.hpp>
#include <causeway/stage/activation.hpp>
#include <causeway/stage/layout.hpp>
#include <causeway/stage/recovery.hpp>
#include <causeway/stage/schedules.hpp>
#include <causeway/tensor/batch.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// One peer. For the trainer's thread; stays where it is once it began.
struct pipeline_peer {
  /// Kinds of messages on the channel of state; a gather takes two.
  enum channel : std::uint32_t {
    inventory_channel = 0,
    progress_channel = 2,
    sums_channel = 4,
    alike_channel = 6,
    move_channel = 8,
    source_channel = 9,
    done_channel = 10,
    here_channel = 12,
    counts_channel = 13,
    saved_channel = 14,
    memory_channel = 16
  };

  step_group* group = nullptr;  ///< the trainer's, from when it starts
  block_ownership held{};
  saved_rounds saved{};
  step_attempt attempt{};  ///< the one under way
  stage::layout layout{};
  std::map<std::uint64_t, net::peer_index> index_of{};  ///< by id: the transport's number of each peer of the attempt
  const stage::assignment* assignment = nullptr;        ///< in `layout`; none: this peer is spare
  stage::layout::place place{};
  embedding_base base{};  ///< where the activation codec reads one
  unsound_steps unsound{};
  std::optional<std::uint32_t> judged{};  ///< the path whose shared parameters `forward_only` takes; none: the live ones
  std::string said{};                     ///< what this peer waits for
  bool by_block = false;                  ///< peers that exchange may hold different blocks, each of which is a row
  bool shares_table = false;              ///< both ends of the model have it: one more row
  bool leaves = false;                    ///< after the next step
  bool alone = false;                     ///< it was called away from waiting, and the run stands still
  std::size_t staying = 0;                ///< peers of the attempt that do not
  std::uint64_t sums = 0;                 ///< of this attempt, by `sum`: names their messages
  std::uint64_t received_blocks = 0;
  std::uint64_t made_up_blocks = 0;
  std::vector<float> shared_before{};  ///< see note_shared
  exchange_arrivals arrivals{};        ///< where replicas take steps of their own
  counted_steps counted{};             ///< likewise
  std::uint64_t in_vain = 0;           ///< the state of the run in which it was called away last

  [[nodiscard]] const step_record& record() const { return group->record(); }
  [[nodiscard]] std::uint64_t identity() const { return group->identity(); }

  // ---- attempts ---------------------------------------------------------------------------------------------------------

  /// `chunks`: the schedule's.
  CAUSEWAY_DECL result<void> check(std::string_view who, std::int64_t micro_batches, std::uint32_t chunks) const;
  /// Whether the model's ends are one block, and have to be.
  CAUSEWAY_DECL [[nodiscard]] static result<void> check_ends(std::string_view who, bool joined, bool wanted);
  /// The trainer starts: all of these, and whether the schedule is one that the recovery policy can do with.
  template <class Recovery, class Schedule>
  result<void> check(std::string_view who, auto& ctx, std::int64_t micro_batches, std::uint32_t chunks) {
    group = ctx.membership().steps();
    shares_table = ctx.model().shares_table();
    CAUSEWAY_TRY(check(who, micro_batches, chunks));
    CAUSEWAY_TRY(check_ends(who, ctx.model().joined_ends(), Recovery::traits.joined_ends));
    const bool has_order = Recovery::traits.keeps_work || Recovery::traits.joined_ends;
    if (!has_order || std::is_same_v<Schedule, stage::one_f_one_b>) return {};
    return fail(errc::unsupported, std::string{who},
                std::string{Recovery::name} + " has an order of its own; use stage::one_f_one_b");
  }
  CAUSEWAY_DECL void begin(const nn::model_part& part, std::int64_t layers, const std::optional<io::any_storage>& storage,
                           const std::string& folder);

  /// Waits for one. Whether it is another than before.
  CAUSEWAY_DECL result<bool> begin_attempt();

  /// `number`: of what the attempt does several times.
  CAUSEWAY_DECL [[nodiscard]] net::message_id named(channel kind, std::uint64_t number = 0) const;
  [[nodiscard]] collective::collective_options how(auto& ctx) const {
    collective::collective_options options = ctx.exchange_options();
    options.deadline = attempt.deadline;
    return options;
  }
  /// `own` of every peer of the attempt, by the transport's numbers.
  template <class T>
  result<std::vector<T>> of_everybody(auto& ctx, channel kind, const T& own, std::uint64_t number = 0) const {
    return of_all(*attempt.transport, named(kind, number), own, how(ctx));
  }

  /// values[i] ← its sum over the blocks of the model, each counted at one of its holders; the same bits on all peers of
  /// the attempt, which must all call it, equally often. 8 bytes a value to each.
  CAUSEWAY_DECL result<void> sum(std::span<double> values, collective::collective_options options);
  [[nodiscard]] bool is_first_stage() const noexcept { return assignment != nullptr && place.rank == 0; }
  /// Whether it computes the model's first block in its replica: where the first stage was lost, its shadow does.
  [[nodiscard]] bool computes_first() const {
    return assignment != nullptr && computer_of(layout.replicas[place.replica], 0) == identity();
  }

  // ---- who holds what ---------------------------------------------------------------------------------------------------

  /// What this peer says of itself.
  CAUSEWAY_DECL [[nodiscard]] peer_inventory described(std::int64_t layers, const log_sink& log);
  /// The same of everybody: who is there from now on.
  CAUSEWAY_DECL result<cluster_inventory> gather(const net::message_id& id, const peer_inventory& own,
                                                 const pipeline_agreement& ours,
                                                 const collective::collective_options& options);
  /// Equal on peers that can be stages of one pipeline.
  template <class Recovery, class Schedule, class Codec>
  [[nodiscard]] pipeline_agreement agreement(auto& ctx, std::string_view who, std::int64_t micro_batches,
                                             const Recovery& recovery, const Codec& codec) const {
    hasher h;
    h.add_value(std::uint64_t{ctx.model().config_hash()}).add_value(hash_text(Schedule::name)).add_value(hash_text(who));
    h.add_value(hash_text(Recovery::name)).add_value(recovery.interval());
    h.add_value(codec.agreement()).add_value(base.agreement()).add_value(micro_batches);
    if constexpr (stage::MakingUp<Recovery>) h.add_value(recovery.agreement());
    return {h.finish(), ctx.model().blocks(), static_cast<std::uint32_t>(micro_batches)};
  }

  /// errc::cancelled: the attempt comes to nothing, and the membership begins another, ever later. Any other error that
  /// more peers would not mend is `why` itself, and for who leaves any. `what` waits.
  CAUSEWAY_DECL [[nodiscard]] error wait_for_more(const log_sink& log, const std::string& what, const error& why);

  /// Before they go back: who left has saved what it held; with what is here that may be the state of now.
  void save_the_rest(auto& ctx, const cluster_inventory& inventory) {
    shared_blocks blocks{ctx, group->state()};
    const auto ours = [&](std::int64_t b) { return saved.savers.is_first(inventory.snapshot.holders(b), identity()); };
    const auto kept = saved.save_if(blocks, held, record(), ours);
    if (!kept) ctx.log()(severity::warning, kept.error().text());
  }

  /// The newest state that the peers find saved whole between them: they vote on it as on a step, and those who find blocks
  /// of it have them again. Whether this peer has what the policy keeps alike, too. Errors: as wait_for_more.
  result<bool> go_back(auto& ctx, const std::string& what, const error& why) {
    const std::int64_t layers = ctx.model().blocks();
    CAUSEWAY_ASSIGN(const saved_states found, saved.found(layers, group->state()));
    CAUSEWAY_ASSIGN(const auto everywhere, of_everybody(ctx, saved_channel, found));
    CAUSEWAY_TRY(vote_for_saved(everywhere, layers, ctx.step(), ctx.log(), what, why));
    return saved.load(found, record(), layers, held, group->state());
  }

  /// This peer takes its assignment in `layout`. Whether it has all that it computes with there.
  CAUSEWAY_DECL bool take_assignment(std::int64_t layers, const nn::model_part& part);
  /// Where pipelines have paths: that of its pipeline, if it is in one.
  CAUSEWAY_DECL [[nodiscard]] std::optional<std::uint32_t> path() const;
  /// Takes it. Whether it is another than before; see exchange_state::follow.
  CAUSEWAY_DECL [[nodiscard]] bool follow_path() const;
  /// What that needs comes, what others need goes, and what is lost is made up. `blocks`: a shared_blocks. `ready`: as
  /// take_assignment said.
  result<void> fetch(auto& blocks, const cluster_inventory& inventory, bool ready, std::uint64_t number = 0,
                     std::vector<stage::made_up_block> made = {}) {
    const nn::model_part part = assignment != nullptr ? nn::model_part{assignment->held()} : blocks.model().part();
    part_change change{held,
                       record(),
                       inventory,
                       layout,
                       std::move(made),
                       {*attempt.transport, named(move_channel, number), named(source_channel, number), attempt.deadline}};
    if (!ready || change.concerns_anybody()) CAUSEWAY_TRY(change.run(blocks, part, ready));
    received_blocks += change.received();
    made_up_blocks += change.made_up_here();
    return {};
  }

  /// From here on a stage that was made up makes steps by its own count, and of its own size.
  result<void> take_rate(auto& ctx, auto& blocks, float factor) {
    if (assignment == nullptr) return {};
    ctx.multiply_learning_rate(held.began(blocks.model().part()) > 0 ? factor : 1.0F, true);
    return held.count_steps(blocks, record());
  }

  /// An exchange is about to be applied, after which comes `note_movement`.
  void note_shared(auto& ctx) {
    const auto now = shared_blocks{ctx, group->state()}.parameters();
    shared_before.assign(now.begin(), now.end());
  }
  /// Where replicas take steps of their own, how far an exchange moved the shared parameters stands for the gradient of a
  /// step: its squares are those by which a lost block is made up. Nothing without a `note_shared` before.
  void note_movement(auto& ctx) {
    shared_blocks blocks{ctx, group->state()};
    const std::span<const float> now = blocks.parameters();
    std::vector<float> moved = std::exchange(shared_before, {});
    if (moved.empty() || now.size() != moved.size()) return;
    for (std::size_t i = 0; i < moved.size(); ++i) moved[i] = now[i] - moved[i];
    block_squares squares;
    for (const nn::block_range& run : blocks.model().part().ranges(blocks.model().blocks()))
      add_squares(squares, ctx, moved, run, false);
    held.note_squares(std::move(squares.of));
  }

  // ---- what an assigned peer does ------------------------------------------------------------------------------------

  /// A step of training over the layout's part of a batch: the loss summed over the tokens whose last stage is here. `step`
  /// names the boundaries.
  template <stage::Schedule Order, stage::Recovery Recovery, class Codec>
  result<double> train(auto& ctx, const Order& order, const Recovery& recovery, Codec& codec, const batch& b,
                       std::int64_t micro_batches, float scale, std::uint64_t step) const {
    const auto gradients = ctx.gradients();
    kernels::zero(ctx.pool(), gradients.data(), static_cast<std::int64_t>(gradients.size()));
    if (assignment == nullptr) return 0.0;
    CAUSEWAY_ASSIGN(const assigned_work work, work_of(layout, place, order, recovery));
    const auto dropout = dropout_of(ctx.step(), work.first, work.schedule.micro_batches);
    const assigned_batch share{b, static_cast<std::uint32_t>(micro_batches), assignment->computes, scale, true, dropout};
    return pass_assigned(ctx, *attempt.transport, index_of, codec, work, order, share, boundaries(ctx.step(), step));
  }
  /// Samples of a global batch of so many that its replica trains on.
  [[nodiscard]] std::uint64_t samples_of(std::int64_t batch, std::int64_t micro_batches) const {
    if (assignment == nullptr) return 0;
    return static_cast<std::uint64_t>(batch / micro_batches) * layout.replicas[place.replica].micro_batches;
  }
  CAUSEWAY_DECL [[nodiscard]] static std::vector<std::uint64_t> dropout_of(std::uint64_t step, std::uint32_t first,
                                                                           std::uint32_t count);
  CAUSEWAY_DECL [[nodiscard]] boundary_options boundaries(std::uint64_t seed, std::uint64_t step) const;

  /// Forwards only, in `l`, where this peer is at `at`; boundaries cross as f32.
  result<double> forward_only(auto& ctx, const stage::layout& l, const stage::layout::place& at, const batch& b,
                              std::uint32_t pieces, std::uint64_t step) {
    CAUSEWAY_ASSIGN(const assigned_work work, forwards_of(l, at));
    stage::plain exact;
    const path_in_place put{ctx, group->state(), judged};
    return pass_assigned(ctx, *attempt.transport, index_of, exact, work, stage::one_f_one_b{},
                         {b, pieces, assignment->computes, 0.0F, false},
                         {.channel = evaluation_channel, .step = step, .deadline = attempt.deadline});
  }

  /// The same of this peer's part where the layout's pipelines share the pieces out evenly; 0 of a spare peer.
  result<double> evaluate(auto& ctx, const batch& b, std::uint32_t pieces, std::uint64_t step) {
    if (assignment == nullptr) return 0.0;
    stage::layout shared_out = layout;
    const auto shares = stage::even_shares(pieces, shared_out.replicas.size());
    for (std::size_t r = 0; r < shares.size(); ++r) shared_out.replicas[r].micro_batches = shares[r];
    return forward_only(ctx, shared_out, place, b, pieces, step);
  }

  /// The exchange of what this peer has, as assigned, with all who hold the same blocks, each by the part of a batch that
  /// goes through it. A spare peer's is with itself. Of a layout whose pipelines are cut alike, but `by_block`: then it is
  /// of all who hold any. `last`: the run ends with it.
  CAUSEWAY_DECL [[nodiscard]] exchange_entry entry(bool last = false) const;
  /// The same with these peers, this one among them.
  CAUSEWAY_DECL [[nodiscard]] exchange_entry entry(row_shares with, bool last) const;

  /// What names the cohort that begins in a slot of `layout` in this attempt.
  CAUSEWAY_DECL [[nodiscard]] std::uint64_t new_cohort(std::size_t slot) const;
  /// Who comes to the exchange at the attempt's end, and what replicas have made till then, is listened to from now on.
  CAUSEWAY_DECL void begin_arrivals();
  /// A policy whose peers talk between two exchanges is told who holds the same blocks, once in an attempt. `going_on`:
  /// [slot] the cohorts that do; 0: a new one.
  CAUSEWAY_DECL result<void> meet_holders(const std::vector<std::uint64_t>& going_on);

  /// What the run has once that went through, at step `step`. `interval`: the recovery policy's.
  CAUSEWAY_DECL [[nodiscard]] step_record next_round(std::uint64_t step, std::uint64_t interval) const;

  /// Values that are not finite: see unsound_steps.
  error blame_itself(auto& ctx, const error& why) {
    shared_blocks blocks{ctx, group->state()};
    return unsound.judge(ctx.step(), why, held.drop_spoilt(blocks), ctx.log());
  }

  /// The shared state of the blocks that this peer is the first to hold of those that reach its storage, if there is one.
  result<void> save_blocks(auto& ctx) {
    shared_blocks blocks{ctx, group->state()};
    return saved.save(blocks, held, layout, record(), group->state(), identity());
  }

 private:
  // Two consecutive ones.
  static constexpr std::uint32_t evaluation_channel = collective::channels::activations + 2;

  CAUSEWAY_DECL result<void> vote_for_saved(std::span<const saved_states> everywhere, std::int64_t layers,
                                            std::uint64_t step, const log_sink& log, const std::string& what,
                                            const error& why);
};

/// errc::not_found for blocks that nobody who is there has.
CAUSEWAY_DECL [[nodiscard]] error missing(const nn::block_range& blocks);

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/elastic/impl/pipeline_peer.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_ELASTIC_PIPELINE_PEER_HPP
