// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_PIPELINE_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_PIPELINE_HPP

// Pipelines that are laid out anew when peers come and go. Each attempt at a step begins with who is there and what they
// hold; a recovery policy makes a layout of it, blocks move to who is to have them, and the global batch is shared out. So
// a lost peer costs the step that was under way, and nothing that was committed as long as somebody holds every block; with
// a policy that keeps work, only what the lost peer alone had of that step.

#include <causeway/collective/channels.hpp>
#include <causeway/collective/gather.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/io/storage.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/parallel/block_ownership.hpp>
#include <causeway/parallel/block_savers.hpp>
#include <causeway/parallel/block_store.hpp>
#include <causeway/parallel/block_sums.hpp>
#include <causeway/parallel/crew.hpp>
#include <causeway/parallel/crew_facts.hpp>
#include <causeway/parallel/crew_turns.hpp>
#include <causeway/parallel/interpolated_blocks.hpp>
#include <causeway/parallel/micro_batches.hpp>
#include <causeway/parallel/part_change.hpp>
#include <causeway/parallel/pipeline_batch.hpp>
#include <causeway/parallel/resumable_step.hpp>
#include <causeway/parallel/seat_work.hpp>
#include <causeway/parallel/stage_model.hpp>
#include <causeway/parallel/unsound_steps.hpp>
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
#include <map>
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
/// of trainer.context().step(). Needs an environment whose group is a crew_group, the same object here, fault::quorum,
/// comm::every_step, and an inner optimizer whose state can be divided (optim::Divisible).
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
  static constexpr parallel_traits traits{.staged = true, .reroutes = true, .global_step = true, .shares_gradient = true};
  static constexpr std::uint32_t state_version = 1;

  explicit elastic_pipeline(std::shared_ptr<crew> peers = nullptr, elastic_pipeline_options options = {},
                            Recovery recovery = Recovery{}, Schedule schedule = Schedule{}, Codec codec = Codec{})
      : crew_{std::move(peers)},
        options_{options},
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
      if (crew_->words().step > ctx.step()) return finished_by_others(ctx);
      const auto begun = begin_attempt();
      const auto done = begun ? attempt(ctx) : begun;
      if (done) return loss_ / static_cast<double>(b.tokens());
      if (!complete_) return done.error();
      CAUSEWAY_TRY(crew_->failed(done.error()));  // a gradient that others may have voted for is kept
      if (taken()) return crew_->words().loss / static_cast<double>(b.tokens());
      if (begun || begun.error().code != errc::cancelled || crew_->words().step != ctx.step()) continue;
      complete_ = false;  // the trainer clears the gradients
      return done.error();
    }
  }

  /// Of the whole model. The run takes the step here: what follows needs nobody else.
  result<float> norm(auto& ctx) {
    while (!taken()) {
      if (crew_->words().step > ctx.step()) return finished_by_others(ctx);
      if (!proposes_) {
        CAUSEWAY_TRY(begin_attempt());
        CAUSEWAY_TRY(attempt(ctx));
      } else {
        CAUSEWAY_TRY(propose());
      }
    }
    complete_ = proposes_ = false;
    kept_.forget();
    held_.moved_to(crew_->words().state, std::move(squares_.of));
    return static_cast<float>(crew_->words().norm);
  }

  /// A disk that fails costs the copy, not the step.
  result<void> after_step(auto& ctx) {
    const crew_words& words = crew_->words();
    if (options_.store_every > 0 && (words.step == 1 || words.step % options_.store_every == 0)) {
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
      if (crew_->words().step != ctx.step()) {
        ctx.resume_at(crew_->words().step);
        return fail(errc::cancelled, "evaluation", "the others are at step " + std::to_string(ctx.step()));
      }
      const auto sum = begun ? try_to_evaluate(ctx, b, static_cast<std::uint32_t>(pieces)) : result<double>{begun.error()};
      if (!sum) {
        CAUSEWAY_TRY(crew_->failed(sum.error()));
        if (!begun && begun.error().code == errc::cancelled && crew_->words().step == ctx.step()) return begun.error();
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
  result<void> save_blocks(auto& ctx) {
    return save_if(ctx, [&](std::int64_t b) { return savers_.is_first(layout_.holders(b), crew_->identity()); });
  }

  void serialize(auto& ar) {
    held_.serialize(ar);
    codec_.serialize(ar);
  }

  /// Of the last attempt, and the peers that took part in it.
  [[nodiscard]] const stage::layout& layout() const noexcept { return layout_; }
  [[nodiscard]] std::uint32_t peers() const noexcept { return static_cast<std::uint32_t>(index_of_.size()); }
  /// Blocks that this peer has received since it was built, and such that it made up because nobody had them.
  [[nodiscard]] std::uint64_t received_blocks() const noexcept { return received_blocks_; }
  [[nodiscard]] std::uint64_t interpolated_blocks() const noexcept { return interpolated_blocks_; }
  /// Attempts that went on with a step that an earlier one had begun, where the recovery policy keeps work.
  [[nodiscard]] std::uint64_t resumed_attempts() const noexcept { return resumed_attempts_; }

 private:
  static constexpr bool keeps_work = stage::WorkKeeping<Recovery>;
  static_assert(keeps_work == Recovery::traits.keeps_work, "see stage::WorkKeeping");
  // Two consecutive ones for the boundaries of an evaluation.
  static constexpr std::uint32_t evaluation_channel = collective::channels::activations + 2;
  // Kinds of messages on the channel of state; a gather takes two.
  enum channel : std::uint32_t {
    facts_channel = 0,
    sums_channel = 4,
    move_channel = 8,
    source_channel = 9,
    progress_channel = 12
  };

  result<void> begin(auto& ctx) {
    if (crew_ == nullptr || !ctx.elastic()) {
      return fail(errc::invalid_argument, "elastic pipeline",
                  "it needs a membership: give it and environment::group the same crew_group");
    }
    CAUSEWAY_TRY(check_micro_batches(name, options_.micro_batches));
    if (keeps_work && !std::is_same_v<Schedule, stage::one_f_one_b>) {
      return fail(errc::unsupported, "elastic pipeline",
                  std::string{Recovery::name} + " has an order of its own, 1F1B; use stage::one_f_one_b");
    }
    if (order_.chunks() != 1)
      return fail(errc::unsupported, "elastic pipeline", "a rank has one chunk here; use another schedule");
    if (options_.storage) savers_.begin(block_store{*options_.storage, options_.folder});
    held_.begin(ctx.model().part(), ctx.model().blocks(), savers_.store());
    return {};
  }

  // The peers of an attempt may meet several times.
  [[nodiscard]] net::message_id named(std::uint32_t on) const {
    return {.channel = on, .step = mix(attempt_.round, meetings_), .parent = attempt_.parent};
  }
  // Of boundaries, whose ids hold the micro-batch besides.
  [[nodiscard]] std::uint64_t meeting() const noexcept { return (attempt_.round << 16) + meetings_; }
  [[nodiscard]] collective::collective_options how(auto& ctx) const {
    collective::collective_options options = ctx.exchange_options();
    options.deadline = attempt_.deadline;
    return options;
  }

  // Whether the run has taken the step that this peer's gradient is complete for: then only the move is left. Loss and norm
  // may be the others' word, when a peer was lost before it had told its own to all. Others may have taken the step in
  // another attempt, whose sums are rounded otherwise: that is another state.
  [[nodiscard]] bool taken() const {
    const crew_words& now = crew_->words();
    return complete_ && now == next_words(now.loss, now.norm);
  }

  result<void> propose() {
    proposes_ = false;  // once; the gradient may still be used when others go through with it
    if (!std::isfinite(told_.norm)) return fail(errc::non_finite, "gradient", "its norm is not finite");
    return crew_->propose(told_);
  }

  // This peer's gradient is complete. Equal on all peers of the attempt, and in no attempt with other sums.
  void name_attempt() {
    hasher h;
    for (const auto& [id, index] : index_of_) h.add_value(id).add_value(index);
    add_layout(h, layout_).add_value(kept_.agreed()).add_value(crew_->words().state);
    next_ = {crew_->words().step + 1, h.finish(), 0, crew_->words().history, 0};
    next_.history.took_step(next_.step, recovery_.interval(), layout_, attempt_.transport->size());
    complete_ = true;
  }

  // What the run holds alike after the step of that attempt.
  [[nodiscard]] crew_words next_words(double loss, double norm) const {
    crew_words next = next_;
    next.loss = loss;
    next.norm = norm;
    next.state = mix(next_.state, std::bit_cast<std::uint64_t>(norm));
    return next;
  }

  // All of a step but the move of the parameters.
  result<void> attempt(auto& ctx) {
    proposes_ = false;
    if (taken()) {  // the attempt just begun is the next step's
      loss_ = crew_->words().loss;
      return {};
    }
    complete_ = false;
    codec_.begin_step();
    if (crew_->words().step != ctx.step()) return finished_by_others(ctx);
    CAUSEWAY_ASSIGN(const auto facts, meet(ctx, true));
    CAUSEWAY_TRY(assemble(ctx, *facts));
    auto done = compute(ctx);
    if (done) done = check_sound(loss_, ctx.own_norm());
    if (!done) return leave_to_others(ctx, done.error());
    CAUSEWAY_TRY(sum_gradients(ctx));
    name_attempt();
    CAUSEWAY_TRY(tell_sums(ctx));
    proposes_ = true;
    return {};
  }

  error leave_to_others(auto& ctx, const error& why) {
    if (why.code != errc::non_finite) return why;
    kept_.forget();
    return unsound_.judge(ctx.step(), why, held_.drop_spoilt(ctx), ctx.log());
  }

  // It goes to their step at once: who is behind when they have ended would wait for their next attempt for ever.
  error finished_by_others(auto& ctx) {
    complete_ = false;
    ctx.resume_at(crew_->words().step);
    crew_->finished_by_others();
    return fail(errc::cancelled, "step", "the others have finished it");
  }

  result<void> begin_attempt() {
    const std::uint32_t before = attempt_.attempt;
    const std::uint64_t round = attempt_.round;
    CAUSEWAY_ASSIGN(attempt_, crew_->begin_attempt());
    if (attempt_.attempt != before || attempt_.round != round) meetings_ = 0;
    return {};
  }

  // ---- evaluation -------------------------------------------------------------------------------------------------------

  // The sum of the losses. Not a number: there is none to be had.
  result<double> try_to_evaluate(auto& ctx, const batch& b, std::uint32_t pieces) {
    constexpr double none = std::numeric_limits<double>::quiet_NaN();
    CAUSEWAY_ASSIGN(const auto facts, meet(ctx, false));
    if (!facts) return missed_;
    auto made = recovery_.arrange(facts->gathered);
    if (!made || !lost_runs(facts->gathered).empty()) return none;  // the step will wait for peers, or mend it
    layout_ = std::move(*made);
    CAUSEWAY_TRY(check_layout(*facts));
    CAUSEWAY_TRY(take_seat(ctx, *facts));
    stage::layout shared_out = layout_;
    const auto shares = stage::even_shares(pieces, shared_out.replicas.size());
    for (std::size_t r = 0; r < shares.size(); ++r) shared_out.replicas[r].micro_batches = shares[r];
    const auto own = forward_only(ctx, shared_out, b, pieces);
    const auto sound = own ? check_sound(*own, 0) : result<void>{own.error()};
    if (!sound) return leave_to_others(ctx, sound.error());
    CAUSEWAY_ASSIGN(const auto all, of_everybody(ctx, *own));
    return std::accumulate(all.begin(), all.end(), 0.0);
  }

  // This peer's part of it.
  result<double> forward_only(auto& ctx, const stage::layout& l, const batch& b, std::uint32_t pieces) {
    if (seat_ == nullptr) return 0.0;
    CAUSEWAY_ASSIGN(const seat_work work, forwards_of(l, place_));
    stage::plain exact;
    return pass_seat(ctx, *attempt_.transport, index_of_, exact, work, stage::one_f_one_b{},
                     {b, pieces, seat_->computes, 0.0F, false},
                     {.channel = evaluation_channel, .step = meeting(), .deadline = attempt_.deadline});
  }

  // ---- who holds what ---------------------------------------------------------------------------------------------------

  // `own` of every peer of the attempt, by the transport's numbers; once in a meeting.
  template <class T>
  result<std::vector<T>> of_everybody(auto& ctx, const T& own) {
    std::vector<T> all(attempt_.transport->size(), own);
    if (all.size() > 1) {
      CAUSEWAY_TRY(collective::all_gather(*attempt_.transport, named(collective::channels::state + sums_channel),
                                          std::as_bytes(std::span{&own, 1}), std::as_writable_bytes(std::span{all}),
                                          how(ctx)));
    }
    return all;
  }

  // What all peers of the attempt hold, once all are at the same turn. None: the others are past this peer's, and told it
  // what it missed.
  result<std::optional<crew_facts>> meet(auto& ctx, bool trains) {
    crew_member own{held_.described(crew_->words(), ctx.model().blocks()), {}};
    own.peer.id = crew_->identity();
    if (trains) own.peer.begun = kept_.described(crew_->words(), ctx.model().part().ranges(ctx.model().blocks()));
    turns_.at(crew_->words().state);
    own.turn = turns_.now(trains);
    own.storage = savers_.identity(mix(crew_->identity(), attempt_.parent), ctx.log());
    const crew_agreement ours{agreement(ctx), ctx.model().blocks(), static_cast<std::uint32_t>(options_.micro_batches)};
    for (;;) {
      ++meetings_;
      CAUSEWAY_ASSIGN(
          crew_facts facts,
          gather_facts(*attempt_.transport, named(collective::channels::state + facts_channel), own, ours, how(ctx)));
      if (own.turn.order() < furthest(facts.turns)) {
        missed_ = missed(own.turn, facts.turns);
        return std::optional<crew_facts>{};
      }
      const auto with_us = [&](const crew_turn& t) { return t.order() == own.turn.order(); };
      if (!std::all_of(facts.turns.begin(), facts.turns.end(), with_us)) continue;  // the others come after
      savers_.met(facts);
      facts.gathered.step = crew_->words().step;
      facts.gathered.state = crew_->words().state;
      facts.gathered.history = crew_->words().history;
      return std::optional{std::move(facts)};
    }
  }

  result<void> assemble(auto& ctx, const crew_facts& facts) {
    auto made = recovery_.arrange(facts.gathered);
    if (!made) return wait_for_more(ctx, made.error());
    layout_ = std::move(*made);
    if constexpr (keeps_work) resumes_ = recovery_.resumes(facts.gathered);
    CAUSEWAY_TRY(check_layout(facts));
    for (const nn::block_range& r : lost_runs(facts.gathered)) {
      const bool between = r.first > 0 && r.last < facts.gathered.layers;
      if (Recovery::traits.lost == stage::lost_blocks::neighbours && between) continue;
      return go_back(ctx, facts,
                     fail(errc::not_found, "blocks " + nn::model_part::text(r),
                          "no peer that is there has them; the run goes on when one that has them is back"));
    }
    return take_seat(ctx, facts);
  }

  [[nodiscard]] result<void> check_layout(const crew_facts& facts) const {
    return layout_.check(facts.gathered.layers, facts.gathered.micro_batches);
  }

  // Of the state that the run is in, as far as this peer has it. One peer alone may save a block.
  template <class Ours>
  result<void> save_if(auto& ctx, Ours&& ours) {
    if (!savers_.saves()) return {};
    for (const nn::block_range& r : held_.described(crew_->words(), ctx.model().blocks()).holds) {
      for (std::int64_t b = r.first; b < r.last; ++b) {
        if (ours(b) && ctx.model().part().holds(b)) CAUSEWAY_TRY(held_.save(ctx, b, crew_->words()));
      }
    }
    return {};
  }

  // To the newest state that the peers find saved whole between them: they vote on it as on a step. Who left has saved what
  // it held; with what is here that may be the state of now.
  result<void> go_back(auto& ctx, const crew_facts& facts, const error& why) {
    const auto ours = [&](std::int64_t b) { return savers_.is_first(facts.gathered.holders(b), crew_->identity()); };
    if (const auto kept = save_if(ctx, ours); !kept) ctx.log()(severity::warning, kept.error().text());
    CAUSEWAY_ASSIGN(const saved_states found, savers_.found(ctx.model().blocks()));
    CAUSEWAY_ASSIGN(const auto everywhere, of_everybody(ctx, found));
    const auto newest = newest_together(everywhere, ctx.model().blocks());
    if (!newest) return wait_for_more(ctx, why);
    const crew_words saved = *newest;
    const std::string from = ctx.step() == saved.step ? "" : "back from step " + std::to_string(ctx.step()) + " to ";
    ctx.log()(from.empty() ? severity::info : severity::warning, why.where + ": no peer has them any more; going " + from +
                                                                     (from.empty() ? "on from step " : "step ") +
                                                                     std::to_string(saved.step) + ", which is saved");
    CAUSEWAY_TRY(crew_->propose(saved));
    held_.went_back(crew_->words(), blocks_of(found, saved));
    ctx.resume_at(crew_->words().step);
    crew_->finished_by_others();
    return fail(errc::cancelled, "step", "the run went back to step " + std::to_string(saved.step));
  }

  // The attempt comes to nothing; the membership begins another, ever later.
  result<void> wait_for_more(auto& ctx, const error& why) {
    if (why.code != errc::out_of_memory && why.code != errc::not_found) return why;
    if (why.message != said_)
      ctx.log()(severity::warning, "step " + std::to_string(ctx.step() + 1) + " waits: " + why.text());
    said_ = why.message;
    return fail(errc::cancelled, "step", "too few peers are there");
  }

  result<void> take_seat(auto& ctx, const crew_facts& facts) {
    said_.clear();
    index_of_.clear();
    for (std::size_t p = 0; p < facts.index_of.size(); ++p) index_of_[facts.gathered.peers[p].id] = facts.index_of[p];
    seat_ = layout_.find(crew_->identity(), &place_);
    const std::int64_t layers = ctx.model().blocks();
    const nn::model_part part = seat_ != nullptr ? nn::model_part{seat_->held()} : ctx.model().part();
    const bool same = part.ranges(layers) == ctx.model().part().ranges(layers);
    const bool ready = same && (seat_ == nullptr || held_.is_ready(part, crew_->words()));
    part_change change{held_,
                       crew_->words(),
                       facts,
                       layout_,
                       {*attempt_.transport, named(collective::channels::state + move_channel),
                        named(collective::channels::state + source_channel), attempt_.deadline}};
    if (!ready) kept_.forget();
    if (!ready || change.concerns_anybody()) CAUSEWAY_TRY(change.run(ctx, part, ready));
    received_blocks_ += change.received();
    interpolated_blocks_ += change.made_up_here();
    held_.seated(seat_ != nullptr ? seat_->computes : nn::block_range{}, static_cast<std::uint32_t>(place_.replica));
    return {};
  }

  // ---- the step ---------------------------------------------------------------------------------------------------------

  result<void> compute(auto& ctx) {
    if constexpr (keeps_work) return go_on(ctx);
    const auto gradients = ctx.gradients();
    kernels::zero(ctx.pool(), gradients.data(), static_cast<std::int64_t>(gradients.size()));
    loss_ = 0;
    if (seat_ == nullptr) return {};
    CAUSEWAY_ASSIGN(const seat_work work, work_of(layout_, place_, order_, recovery_));
    const auto dropout = dropout_of(ctx, work.first, work.schedule.micro_batches);
    CAUSEWAY_ASSIGN(loss_, pass_seat(ctx, *attempt_.transport, index_of_, codec_, work, order_, training_batch(dropout),
                                     boundaries(ctx)));
    return {};
  }

  // From what earlier attempts at the step have kept.
  result<void> go_on(auto& ctx) requires keeps_work {
    using tape = typename std::remove_cvref_t<decltype(ctx.model())>::tape_type;
    const kept_talk talk{*attempt_.transport, index_of_, named(collective::channels::state + progress_channel), how(ctx),
                         boundaries(ctx)};
    if (resumes_) {
      ++resumed_attempts_;
      CAUSEWAY_TRY(kept_.resume(talk, seat_ != nullptr, static_cast<std::uint32_t>(options_.micro_batches)));
    } else {
      kept_.template begin<tape>(crew_->words(), layout_, seat_ != nullptr ? &place_ : nullptr);
    }
    std::vector<std::uint64_t> dropout;
    if (seat_ != nullptr) {
      const std::size_t r = place_.replica;
      dropout = dropout_of(ctx, layout_.first_micro_batch(r), layout_.replicas[r].micro_batches);
    }
    CAUSEWAY_ASSIGN(loss_, kept_.run(ctx, layout_, codec_, training_batch(dropout), talk, recovery_.repeats_all()));
    return {};
  }

  [[nodiscard]] static std::vector<std::uint64_t> dropout_of(auto& ctx, std::uint32_t first, std::uint32_t count) {
    std::vector<std::uint64_t> all;
    for (std::uint32_t m = 0; m < count; ++m) all.push_back(mix(ctx.step(), first + m, dropout_stream));
    return all;
  }
  [[nodiscard]] seat_batch training_batch(std::span<const std::uint64_t> dropout) const {
    const float scale = 1.0F / static_cast<float>(whole_.tokens());
    return {whole_,
            static_cast<std::uint32_t>(options_.micro_batches),
            seat_ != nullptr ? seat_->computes : nn::block_range{},
            scale,
            true,
            dropout};
  }
  [[nodiscard]] batch_talk boundaries(auto& ctx) const {
    return {
        .channel = collective::channels::activations, .step = meeting(), .seed = ctx.step(), .deadline = attempt_.deadline};
  }

  result<void> sum_gradients(auto& ctx) {
    CAUSEWAY_ASSIGN(squares_, sum_blocks(ctx, *attempt_.transport, named(collective::channels::gradients), layout_,
                                         crew_->identity(), index_of_, how(ctx)));
    return {};
  }

  // Loss and squared norm of the whole, added up in the order of the transport's numbers: the same bits on all peers. Who
  // has heard from everybody knows that every gradient is complete.
  result<void> tell_sums(auto& ctx) {
    CAUSEWAY_ASSIGN(const auto all, of_everybody(ctx, std::array{loss_, squares_.first}));
    loss_ = 0;
    double sum_of_squares = 0;
    for (const auto& [loss, squares] : all) {
      loss_ += loss;
      sum_of_squares += squares;
    }
    told_ = next_words(loss_, std::sqrt(sum_of_squares));
    return {};
  }

  // Equal on peers that can be stages of one pipeline.
  [[nodiscard]] std::uint64_t agreement(auto& ctx) const {
    hasher h;
    h.add_value(std::uint64_t{ctx.model().config_hash()}).add_value(hash_text(Schedule::name));
    h.add_value(hash_text(Recovery::name)).add_value(recovery_.interval());
    h.add_value(codec_.agreement()).add_value(options_.micro_batches);
    return h.finish();
  }

  static constexpr std::uint64_t dropout_stream = 0x656C7069;

  std::shared_ptr<crew> crew_;
  elastic_pipeline_options options_;
  Recovery recovery_;
  Schedule order_;
  Codec codec_;
  block_ownership held_;
  resumable_step kept_;   // of a step under way, where the policy keeps it
  bool resumes_ = false;  // the attempt under way goes on with it

  batch whole_;
  crew_attempt attempt_;
  std::uint64_t meetings_ = 0;  // in this attempt
  crew_turns turns_;
  double missed_ = 0;  // an evaluation that others are through with
  stage::layout layout_;
  std::map<std::uint64_t, net::peer_index> index_of_;  // by id
  block_savers savers_;
  const stage::seat* seat_ = nullptr;  // in layout_; none: spare
  stage::layout::place place_;
  double loss_ = 0;
  block_squares squares_;
  crew_words next_;        // after the step of the last complete attempt, without loss and norm
  crew_words told_;        // likewise with them: what this peer would propose
  bool complete_ = false;  // the gradients are those of the whole batch
  bool proposes_ = false;  // and the attempt that made them so is under way
  std::string said_;
  unsound_steps unsound_;
  std::uint64_t received_blocks_ = 0;
  std::uint64_t interpolated_blocks_ = 0;
  std::uint64_t resumed_attempts_ = 0;
};
static_assert(ParallelismPolicy<elastic_pipeline<>>);

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_PIPELINE_HPP
