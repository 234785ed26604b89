// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_PIPELINE_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_PIPELINE_HPP

// Pipelines that are laid out anew when peers come and go. Each attempt at a step begins with who is there and what they
// hold; a recovery policy makes a layout of it, blocks move to who is to have them, and the global batch is shared out. So
// a lost peer costs the step that was under way, and nothing that was committed as long as somebody holds every block; with
// a policy that keeps work, only what the lost peer alone had of that step.

#include <causeway/collective/broadcast.hpp>
#include <causeway/collective/channels.hpp>
#include <causeway/collective/group_view.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/io/storage.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/parallel/elastic/assigned_work.hpp>
#include <causeway/parallel/elastic/block_sums.hpp>
#include <causeway/parallel/elastic/cohort_exchange.hpp>
#include <causeway/parallel/elastic/cohorts.hpp>
#include <causeway/parallel/elastic/interpolated_blocks.hpp>
#include <causeway/parallel/elastic/peer_inventory.hpp>
#include <causeway/parallel/elastic/pipeline_peer.hpp>
#include <causeway/parallel/elastic/resumable_step.hpp>
#include <causeway/parallel/elastic/shared_blocks.hpp>
#include <causeway/parallel/elastic/step_group.hpp>
#include <causeway/parallel/elastic/step_turns.hpp>
#include <causeway/parallel/elastic/unsound_steps.hpp>
#include <causeway/parallel/micro_batches.hpp>
#include <causeway/parallel/stage_model.hpp>
#include <causeway/parallel/tied_table.hpp>
#include <causeway/policy/concepts.hpp>
#include <causeway/stage/activation.hpp>
#include <causeway/stage/layout.hpp>
#include <causeway/stage/recovery.hpp>
#include <causeway/stage/run_history.hpp>
#include <causeway/stage/schedules.hpp>
#include <causeway/tensor/batch.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

struct elastic_pipeline_options {
  std::int64_t micro_batches = 8;  ///< of a global batch, shared out over the pipelines; equal on all peers
  /// Where blocks are saved, and where the run goes back to when nobody has one any more. Peers may reach one storage, or
  /// have one for each machine: each keeps what its own peers hold.
  std::optional<io::any_storage> storage{};
  std::string folder = "blocks";
  std::uint64_t store_every = 100;  ///< steps; the first is saved too
};

/// The gradient of a step is that of the mean loss over the global batch, whoever computes which part of it in which
/// layout: the same optimisation problem for any number of peers. Every peer is given the same global batch, as a function
/// of trainer.context().step(). Needs an environment whose group is a pipeline_group, the same object here, fault::quorum,
/// and an inner optimizer whose state can be divided (optim::Divisible). The trainer stays where it is once it started.
///
/// comm::every_step without a codec: gradients are added up here, block by block. Any other policy of gradients that moves
/// with blocks (rule C5) exchanges the means of whole pipelines among the holders of each stage, with its codec and
/// residual; pipelines are cut alike then (regroup, morph, proactive).
///
/// Bytes per step: boundaries as parallel::pipeline; the gradient of each block summed over its holders, that of a tied
/// table over those of the first and the last; about 100 bytes from and to everybody. On a change: 12 bytes a parameter of
/// each block that moves (AdamW), the table with either. Memory: as the layout says; while it changes, both parts, and what
/// this peer gives away.
template <stage::Recovery Recovery = stage::recovery::regroup, stage::Schedule Schedule = stage::one_f_one_b,
          stage::ActivationCodec Codec = stage::plain>
class elastic_pipeline {
  static_assert(
      !Codec::traits.stateful && !Codec::traits.needs_samples && !Codec::traits.uses_base,
      "causeway-P6: micro-batches of elastic pipelines go through other peers from step to step, which cannot know "
      "what a codec with a memory or a shared base remembers; use stage::plain or another stage::coded. "
      "docs/reference/rules.md#p6");

 public:
  static constexpr std::string_view name = "elastic_pipeline";
  static constexpr parallel_traits traits{
      .staged = true, .reroutes = true, .global_step = true, .shares_gradient = true, .by_blocks = true};
  static constexpr std::uint32_t state_version = 2;

  explicit elastic_pipeline(std::shared_ptr<step_group> peers = nullptr, elastic_pipeline_options options = {},
                            Recovery recovery = Recovery{}, Schedule schedule = Schedule{}, Codec codec = Codec{})
      : peer_{std::move(peers)},
        options_{std::move(options)},
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
      if (!complete_) return done.error();
      CAUSEWAY_TRY(peer_.group->failed(done.error()));  // a gradient that others may have voted for is kept
      if (taken()) return peer_.record().loss / static_cast<double>(b.tokens());
      if (begun || begun.error().code != errc::cancelled || peer_.record().step != ctx.step()) continue;
      complete_ = false;  // the trainer clears the gradients
      return done.error();
    }
  }

  /// Of the whole model. The run takes the step here: what follows needs nobody else.
  result<float> norm(auto& ctx) {
    while (!taken()) {
      if (peer_.record().step > ctx.step()) return finished_by_others(ctx);
      if (!proposes_) {
        CAUSEWAY_TRY(begin_attempt());
        CAUSEWAY_TRY(attempt(ctx));
      } else {
        CAUSEWAY_TRY(propose());
      }
    }
    complete_ = proposes_ = false;
    exchanged_at_ = peer_.record().state;
    if (by_policy()) take_table(ctx);
    kept_.forget();
    peer_.held.moved_to(peer_.record().state, std::move(squares_.of));
    return static_cast<float>(peer_.record().norm);
  }

  /// A disk that fails costs the copy, not the step.
  result<void> after_step(auto& ctx) {
    const step_record& record = peer_.record();
    if (options_.store_every > 0 && (record.step == 1 || record.step % options_.store_every == 0)) {
      const auto saved = save_blocks(ctx);
      if (!saved) ctx.log()(severity::warning, "blocks were not saved: " + saved.error().text());
    }
    return codec_.commit_step();
  }

  /// Every peer calls it with the same batch, as often before the same step, and gets the same mean; any number of
  /// sequences. Boundaries cross as f32, whatever the codec. errc::cancelled where there is no outcome to be had, because
  /// the others are through with it, or some block is missing: train on.
  result<double> evaluate(auto& ctx, const batch& b) {
    const std::int64_t pieces = std::gcd(b.sequences, options_.micro_batches);
    CAUSEWAY_TRY(check_batch(name, b, pieces));
    for (;;) {
      const auto begun = begin_attempt();
      if (peer_.record().step != ctx.step()) {
        ctx.resume_at(peer_.record().step);
        return fail(errc::cancelled, "evaluation", "the others are at step " + std::to_string(ctx.step()));
      }
      const auto sum = begun ? try_to_evaluate(ctx, b, static_cast<std::uint32_t>(pieces)) : result<double>{begun.error()};
      if (!sum) {
        CAUSEWAY_TRY(peer_.group->failed(sum.error()));
        if (!begun && begun.error().code == errc::cancelled && peer_.record().step == ctx.step()) return begun.error();
        continue;
      }
      turns_.came_to(*sum);
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
    ar(exchanged_at_, computes_.first, computes_.last, replica_);
  }

  /// Of the last attempt, and the peers that took part in it.
  [[nodiscard]] const stage::layout& layout() const noexcept { return peer_.layout; }
  [[nodiscard]] std::uint32_t peers() const noexcept { return static_cast<std::uint32_t>(peer_.index_of.size()); }
  /// Blocks that this peer has received since it was built, and such that it made up because nobody had them.
  [[nodiscard]] std::uint64_t received_blocks() const noexcept { return peer_.received_blocks; }
  [[nodiscard]] std::uint64_t interpolated_blocks() const noexcept { return peer_.made_up_blocks; }
  /// Attempts that went on with a step that an earlier one had begun, where the recovery policy keeps work.
  [[nodiscard]] std::uint64_t resumed_attempts() const noexcept { return resumed_attempts_; }

 private:
  static constexpr bool keeps_work = stage::WorkKeeping<Recovery>;
  static_assert(keeps_work == Recovery::traits.keeps_work, "see stage::WorkKeeping");

  result<void> begin(auto& ctx) {
    CAUSEWAY_TRY(peer_.check(name, ctx.elastic(), options_.micro_batches, order_.chunks()));
    if (keeps_work && !std::is_same_v<Schedule, stage::one_f_one_b>) {
      return fail(errc::unsupported, std::string{name},
                  std::string{Recovery::name} + " has an order of its own, 1F1B; use stage::one_f_one_b");
    }
    peer_.begin(ctx.model().part(), ctx.model().blocks(), options_.storage, options_.folder);
    peer_.held.assigned(computes_, replica_);
    peer_.group->exchange_by(
        {[this, &ctx] { return enter(ctx); }, [this, &ctx](std::span<const float> mean) { return exchanged(ctx, mean); }});
    return {};
  }

  // The peers of an attempt may meet several times.
  [[nodiscard]] net::message_id named(pipeline_peer::channel kind) const { return peer_.named(kind, meetings_); }
  // Of boundaries, whose ids hold the micro-batch besides.
  [[nodiscard]] net::message_id gradients_id() const {
    net::message_id id = named(pipeline_peer::sums_channel);
    id.channel = collective::channels::gradients;
    return id;
  }
  [[nodiscard]] std::uint64_t meeting() const noexcept { return (peer_.attempt.round << 16) + meetings_; }

  // Whether the run has taken the step that this peer's gradient is complete for: then only the move is left. Loss and norm
  // may be the others' word, when a peer was lost before it had told its own to all. Others may have taken the step in
  // another attempt, whose sums are rounded otherwise: that is another state.
  [[nodiscard]] bool taken() const {
    const step_record& now = peer_.record();
    return complete_ && now == next_record(now.loss, now.norm);
  }

  result<void> propose() {
    proposes_ = false;  // once; the gradient may still be used when others go through with it
    if (!std::isfinite(told_.norm)) return fail(errc::non_finite, "gradient", "its norm is not finite");
    return peer_.group->propose(told_);
  }

  // This peer's gradient is complete. Equal on all peers of the attempt, and in no attempt with other sums.
  void name_attempt() {
    hasher h;
    for (const auto& [id, index] : peer_.index_of) h.add_value(id).add_value(index);
    add_layout(h, peer_.layout).add_value(kept_.agreed()).add_value(peer_.record().state);
    next_ = {peer_.record().step + 1, h.finish(), 0, peer_.record().history, 0};
    next_.history.took_step(next_.step, recovery_.interval(), peer_.layout, peer_.attempt.transport->size());
    complete_ = true;
  }

  // What the run holds alike after the step of that attempt.
  [[nodiscard]] step_record next_record(double loss, double norm) const {
    step_record next = next_;
    next.loss = loss;
    next.norm = norm;
    next.state = mix(next_.state, std::bit_cast<std::uint64_t>(norm));
    return next;
  }

  // All of a step but the move of the parameters.
  result<void> attempt(auto& ctx) {
    proposes_ = false;
    if (taken()) {  // the attempt just begun is the next step's
      loss_ = peer_.record().loss;
      return {};
    }
    complete_ = computed_ = false;
    codec_.begin_step();
    if (peer_.record().step != ctx.step()) return finished_by_others(ctx);
    CAUSEWAY_ASSIGN(const auto inventory, meet(ctx, true));
    CAUSEWAY_TRY(assemble(ctx, *inventory));
    auto done = compute(ctx);
    if (done) done = check_sound(loss_, ctx.own_norm());
    if (!done) return leave_to_others(ctx, done.error());
    own_loss_ = loss_;
    if (by_policy()) return meet_for_exchange(ctx, *inventory);
    CAUSEWAY_TRY(sum_gradients(ctx));
    name_attempt();
    CAUSEWAY_TRY(tell_sums(ctx));
    proposes_ = true;
    return {};
  }

  error leave_to_others(auto& ctx, const error& why) {
    if (why.code != errc::non_finite) return why;
    kept_.forget();
    return peer_.blame_itself(ctx, why);
  }

  // It goes to their step at once: who is behind when they have ended would wait for their next attempt for ever.
  error finished_by_others(auto& ctx) {
    complete_ = false;
    ctx.resume_at(peer_.record().step);
    peer_.group->finished_by_others();
    return fail(errc::cancelled, "step", "the others have finished it");
  }

  result<void> begin_attempt() {
    CAUSEWAY_ASSIGN(const bool another, peer_.begin_attempt());
    if (another) meetings_ = 0;
    computed_ = computed_ && !another;
    return {};
  }

  // ---- evaluation -------------------------------------------------------------------------------------------------------

  // The sum of the losses. Not a number: there is none to be had.
  result<double> try_to_evaluate(auto& ctx, const batch& b, std::uint32_t pieces) {
    constexpr double none = std::numeric_limits<double>::quiet_NaN();
    CAUSEWAY_ASSIGN(const auto inventory, meet(ctx, false));
    if (!inventory) return missed_;
    auto made = recovery_.arrange(inventory->snapshot);
    if (!made || !lost_runs(inventory->snapshot).empty()) return none;  // the step will wait for peers, or mend it
    CAUSEWAY_TRY(take_assignment(ctx, *inventory, std::move(*made)));
    stage::layout shared_out = peer_.layout;
    const auto shares = stage::even_shares(pieces, shared_out.replicas.size());
    for (std::size_t r = 0; r < shares.size(); ++r) shared_out.replicas[r].micro_batches = shares[r];
    const auto own = peer_.assignment == nullptr ? result<double>{0.0}
                                                 : peer_.forward_only(ctx, shared_out, peer_.place, b, pieces, meeting());
    const auto sound = own ? check_sound(*own, 0) : result<void>{own.error()};
    if (!sound) return leave_to_others(ctx, sound.error());
    CAUSEWAY_ASSIGN(const auto all, peer_.of_everybody(ctx, pipeline_peer::sums_channel, *own, meetings_));
    return std::accumulate(all.begin(), all.end(), 0.0);
  }

  // ---- who holds what ---------------------------------------------------------------------------------------------------

  // What all peers of the attempt hold, once all are at the same turn. None: the others are past this peer's, and told it
  // what it missed.
  result<std::optional<cluster_inventory>> meet(auto& ctx, bool trains) {
    const std::int64_t layers = ctx.model().blocks();
    peer_inventory own = peer_.described(layers, ctx.log());
    if (trains) own.peer.begun = kept_.described(peer_.record(), ctx.model().part().ranges(layers));
    turns_.at(peer_.record().state);
    own.turn = turns_.now(trains);
    const auto ours = pipeline_peer::agreement<Recovery, Schedule>(ctx, name, options_.micro_batches, recovery_, codec_);
    for (;;) {
      ++meetings_;
      CAUSEWAY_ASSIGN(cluster_inventory inventory,
                      peer_.gather(named(pipeline_peer::inventory_channel), own, ours, peer_.how(ctx)));
      if (own.turn.order() < furthest(inventory.turns)) {
        missed_ = missed(own.turn, inventory.turns);
        return std::optional<cluster_inventory>{};
      }
      const auto with_us = [&](const step_turn& t) { return t.order() == own.turn.order(); };
      if (!std::all_of(inventory.turns.begin(), inventory.turns.end(), with_us)) continue;  // the others come after
      return std::optional{std::move(inventory)};
    }
  }

  result<void> assemble(auto& ctx, const cluster_inventory& inventory) {
    auto made = recovery_.arrange(inventory.snapshot);
    if (!made) return peer_.wait_for_more(ctx.log(), this_step(ctx), made.error());
    if constexpr (keeps_work) resumes_ = recovery_.resumes(inventory.snapshot);
    for (const nn::block_range& r : lost_runs(inventory.snapshot)) {
      const bool between = r.first > 0 && r.last < inventory.snapshot.layers;
      if (Recovery::traits.lost == stage::lost_blocks::neighbours && between) continue;
      return go_back(ctx, inventory, missing(r));
    }
    return take_assignment(ctx, inventory, std::move(*made));
  }
  [[nodiscard]] static std::string this_step(auto& ctx) { return "step " + std::to_string(ctx.step() + 1); }

  // Who left has saved what it held; with what is here that may be the state of now.
  result<void> go_back(auto& ctx, const cluster_inventory& inventory, const error& why) {
    shared_blocks blocks{ctx, peer_.group->state()};
    const auto ours = [&](std::int64_t b) {
      return peer_.saved.savers.is_first(inventory.snapshot.holders(b), peer_.identity());
    };
    const auto kept = peer_.saved.save_if(blocks, peer_.held, peer_.record(), ours);
    if (!kept) ctx.log()(severity::warning, kept.error().text());
    CAUSEWAY_ASSIGN(const bool alike, peer_.go_back(ctx, this_step(ctx), why));
    exchanged_at_ = alike ? peer_.record().state : 0;
    if (alike) peer_.group->state().begin_anew();
    ctx.resume_at(peer_.record().step);
    peer_.group->finished_by_others();
    return fail(errc::cancelled, "step", "the run went back to step " + std::to_string(peer_.record().step));
  }

  result<void> take_assignment(auto& ctx, const cluster_inventory& inventory, stage::layout made) {
    peer_.layout = std::move(made);
    CAUSEWAY_TRY(peer_.layout.check(inventory.snapshot.layers, inventory.snapshot.micro_batches));
    if (by_policy()) CAUSEWAY_TRY(check_alike(peer_.layout, Recovery::name));
    shared_blocks blocks{ctx, peer_.group->state()};
    const bool ready = peer_.take_assignment(ctx.model().blocks(), ctx.model().part());
    if (!ready) kept_.forget();
    CAUSEWAY_TRY(peer_.fetch(blocks, inventory, ready, meetings_));
    computes_ = peer_.assignment != nullptr ? peer_.assignment->computes : nn::block_range{};
    replica_ = static_cast<std::uint32_t>(peer_.place.replica);
    peer_.held.assigned(computes_, replica_);
    return {};
  }

  // ---- the step ---------------------------------------------------------------------------------------------------------

  result<void> compute(auto& ctx) {
    if constexpr (keeps_work) return go_on(ctx);
    double tokens = static_cast<double>(whole_.tokens());
    if (by_policy() && peer_.assignment != nullptr) {  // its pipeline's own mean: they are weighed when they are exchanged
      const std::uint32_t own = peer_.layout.replicas[peer_.place.replica].micro_batches;
      tokens *= own / static_cast<double>(options_.micro_batches);
    }
    const auto scale = 1.0F / static_cast<float>(tokens);
    CAUSEWAY_ASSIGN(loss_, peer_.train(ctx, order_, recovery_, codec_, whole_, options_.micro_batches, scale, meeting()));
    return {};
  }

  // From what earlier attempts at the step have kept.
  result<void> go_on(auto& ctx) requires keeps_work {
    using tape = typename std::remove_cvref_t<decltype(ctx.model())>::tape_type;
    const auto micro_batches = static_cast<std::uint32_t>(options_.micro_batches);
    const stage::layout& l = peer_.layout;
    const std::size_t r = peer_.place.replica;
    const bool is_assigned = peer_.assignment != nullptr;
    const step_exchange exchange{*peer_.attempt.transport, peer_.index_of, named(pipeline_peer::progress_channel),
                                 peer_.how(ctx), peer_.boundaries(ctx.step(), meeting())};
    if (resumes_) {
      ++resumed_attempts_;
      CAUSEWAY_TRY(kept_.resume(exchange, is_assigned, micro_batches));
    } else {
      kept_.template begin<tape>(peer_.record(), l, is_assigned ? &peer_.place : nullptr);
    }
    std::vector<std::uint64_t> dropout;
    if (is_assigned) dropout = pipeline_peer::dropout_of(ctx.step(), l.first_micro_batch(r), l.replicas[r].micro_batches);
    const assigned_batch share{whole_,
                               micro_batches,
                               is_assigned ? peer_.assignment->computes : nn::block_range{},
                               1.0F / static_cast<float>(whole_.tokens()),
                               true,
                               dropout};
    CAUSEWAY_ASSIGN(loss_, kept_.run(ctx, l, codec_, share, exchange, recovery_.repeats_all()));
    return {};
  }

  result<void> sum_gradients(auto& ctx) {
    CAUSEWAY_ASSIGN(squares_, sum_blocks(ctx, *peer_.attempt.transport, gradients_id(), peer_.layout, peer_.identity(),
                                         peer_.index_of, peer_.how(ctx)));
    return {};
  }

  // Loss and squared norm of the whole, added up in the order of the transport's numbers: the same bits on all peers. Who
  // has heard from everybody knows that every gradient is complete.
  result<void> tell_sums(auto& ctx) {
    const std::array own{own_loss_, squares_.first};
    CAUSEWAY_ASSIGN(const auto all, peer_.of_everybody(ctx, pipeline_peer::sums_channel, own, meetings_));
    loss_ = 0;
    double sum_of_squares = 0;
    for (const auto& [loss, squares] : all) {
      loss_ += loss;
      sum_of_squares += squares;
    }
    told_ = next_record(loss_, std::sqrt(sum_of_squares));
    return {};
  }

  // ---- gradients that are exchanged by the communication policy, among the holders of the same blocks -------------------

  // Else they are added up here.
  [[nodiscard]] bool by_policy() const { return static_cast<bool>(peer_.group->state().divide); }

  // A table that the first and the last stage share is exchanged by the first alone, which has the last one's part of its
  // gradient by then. What of it comes back to the last is what the first's exchange came to.
  result<void> join_tables(auto& ctx) {
    const auto table = table_in(ctx.model(), ctx.gradients());
    const auto ends = ends_of_pipeline();
    if (table.empty() || ends.size() < 2) return {};
    CAUSEWAY_TRY(sum_over(*peer_.attempt.transport, gradients_id(), ends, peer_.index_of, table, peer_.how(ctx)));
    if (peer_.identity() != ends.front()) std::fill(table.begin(), table.end(), 0.0F);
    return {};
  }
  result<void> share_tables(auto& ctx) {
    const auto table = table_in(ctx.model(), std::span{mean_});
    const auto ends = ends_of_pipeline();
    if (table.empty() || ends.size() < 2) return {};
    collective::group_view view{*peer_.attempt.transport,
                                {peer_.index_of.at(ends.front()), peer_.index_of.at(ends.back())}};
    return collective::broadcast(view, named(pipeline_peer::here_channel), net::peer_index{0}, table, peer_.how(ctx));
  }
  // Into the gradient that the policy has left.
  void take_table(auto& ctx) {
    const auto from = table_in(ctx.model(), std::span{mean_});
    std::copy(from.begin(), from.end(), table_in(ctx.model(), ctx.gradients()).begin());
  }
  // Of this peer's pipeline: the peers at its first and its last stage, if this is one of them and they are two.
  [[nodiscard]] std::vector<std::uint64_t> ends_of_pipeline() const {
    if (peer_.assignment == nullptr) return {};
    const auto& assignments = peer_.layout.replicas[peer_.place.replica].assignments;
    if (assignments.size() < 2 || (peer_.place.rank > 0 && peer_.place.rank + 1 < assignments.size())) return {};
    return {assignments.front().peer, assignments.back().peer};
  }

  // Everybody has its pipeline's gradient. Who did not take part in the run's last step takes what the policy keeps alike;
  // what an exchange remembers counts where all who hold the same blocks have the same.
  result<void> meet_for_exchange(auto& ctx, const cluster_inventory& inventory) {
    const exchange_state& kept = peer_.group->state();
    const auto own = described_for_exchange(own_loss_, exchanged_at_, kept);
    CAUSEWAY_ASSIGN(const auto all, peer_.of_everybody(ctx, pipeline_peer::done_channel, own, meetings_));
    if (const auto taken = bring_up(ctx, all, own); !taken) {
      return taken.error().code == errc::not_found ? go_back(ctx, inventory, taken.error()) : taken;
    }
    const exchange_entry entry = peer_.entry();
    const auto as_ours = [&](net::peer_index holder) { return all[holder].memory == own.memory; };
    if (!std::all_of(entry.holders.begin(), entry.holders.end(), as_ours)) CAUSEWAY_TRY(kept.forget());
    loss_ = 0;
    for (const exchange_share& s : all) loss_ += s.loss;
    CAUSEWAY_TRY(join_tables(ctx));
    computed_ = true;
    return {};
  }

  result<void> bring_up(auto& ctx, std::span<const exchange_share> all, const exchange_share& own) {
    const auto has = [&](const exchange_share& s) { return s.state == peer_.record().state; };
    if (std::all_of(all.begin(), all.end(), has)) return {};
    const exchange_state& kept = peer_.group->state();
    CAUSEWAY_TRY(take_alike(*peer_.attempt.transport, named(pipeline_peer::alike_channel), kept, has(own), peer_.how(ctx)));
    if (has(own)) return {};
    kept.begin_anew();
    ctx.resume_at(peer_.record().step, true);  // the step under way counts
    exchanged_at_ = peer_.record().state;
    return {};
  }

  // In an attempt that is another than the one whose gradient the policy has, that is computed again, and the policy's row
  // made again.
  result<exchange_entry> enter(auto& ctx) {
    if (!by_policy()) return exchange_entry{};
    if (!taken()) {
      if (peer_.record().step > ctx.step()) return finished_by_others(ctx);
      CAUSEWAY_TRY(begin_attempt());
    }
    if (taken()) {
      known_ = true;
      return exchange_entry{.known = mean_};
    }
    if (computed_) return peer_.entry();
    CAUSEWAY_TRY(attempt(ctx));
    peer_.group->begin_exchange_again();
    return fail(errc::cancelled, "step", "its gradient was computed again, in another attempt");
  }

  // The mean is here. The run takes the step with it, or it is tried again.
  result<void> exchanged(auto& ctx, std::span<const float> mean) {
    if (!by_policy() || std::exchange(known_, false)) return {};
    CAUSEWAY_EXPECT(mean.size() == ctx.gradients().size());
    mean_.assign(mean.begin(), mean.end());
    CAUSEWAY_TRY(share_tables(ctx));
    if (const auto sound = check_sound(loss_, ctx.norm_of(mean_)); !sound) return leave_to_others(ctx, sound.error());
    squares_ = squares_of(ctx, std::span{mean_}, peer_.layout, peer_.identity());
    name_attempt();
    CAUSEWAY_TRY(tell_sums(ctx));
    CAUSEWAY_TRY(propose());
    if (taken()) return {};
    return fail(errc::cancelled, "step", "the others have finished it");
  }

  pipeline_peer peer_;
  elastic_pipeline_options options_;
  Recovery recovery_;
  Schedule order_;
  Codec codec_;
  resumable_step kept_;   // of a step under way, where the policy keeps it
  bool resumes_ = false;  // the attempt under way goes on with it

  batch whole_;
  std::uint64_t meetings_ = 0;  // in this attempt
  step_turns turns_;
  double missed_ = 0;  // an evaluation that others are through with
  double loss_ = 0, own_loss_ = 0;
  block_squares squares_;
  std::uint64_t exchanged_at_ = 0;  // names the state that what the policy keeps is of
  bool computed_ = false;           // this attempt's gradient, which the policy is to exchange
  std::vector<float> mean_;         // what that came to
  bool known_ = false;              // it is given out as what the run has
  nn::block_range computes_{};      // here, in the last layout
  std::uint32_t replica_ = 0;
  step_record next_;       // after the step of the last complete attempt, without loss and norm
  step_record told_;       // likewise with them: what this peer would propose
  bool complete_ = false;  // the gradients are those of the whole batch
  bool proposes_ = false;  // and the attempt that made them so is under way
  std::uint64_t resumed_attempts_ = 0;
};
static_assert(ParallelismPolicy<elastic_pipeline<>>);

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_PIPELINE_HPP
