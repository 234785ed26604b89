// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_PIPELINE_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_PIPELINE_HPP

// Pipelines that are laid out anew when peers come and go: a recovery policy makes a layout of who is there and what they
// hold. A lost peer costs the step that was under way, or what it alone had of that, and nothing that was committed.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/io/storage.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/parallel/elastic/block_sums.hpp>
#include <causeway/parallel/elastic/cohort_exchange.hpp>
#include <causeway/parallel/elastic/cohorts.hpp>
#include <causeway/parallel/elastic/peer_inventory.hpp>
#include <causeway/parallel/elastic/pipeline_peer.hpp>
#include <causeway/parallel/elastic/policy_exchange.hpp>
#include <causeway/parallel/elastic/shared_blocks.hpp>
#include <causeway/parallel/elastic/step_gradient.hpp>
#include <causeway/parallel/elastic/step_group.hpp>
#include <causeway/parallel/elastic/step_meetings.hpp>
#include <causeway/parallel/elastic/step_vote.hpp>
#include <causeway/parallel/elastic/unsound_steps.hpp>
#include <causeway/parallel/micro_batches.hpp>
#include <causeway/parallel/stage_model.hpp>
#include <causeway/policy/concepts.hpp>
#include <causeway/stage/activation.hpp>
#include <causeway/stage/layout.hpp>
#include <causeway/stage/recovery.hpp>
#include <causeway/stage/schedules.hpp>
#include <causeway/tensor/batch.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

struct elastic_pipeline_options {
  std::int64_t micro_batches = 8;  ///< of a global batch, shared out over the pipelines; equal on all peers
  /// Where blocks are saved, and where the run goes back to when nobody has one any more. Peers may reach one storage, or
  /// have one for each machine: each keeps what its own peers hold.
  std::optional<io::any_storage> storage{};
  std::string folder = "blocks";
  std::uint64_t store_every = 100;  ///< steps; the first state is saved too
  std::uint64_t steps = 0;          ///< of the run, if known: gradients that are gathered then go out, however few
};

/// The gradient of a step is that of the mean loss over the global batch, whoever computes which part of it in which
/// layout: the same optimisation problem for any number of peers. Every peer is given the same global batch, as a function
/// of trainer.context().step(). Needs an environment whose group is a member or a pipeline_group, fault::quorum, and an
/// inner optimizer whose state can be divided (optim::Divisible). The trainer stays where it is once it started.
///
/// comm::every_step without a codec: gradients are added up here, block by block. Any other policy of gradients that moves
/// with blocks (rule C5) exchanges means among those who compute a stage, weighted by the micro-batches that went through
/// each, with its codec and residual (rule C8). Where its results are a step late, a peer sends the row of the step before,
/// unless it has other blocks now. One that gathers samples (axis::global_samples) adds gradients up over several steps, in
/// one layout; the parameters move once for all of these, and nothing is voted on before.
///
/// Bytes per step: boundaries as parallel::pipeline; the gradient of each block summed over its holders, a tied table's
/// over those of the first and the last; about 100 to everybody. On a change: 12 a parameter of each block that moves
/// (AdamW). Memory: the layout's part; while it changes, both parts, and what this peer gives away.
template <stage::Recovery Recovery = stage::recovery::regroup, stage::Schedule Schedule = stage::one_f_one_b,
          stage::ActivationCodec Codec = stage::plain>
class elastic_pipeline {
  static_assert(!Codec::traits.stateful && !Codec::traits.needs_samples,
                "causeway-P6: micro-batches of elastic pipelines go through other peers from step to step, which cannot "
                "know what a codec with a memory remembers; use stage::plain, another stage::coded or stage::subspace. "
                "docs/reference/rules.md#p6");

 public:
  static constexpr std::string_view name = "elastic_pipeline";
  static constexpr parallel_traits traits{.staged = true,
                                          .reroutes = true,
                                          .shares_gradient = true,
                                          .gathers_together = true,
                                          .cut_apart = stage::cut_apart<Recovery>,
                                          .rows_in_parts = stage::cut_apart<Recovery> && !stage::Rerouting<Recovery>,
                                          .repeats_work = Recovery::traits.keeps_work};
  static constexpr std::uint32_t state_version = 5;

  explicit elastic_pipeline(elastic_pipeline_options options = {}, Recovery recovery = Recovery{},
                            Schedule schedule = Schedule{}, Codec codec = Codec{})
      : options_{std::move(options)},
        recovery_{std::move(recovery)},
        order_{std::move(schedule)},
        codec_{std::move(codec)} {}

  result<void> start(auto& ctx) {
    if constexpr (has_stages<std::remove_cvref_t<decltype(ctx.model())>>()) return begin(ctx);
    return {};  // the refusal is the only error
  }

  result<double> forward_backward(auto& ctx, const batch& b) {
    CAUSEWAY_TRY(check_batch(name, b, options_.micro_batches));
    whole_ = b;
    for (;;) {
      if (peer_.record().step > ctx.step()) return finished_by_others(ctx);
      const auto begun = begin_attempt();
      const auto done = begun ? attempt(ctx) : begun;
      if (done) return loss_ / static_cast<double>(b.tokens());
      if (!vote_.is_complete()) return done.error();
      CAUSEWAY_TRY(peer_.group->failed(done.error()));  // a gradient that others may have voted for is kept
      if (taken()) return peer_.record().loss / static_cast<double>(b.tokens());
      if (begun || begun.error().code != errc::cancelled || next_step() != ctx.step()) continue;
      vote_.forget();  // the trainer clears the gradients
      return done.error();
    }
  }

  /// Of the whole model. The run takes the step here: what follows needs nobody else.
  result<float> norm(auto& ctx) {
    while (!taken()) {
      if (peer_.record().step > ctx.step()) return finished_by_others(ctx);
      if (!vote_.proposes()) {
        CAUSEWAY_TRY(begin_attempt());
        CAUSEWAY_TRY(attempt(ctx));
      } else {
        CAUSEWAY_TRY(vote_.propose(*peer_.group));
      }
    }
    vote_.end();
    policy_.taken(peer_);
    if (by_policy()) policy_.complete_gradient(ctx, peer_);
    gradient_.forget();
    peer_.held.moved_to(peer_.record().state, std::move(squares_.of));
    return static_cast<float>(peer_.record().norm);
  }

  /// A disk that fails costs the copy, not the step.
  result<void> after_step(auto& ctx) {
    if (policy_.gathered().is_due(peer_.record(), ctx.step() + 1, options_.store_every)) {
      const auto saved = save_blocks(ctx);
      if (!saved) ctx.log()(severity::warning, "blocks were not saved: " + saved.error().text());
    }
    return codec_.commit_step();
  }

  /// Every peer calls it with the same batch, of any size, as often before the same step, and gets the same mean.
  /// Boundaries cross as f32. errc::cancelled: the others are through with it, or some block is missing; train on.
  result<double> evaluate(auto& ctx, const batch& b) {
    const std::int64_t pieces = std::gcd(b.sequences, options_.micro_batches);
    CAUSEWAY_TRY(check_batch(name, b, pieces));
    for (;;) {
      const auto begun = begin_attempt();
      if (next_step() != ctx.step()) {
        ctx.resume_at(next_step());
        return fail(errc::cancelled, "evaluation", "the others are at step " + std::to_string(ctx.step()));
      }
      const auto sum = begun ? try_to_evaluate(ctx, b, static_cast<std::uint32_t>(pieces)) : result<double>{begun.error()};
      if (!sum) {
        CAUSEWAY_TRY(peer_.group->failed(sum.error()));
        if (!begun && begun.error().code == errc::cancelled && next_step() == ctx.step()) return begun.error();
        continue;
      }
      meetings_.came_to(*sum);
      if (std::isfinite(*sum)) return *sum / static_cast<double>(b.tokens());
      return fail(errc::cancelled, "evaluation",
                  "it has no outcome here; the others are through with it, or wait for peers");
    }
  }

  /// The blocks that this peer is the first to hold of those that reach its storage, if there is one. A peer that goes
  /// calls it before: once all have gone, the run goes on from there.
  result<void> save_blocks(auto& ctx) { return peer_.save_blocks(ctx); }

  void serialize(auto& ar) {
    peer_.held.serialize(ar);
    codec_.serialize(ar);
    ar(policy_, computes_.first, computes_.last, replica_);
  }

  /// This peer was told to go. In the next step it computes nothing, if the others can do without it, and what it holds
  /// moves to them; it leaves after that.
  void leave_next() noexcept { peer_.leaves = true; }

  /// Of the last attempt, and the peers that took part in it.
  [[nodiscard]] const stage::layout& layout() const noexcept { return peer_.layout; }
  [[nodiscard]] std::uint32_t peers() const noexcept { return static_cast<std::uint32_t>(peer_.index_of.size()); }
  /// Blocks that this peer has received since it was built, and such that it made up because nobody had them.
  [[nodiscard]] std::uint64_t received_blocks() const noexcept { return peer_.received_blocks; }
  [[nodiscard]] std::uint64_t interpolated_blocks() const noexcept { return peer_.made_up_blocks; }
  /// Attempts that went on with a step that an earlier one had begun, where the recovery policy keeps work.
  [[nodiscard]] std::uint64_t resumed_attempts() const noexcept { return gradient_.resumed_attempts(); }

 private:
  static_assert(stage::WorkKeeping<Recovery> == Recovery::traits.keeps_work, "see stage::WorkKeeping");

  result<void> begin(auto& ctx) {
    CAUSEWAY_TRY((peer_.template check<Recovery, Schedule>(name, ctx, options_.micro_batches, order_.chunks())));
    CAUSEWAY_TRY(peer_.base.make(ctx.pool(), ctx.model(), codec_));
    peer_.begin(ctx.model().part(), ctx.model().blocks(), options_.storage, options_.folder);
    peer_.held.assigned(computes_, replica_);
    exchange_hooks hooks{.enter = [this, &ctx] { return enter(ctx); },
                         .exchanged = [this, &ctx](std::span<const float> mean) { return exchanged(ctx, mean); }};
    hooks.enough = [this, &ctx] { return taken() || has_enough(ctx.step()); };
    peer_.group->exchange_by(std::move(hooks));
    return {};
  }

  [[nodiscard]] bool by_policy() const { return policy_exchange::applies(peer_); }
  [[nodiscard]] bool taken() const { return vote_.taken(peer_.record()); }
  [[nodiscard]] bool has_enough(std::uint64_t s) { return policy_.has_enough(peer_, s, whole_, s + 1 == options_.steps); }
  [[nodiscard]] std::uint64_t next_step() const { return policy_.gathered().next(peer_.record()); }

  // All of a step but the move of the parameters.
  result<void> attempt(auto& ctx) {
    vote_.may_propose(false);
    if (taken()) {  // the attempt just begun is the next step's
      loss_ = peer_.record().loss;
      return {};
    }
    vote_.forget();
    policy_.forget();
    codec_.begin_step();
    if (next_step() != ctx.step()) return finished_by_others(ctx);
    CAUSEWAY_ASSIGN(const auto inventory, meet(ctx, true));
    CAUSEWAY_TRY(assemble(ctx, *inventory));
    const auto done = policy_.compute(peer_, [&] {
      return gradient_.compute(ctx, peer_, meetings_, order_, recovery_, codec_, whole_, options_.micro_batches);
    });
    const auto sound = done ? check_sound(*done, ctx.own_norm()) : result<void>{done.error()};
    if (!sound) return leave_to_others(ctx, sound.error());
    own_loss_ = loss_ = *done;
    if (by_policy()) return meet_for_exchange(ctx, *inventory);
    CAUSEWAY_ASSIGN(squares_, sum_blocks(ctx, *peer_.attempt.transport, meetings_.gradients(peer_), peer_.layout,
                                         peer_.identity(), peer_.index_of, peer_.how(ctx)));
    CAUSEWAY_TRY(tell_sums(ctx));
    vote_.may_propose(true);
    return {};
  }

  error leave_to_others(auto& ctx, const error& why) {
    if (why.code != errc::non_finite) return why;
    gradient_.forget();
    return peer_.blame_itself(ctx, why);
  }

  // It goes to their step at once: who is behind when they have ended would wait for their next attempt for ever.
  error finished_by_others(auto& ctx) { return go_on_from(ctx, "the others have finished it"); }
  error go_on_from(auto& ctx, std::string why) {
    vote_.forget();
    policy_.give_up(peer_);
    ctx.resume_at(peer_.record().step);
    peer_.group->finished_by_others();
    return fail(errc::cancelled, "step", std::move(why));
  }

  result<void> begin_attempt() {
    CAUSEWAY_ASSIGN(const bool another, peer_.begin_attempt());
    if (!another) return {};
    meetings_.begin();
    policy_.forget();
    return {};
  }

  // The sum of the losses. Not a number: there is none to be had.
  result<double> try_to_evaluate(auto& ctx, const batch& b, std::uint32_t pieces) {
    constexpr double none = std::numeric_limits<double>::quiet_NaN();
    CAUSEWAY_ASSIGN(const auto inventory, meet(ctx, false));
    if (!inventory) return meetings_.missed();
    auto made = recovery_.arrange(stage::assignable(recovery_, inventory->snapshot));
    if (!made || !stage::lost_runs(inventory->snapshot).empty()) return none;  // the step will wait for peers, or mend it
    CAUSEWAY_TRY(take_assignment(ctx, *inventory, std::move(*made)));
    const auto own = peer_.evaluate(ctx, b, pieces, meetings_.name(peer_));
    const auto sound = own ? check_sound(*own, 0) : result<void>{own.error()};
    if (!sound) return leave_to_others(ctx, sound.error());
    CAUSEWAY_ASSIGN(const auto all, peer_.of_everybody(ctx, pipeline_peer::sums_channel, *own, meetings_.number()));
    return std::accumulate(all.begin(), all.end(), 0.0);
  }

  // ---- who holds what ---------------------------------------------------------------------------------------------------

  result<std::optional<cluster_inventory>> meet(auto& ctx, bool trains) {
    const std::int64_t layers = ctx.model().blocks();
    peer_inventory own = peer_.described(layers, ctx.log());
    if (trains) own.peer.begun = gradient_.described(peer_.record(), ctx.step(), ctx.model().part().ranges(layers));
    const auto ours = peer_.template agreement<Recovery, Schedule>(ctx, name, options_.micro_batches, recovery_, codec_);
    return meetings_.meet(ctx, peer_, std::move(own), trains, ours);
  }

  result<void> assemble(auto& ctx, const cluster_inventory& inventory) {
    const stage::cluster_snapshot peers = stage::assignable(recovery_, inventory.snapshot);
    auto made = recovery_.arrange(peers);
    if (!made) return peer_.wait_for_more(ctx.log(), this_step(ctx), made.error());
    gradient_.attempt(recovery_, peers);
    const auto lost = stage::lost_for_good(inventory.snapshot, stage::made_up_by(recovery_, inventory.snapshot));
    if (lost.size() > 0) return go_back(ctx, inventory, missing(lost));
    return take_assignment(ctx, inventory, std::move(*made));
  }
  [[nodiscard]] static std::string this_step(auto& ctx) { return "step " + std::to_string(ctx.step() + 1); }

  result<void> go_back(auto& ctx, const cluster_inventory& inventory, const error& why) {
    peer_.save_the_rest(ctx, inventory);
    CAUSEWAY_ASSIGN(const bool alike, peer_.go_back(ctx, this_step(ctx), why));
    policy_.is_of(alike ? peer_.record().state : 0);
    if (alike) peer_.group->state().begin_anew();
    return go_on_from(ctx, "the run went back to step " + std::to_string(peer_.record().step));
  }

  result<void> take_assignment(auto& ctx, const cluster_inventory& inventory, stage::layout made) {
    peer_.layout = std::move(made);
    CAUSEWAY_TRY(peer_.layout.check(inventory.snapshot.layers, inventory.snapshot.micro_batches));
    const bool one_row = by_policy() && Recovery::traits.cut_alike;
    if (one_row) CAUSEWAY_TRY(check_alike(peer_.layout, Recovery::name, stage::Rerouting<Recovery>));
    shared_blocks blocks{ctx, peer_.group->state()};
    const bool ready = peer_.take_assignment(ctx.model().blocks(), ctx.model().part());
    if (!ready) gradient_.forget();
    CAUSEWAY_TRY(
        peer_.fetch(blocks, inventory, ready, meetings_.number(), stage::made_up_by(recovery_, inventory.snapshot)));
    if (by_policy()) CAUSEWAY_TRY(policy_.take_segments(ctx, peer_));
    if constexpr (stage::MakingUp<Recovery>) CAUSEWAY_TRY(peer_.take_rate(ctx, blocks, recovery_.rate_factor()));
    computes_ = peer_.assignment != nullptr ? peer_.assignment->computes : nn::block_range{};
    replica_ = static_cast<std::uint32_t>(peer_.place.replica);
    peer_.held.assigned(computes_, replica_);
    return {};
  }

  // Loss and norm of the whole.
  result<void> tell_sums(auto& ctx) {
    CAUSEWAY_ASSIGN(loss_, vote_.tell(ctx, peer_, meetings_.number(), gradient_.agreed(), recovery_.interval(),
                                      policy_.moves(), own_loss_, squares_.first));
    return {};
  }

  // ---- gradients that are exchanged by the communication policy: everybody has its pipeline's ---------------------------

  result<void> meet_for_exchange(auto& ctx, const cluster_inventory& inventory) {
    const exchange_share own = policy_.described(peer_, own_loss_);
    CAUSEWAY_ASSIGN(const auto all, peer_.of_everybody(ctx, pipeline_peer::done_channel, own, meetings_.number()));
    if (const auto taken = policy_.bring_up(ctx, peer_, meetings_, all, own); !taken) {
      return taken.error().code == errc::not_found ? go_back(ctx, inventory, taken.error()) : taken;
    }
    if (!policy_.gathered().goes_on(peer_, all)) return go_on_from(ctx, "the round begins anew");
    CAUSEWAY_ASSIGN(loss_, policy_.begin(ctx, peer_, meetings_, all));
    return {};
  }

  // In an attempt that is another than the one whose gradient the policy has, that is computed, and the row made, again.
  result<exchange_entry> enter(auto& ctx) {
    if (!by_policy()) return exchange_entry{};
    if (!policy_.goes_on() && !taken()) {
      if (peer_.record().step > ctx.step()) return finished_by_others(ctx);
      CAUSEWAY_TRY(begin_attempt());
    }
    if (!policy_.goes_on()) known_ = taken();
    if (known_) return exchange_entry{.known = policy_.mean_of_segment(ctx, peer_), .kept = true};
    if (policy_.computed()) return policy_.entry(peer_);
    CAUSEWAY_TRY(attempt(ctx));
    peer_.group->begin_exchange_again();
    return fail(errc::cancelled, "step", "its gradient was computed again, in another attempt");
  }

  // The mean of a segment is here. With that of its last the run takes the step, or it is tried again.
  result<void> exchanged(auto& ctx, std::span<const float> mean) {
    if (!by_policy()) return {};
    if (!known_) policy_.take_mean(ctx, peer_, mean);
    if (policy_.has_more()) return policy_.exchange_next(peer_);
    if (known_) return {};
    CAUSEWAY_TRY(policy_.share_mean(ctx, peer_, meetings_));
    if (const auto sound = check_sound(loss_, ctx.norm_of(policy_.mean())); !sound)
      return leave_to_others(ctx, sound.error());
    squares_ = squares_of(ctx, policy_.mean(), peer_.layout, peer_.identity());
    CAUSEWAY_TRY(tell_sums(ctx));
    CAUSEWAY_TRY(vote_.propose(*peer_.group));
    if (taken()) return {};
    return fail(errc::cancelled, "step", "the others have finished it");
  }

  pipeline_peer peer_;
  elastic_pipeline_options options_;
  Recovery recovery_;
  Schedule order_;
  Codec codec_;
  batch whole_;
  step_meetings meetings_;  // in this attempt
  step_gradient gradient_;
  step_vote vote_;
  policy_exchange policy_;
  double loss_ = 0, own_loss_ = 0;
  block_squares squares_;
  bool known_ = false;          // what exchanges came to is given out as what the run has
  nn::block_range computes_{};  // here, in the last layout
  std::uint32_t replica_ = 0;
};
static_assert(ParallelismPolicy<elastic_pipeline<>>);

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_PIPELINE_HPP
