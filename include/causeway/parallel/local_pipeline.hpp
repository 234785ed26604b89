// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_LOCAL_PIPELINE_HPP
#define CAUSEWAY_PARALLEL_LOCAL_PIPELINE_HPP

// Pipelines whose peers come and go, and whose replicas take steps of their own: DiLoCo between whole pipelines. A round is
// one attempt of the membership, and the exchange at its end is voted on before anything is applied.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/io/storage.hpp>
#include <causeway/net/deadline.hpp>
#include <causeway/parallel/elastic/cohort_exchange.hpp>
#include <causeway/parallel/elastic/cohort_progress.hpp>
#include <causeway/parallel/elastic/cohorts.hpp>
#include <causeway/parallel/elastic/pipeline_peer.hpp>
#include <causeway/parallel/elastic/replica_steps.hpp>
#include <causeway/parallel/elastic/replica_sums.hpp>
#include <causeway/parallel/elastic/shared_blocks.hpp>
#include <causeway/parallel/elastic/step_group.hpp>
#include <causeway/parallel/micro_batches.hpp>
#include <causeway/parallel/stage_model.hpp>
#include <causeway/policy/concepts.hpp>
#include <causeway/stage/activation.hpp>
#include <causeway/stage/layout.hpp>
#include <causeway/stage/recovery.hpp>
#include <causeway/stage/schedules.hpp>
#include <causeway/tensor/batch.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

struct local_pipeline_options {
  std::int64_t micro_batches = 8;  ///< of a global batch, shared out over the replicas; equal on all peers
  /// As elastic_pipeline_options: where shared parameters, both optimizers' state and what the communication policy keeps
  /// are saved, and where the run goes back to when nobody has a block any more.
  std::optional<io::any_storage> storage{};
  std::string folder = "blocks";
  std::uint64_t store_every = 1;  ///< rounds; the first is saved too
  /// Of the run; equal on all peers. After the last of them everything is exchanged, and all holders of a block end with
  /// the same parameters, whatever the policy leaves to each of them between. 0: there is no last one.
  std::uint64_t steps = 0;
};

/// After DiLoCo (Douillard et al., arXiv 2311.08105), with a pipeline for each of its workers. In a round, replica r takes
/// H inner steps on its share of every global batch, clipped by the norm of its own gradient; then the holders of each
/// block exchange what theirs moved, weighted by the replicas' micro-batches, by the communication policy. No paper has the
/// rules for peers that are lost (docs/design/local_pipelines.md). A replica that is whole loses the step under way. One
/// that lost a peer gives its round up: another of its peers and spare ones makes it, or it counts without that share. If
/// none is whole, the round begins anew, laid out for who is there.
///
/// Every peer is given the same global batch, as a function of trainer.context().step(), which goes back where a round
/// begins anew. Needs an environment whose group is a member or a pipeline_group, fault::quorum, an inner
/// optimizer whose state can be divided (optim::Divisible), and a policy with comm_traits::moves_with_blocks (rule C7);
/// with `rows_in_parts` where replicas are cut apart (rule C8), or both ends of the model share a token table (else start()
/// is errc::unsupported; with streamed_steps always). The trainer stays where it is then.
///
/// Bytes: boundaries as parallel::pipeline; 16 bytes, and a shared table's gradient, within a replica in each step; between
/// the holders of a block one exchange of it in H steps. Memory beside elastic_pipeline's: what the policy keeps, one row.
template <stage::Recovery Recovery = stage::recovery::regroup, class Schedule = stage::one_f_one_b,
          stage::ActivationCodec Codec = stage::plain>
class local_pipeline {
  using steps_type = typename replica_steps<Schedule>::type;
  static_assert(!Codec::traits.stateful && !Codec::traits.needs_samples,
                "causeway-P6: micro-batches of elastic pipelines go through other peers from round to round, which cannot "
                "know what a codec with a memory remembers; use stage::plain, another stage::coded or stage::subspace. "
                "docs/reference/rules.md#p6");

 public:
  static constexpr std::string_view name = replica_steps<Schedule>::type::name;
  static constexpr parallel_traits traits{.staged = true,
                                          .reroutes = true,
                                          .sums_over_stages = true,
                                          .moves_blocks = true,
                                          .cut_apart = stage::cut_apart<Recovery>,
                                          .rows_in_parts = exchanges_blocks<Recovery, steps_type>,
                                          .detours = stage::Rerouting<Recovery>};
  static constexpr std::uint32_t state_version = 5;

  explicit local_pipeline(local_pipeline_options options = {}, Recovery recovery = Recovery{},
                          Schedule schedule = Schedule{}, Codec codec = Codec{})
      : options_{std::move(options)},
        recovery_{std::move(recovery)},
        steps_{std::move(schedule)},
        codec_{std::move(codec)} {}

  result<void> start(auto& ctx) {
    if constexpr (has_stages<std::remove_cvref_t<decltype(ctx.model())>>()) return begin(ctx);
    return {};  // the refusal is the only error
  }

  /// The mean loss over the micro-batches of this peer's replica; 0 for a peer that rests.
  result<double> forward_backward(auto& ctx, const batch& b) {
    CAUSEWAY_TRY(check_batch(name, b, options_.micro_batches));
    sequences_ = static_cast<std::uint64_t>(b.sequences);
    for (;;) {
      result<void> outcome = gather(ctx, true);
      if (!outcome && begins_anew_) return outcome.error();
      if (outcome) {
        const auto loss = step(ctx, b);
        if (loss) return *loss;
        outcome = loss.error();
      }
      CAUSEWAY_TRY(peer_.group->failed(outcome.error()));
    }
  }

  result<float> norm(auto&) { return steps_.norm(progress_); }

  /// A disk that fails costs the copy, not the round.
  result<void> after_step(auto& ctx) {
    if constexpr (stage::MakingUp<Recovery>) peer_.note_movement(ctx);
    if (std::exchange(saves_, false)) {
      if (const auto saved = save_blocks(ctx); !saved)
        ctx.log()(severity::warning, "blocks were not saved: " + saved.error().text());
    }
    return codec_.commit_step();
  }

  /// The shared state of the blocks that this peer is the first to hold of those that reach its storage, if there is one.
  result<void> save_blocks(auto& ctx) { return peer_.save_blocks(ctx); }

  /// All peers call it with the same batch, as often before the same step: the mean loss of this peer's replica, on its own
  /// parameters, or the shared ones of a `path` through modules. Boundaries cross as f32. errc::cancelled where there is
  /// none, since a peer was lost, this one rests, or nobody comes any more (member_options::called_away): train on.
  result<double> evaluate(auto& ctx, const batch& b, std::optional<std::uint32_t> path = {}) {
    peer_.judged = path;
    const std::int64_t pieces = std::gcd(b.sequences, options_.micro_batches);
    CAUSEWAY_TRY(check_batch(name, b, pieces));
    for (;;) {
      const auto ready = gather(ctx, false);
      if (!ready && begins_anew_) return ready.error();
      const auto sum =
          ready ? loss_of_replica(ctx, peer_, progress_, known_evaluations_, b, pieces) : result<double>{ready.error()};
      if (!sum) {
        CAUSEWAY_TRY(peer_.group->failed(sum.error()));
        if (peer_.alone) return sum.error();
        continue;
      }
      progress_.note_evaluation(*sum);
      if (std::isfinite(*sum)) return *sum / static_cast<double>(b.tokens());
      return fail(errc::cancelled, "evaluation",
                  "it has no outcome here: this peer rests, or the others are through with it");
    }
  }

  /// Between two steps, local progress included: all peers that save and start again there go on with the same bits.
  void serialize(auto& ar) { ar(peer_.held, progress_); }

  /// Of the last attempt: replicas in their slots, without assignments where nobody trains; and who took part in it.
  [[nodiscard]] const stage::layout& layout() const noexcept { return peer_.layout; }
  [[nodiscard]] std::uint32_t peers() const noexcept { return static_cast<std::uint32_t>(peer_.index_of.size()); }
  /// Blocks that this peer has received since it was built, and such that it made up because nobody had them.
  [[nodiscard]] std::uint64_t received_blocks() const noexcept { return peer_.received_blocks; }
  [[nodiscard]] std::uint64_t interpolated_blocks() const noexcept { return peer_.made_up_blocks; }
  /// Steps of rounds that this peer had begun and gave up.
  [[nodiscard]] std::uint64_t given_up_steps() const noexcept { return progress_.given_up_steps(); }

 private:
  result<void> begin(auto& ctx) {
    CAUSEWAY_TRY((peer_.template check<Recovery, Schedule>(name, ctx, options_.micro_batches, steps_.chunks())));
    CAUSEWAY_TRY(peer_.base.make(ctx.pool(), ctx.model(), codec_));
    peer_.begin(ctx.model().part(), ctx.model().blocks(), options_.storage, options_.folder);
    peer_.held.assigned(progress_.computes(), progress_.now().slot);
    peer_.by_block = stage::cut_apart<Recovery> || peer_.shares_table;
    ctx.stages().ask(peer_);
    CAUSEWAY_TRY(steps_.begin(ctx.model(), progress_, codec_));
    peer_.group->exchange_by(
        {[this, &ctx] { return enter(ctx); }, [this, &ctx](std::span<const float> mean) { return exchanged(ctx, mean); },
         [this, &ctx] { return ends_at(ctx.step() + 1); }, [this, &ctx] { return is_enough(ctx); },
         [this] { return peer_.arrivals.any_or_over(); },
         [this] { return progress_.began_round() ? peer_.entry() : exchange_entry{}; }, peer_.by_block});
    return {};
  }

  // Success: this peer knows its assignment, and has what it needs there. `begins_anew_`: at the round's beginning, and the
  // step under way, if one is, ends with that.
  result<void> gather(auto& ctx, bool ends_step) {
    begins_anew_ = false;
    const auto another = peer_.begin_attempt();
    if (!another && is_left_behind(ctx) && ends_step) peer_.group->finished_by_others();
    if (!another) return another.error();
    if (gathered_ && !*another) return {};
    gathered_ = false;
    CAUSEWAY_ASSIGN(const cluster_inventory inventory, meet(ctx));
    CAUSEWAY_ASSIGN(const auto members, members_of(ctx, inventory));
    if (const auto taken = bring_up(ctx, members); !taken) return go_back(ctx, taken.error());
    progress_.met(members);
    const exchange_state& policy = peer_.group->state();
    auto made =
        arrange_cohorts(recovery_, inventory.snapshot, members, peer_.record().state, policy.batch_parts, policy.parts_for);
    if (!made) return peer_.wait_for_more(ctx.log(), "the round", made.error());
    const auto lost = stage::lost_for_good(inventory.snapshot, stage::made_up_by(recovery_, inventory.snapshot));
    if (lost.size() > 0) return go_back(ctx, missing(lost));
    peer_.layout = std::move(made->layout);
    const auto assigned = take_assignment(ctx, inventory, members, made->names);
    if (begins_anew_ && ends_step) peer_.group->finished_by_others();
    return assigned;
  }

  bool is_left_behind(auto& ctx) {  // the others are through with the run; what this peer has stays older
    begins_anew_ = peer_.alone && peer_.record().step > ctx.step() && peer_.record().state != mean_of_;
    if (!begins_anew_) return false;
    give_up();
    ctx.resume_at(peer_.record().step);
    return true;
  }

  result<cluster_inventory> meet(auto& ctx) {
    const peer_inventory own = peer_.described(ctx.model().blocks(), ctx.log());
    auto ours = peer_.template agreement<Recovery, steps_type>(ctx, name, options_.micro_batches, recovery_, codec_);
    ours.hash = mix(ours.hash, steps_.agreement(), peer_.group->state().paths);
    return peer_.gather(peer_.named(pipeline_peer::inventory_channel), own, ours, peer_.how(ctx));
  }

  // By place in inventory.snapshot.peers.
  result<std::vector<cohort_member>> members_of(auto& ctx, const cluster_inventory& inventory) {
    cohort_member own = progress_.described(ctx.step(), peer_.record());
    steps_.describe(ctx, codec_, own);
    CAUSEWAY_ASSIGN(const auto all, peer_.of_everybody(ctx, pipeline_peer::progress_channel, own));
    std::vector<cohort_member> members;
    for (const net::peer_index i : inventory.index_of) members.push_back(all[i]);
    return members;
  }

  // Where somebody missed a round, or has just come.
  result<void> bring_up(auto& ctx, std::span<const cohort_member> members) {
    const std::uint64_t state = peer_.record().state;
    const auto has = [state](const cohort_member& m) { return m.state == state; };
    if (std::all_of(members.begin(), members.end(), has)) return {};
    return take_alike(*peer_.attempt.transport, peer_.named(pipeline_peer::alike_channel), peer_.group->state(),
                      has(progress_.now()), peer_.how(ctx));
  }

  // To a state that is saved.
  result<void> go_back(auto& ctx, const error& why) {
    if (why.code != errc::not_found) return why;
    CAUSEWAY_ASSIGN(const bool alike, peer_.go_back(ctx, "the round", why));
    progress_.go_back(alike ? peer_.record().state : 0);  // whatever this peer has moved is of another state
    return fail(errc::cancelled, "round", "the run went back to step " + std::to_string(peer_.record().step));
  }

  result<void> take_assignment(auto& ctx, const cluster_inventory& inventory, std::span<const cohort_member> members,
                               const std::vector<std::uint64_t>& names) {
    const bool ready = peer_.take_assignment(ctx.model().blocks(), ctx.model().part());
    const bool was_assigned = peer_.assignment != nullptr;
    const std::uint64_t cohort = progress_.now().cohort;
    const bool goes_on = was_assigned && cohort != 0 && names[peer_.place.replica] == cohort;
    goes_on ? progress_.go_on_with(peer_) : give_up();
    shared_blocks blocks{ctx, peer_.group->state()};
    CAUSEWAY_TRY(peer_.fetch(blocks, inventory, ready, 0, stage::made_up_by(recovery_, inventory.snapshot)));
    if constexpr (stage::MakingUp<Recovery>) CAUSEWAY_TRY(peer_.take_rate(ctx, blocks, recovery_.rate_factor()));
    const bool on_another_path = peer_.follow_path();
    if ((!ready || on_another_path) && !goes_on) blocks.begin_from_shared(peer_.path());
    if (was_assigned && !goes_on) CAUSEWAY_TRY(steps_.begin_replica(ctx, peer_));
    peer_.begin_arrivals();
    peer_.group->expects(static_cast<std::uint32_t>(peer_.layout.replicas.size()));
    known_evaluations_ = {};
    if (was_assigned)
      known_evaluations_ = evaluations_in(peer_.layout.replicas[peer_.place.replica], inventory, members, progress_.now());
    const auto begun = goes_on ? steps_.go_on(ctx, as_assigned(ctx), inventory, members) : begin_anew(ctx);
    const auto met = peer_.meet_holders(names);
    gathered_ = met.has_value();
    return met ? begun : met;
  }
  void give_up() {
    progress_.leave_cohort();
    steps_.forget();
  }

  result<void> begin_anew(auto& ctx) {
    if (!progress_.join_cohort(peer_, ctx.step())) return {};
    peer_.group->state().begin_anew();
    peer_.held.count_without(ctx, peer_.record());
    ctx.resume_at(peer_.record().step);
    begins_anew_ = true;
    return fail(errc::cancelled, "step", "the round begins anew from step " + std::to_string(peer_.record().step));
  }

  result<double> step(auto& ctx, const batch& b) {
    const std::uint64_t samples = peer_.samples_of(b.sequences, options_.micro_batches);
    ctx.contribution().takes_part(samples);
    if (peer_.assignment != nullptr)
      return progress_.timed(ctx.clock(), peer_.attempt.deadline, samples,
                             [&] { return steps_.run(ctx, as_assigned(ctx), b); });
    progress_.rests();
    ctx.skip_inner_step();
    return 0.0;
  }
  [[nodiscard]] replica_step<Recovery, Codec> as_assigned(auto& ctx) {
    return {peer_, progress_, recovery_, codec_, options_.micro_batches, is_last(ctx)};
  }
  // An exchange comes after the step under way; also where the run has one already that this peer is still to take.
  [[nodiscard]] bool is_last(auto& ctx) const {
    const exchange_state& policy = peer_.group->state();
    if (ends_at(ctx.step() + 1) || policy.exchanges_next()) return true;
    if (policy.by_pace) return progress_.ends_round(policy, sequences_);
    const std::uint64_t samples = (ctx.step() + 1 - peer_.record().step) * sequences_;
    return (policy.round_samples > 0 && samples >= policy.round_samples) || peer_.record().state != progress_.now().state;
  }
  [[nodiscard]] bool is_enough(auto& ctx) const {
    if (!peer_.group->state().by_pace) return is_last(ctx);
    return peer_.assignment == nullptr || progress_.now().exchanges != 0;
  }
  [[nodiscard]] bool ends_at(std::uint64_t step) const { return options_.steps > 0 && step >= options_.steps; }

  // Among the holders of this peer's blocks. A peer that rests exchanges with nobody.
  result<exchange_entry> enter(auto& ctx) {
    const step_record& record = peer_.record();
    if (mean_of_ != 0 && record.state == mean_of_ && record.state != progress_.now().state) {  // others voted for it
      applied(ctx, record);
      known_ = true;
      return exchange_entry{.known = mean_, .kept = true, .last = ends_at(record.step)};
    }
    if (!steps_.is_drained()) return fail(errc::protocol, std::string{name}, "an exchange comes before it was said to");
    CAUSEWAY_TRY(gather_all(ctx));
    mean_of_ = 0;  // the policy's rows are those of another exchange from here on
    return peer_.entry(ends_at(step_));
  }

  // Replicas come as they are done. Who is lost ends the wait; who hangs, once it takes longer than rounds did.
  result<void> gather_all(auto& ctx) {
    for (;;) {
      CAUSEWAY_TRY(gather(ctx, true));
      const step_attempt before = peer_.attempt;
      const time_point end = round_times_.count() > 0 ? ctx.clock().now() + 2 * round_times_.patience() : no_deadline;
      CAUSEWAY_ASSIGN(const std::uint64_t most, peer_.arrivals.meet(ctx.step() + 1, peer_.assignment != nullptr, end));
      step_ = peer_.group->state().by_pace ? most : ctx.step() + 1;
      CAUSEWAY_TRY(gather(ctx, true));  // from now on the exchange has its time
      if (peer_.attempt.attempt == before.attempt && peer_.attempt.round == before.round) return {};
    }
  }

  result<void> exchanged(auto& ctx, std::span<const float> mean) {
    if (std::exchange(known_, false)) return {};
    mean_.assign(mean.begin(), mean.end());
    const step_record next = peer_.next_round(step_, recovery_.interval());
    mean_of_ = next.state;
    const std::uint64_t own = mix(next.state, next.step);
    CAUSEWAY_ASSIGN(const auto all, peer_.of_everybody(ctx, pipeline_peer::done_channel, own));
    if (std::any_of(all.begin(), all.end(), [own](std::uint64_t theirs) { return theirs != own; })) {
      return fail(errc::protocol, "round", "the peers of an exchange are at different steps");
    }
    CAUSEWAY_TRY(peer_.group->propose(next));
    if (peer_.record() != next) return fail(errc::cancelled, "round", "the others have finished it");
    round_times_.observe(ctx.clock().now() - round_began_);
    round_began_ = ctx.clock().now();
    applied(ctx, next);
    return {};
  }

  // The run has the round, and so has this peer. Who has made fewer steps leaves the others out.
  void applied(auto& ctx, const step_record& record) {
    if (record.step != ctx.step() + 1) ctx.resume_at(record.step);
    peer_.held.moved_to(record.state, {});
    if (stage::makes_up(recovery_)) peer_.note_shared(ctx);
    progress_.exchanged(record.state);
    steps_.forget();
    gathered_ = false;
    const std::uint64_t round = peer_.attempt.round;
    saves_ = options_.store_every > 0 && (round == 1 || round % options_.store_every == 0);
  }

  pipeline_peer peer_;
  local_pipeline_options options_;
  Recovery recovery_;
  steps_type steps_;
  Codec codec_;
  bool saves_ = false;     // when what was exchanged has been applied
  bool gathered_ = false;  // in the attempt under way
  cohort_progress progress_;
  std::uint64_t sequences_ = 0;            // of a batch
  bool begins_anew_ = false;               // its round did, when it was asked last
  std::uint64_t step_ = 0;                 // that the run is at with the exchange
  replica_evaluations known_evaluations_;  // who has fewer than another of its replica takes the outcome, or goes without
  std::vector<float> mean_;                // that the policy received last; of several rows it has them
  std::uint64_t mean_of_ = 0;              // names the state that it leads to, until the run has that
  bool known_ = false;                     // it is given out as what the run has
  time_point round_began_{};
  net::arrival_statistics round_times_{{.floor = std::chrono::seconds{10}, .cap = std::chrono::hours{24}}};
};
static_assert(ParallelismPolicy<local_pipeline<>>);

}}}     // namespace causeway::CAUSEWAY_ABI::parallel
#endif  // CAUSEWAY_PARALLEL_LOCAL_PIPELINE_HPP
