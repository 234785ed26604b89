// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_PIPELINE_HPP
#define CAUSEWAY_PARALLEL_PIPELINE_HPP

// A model cut into stages on several peers, synchronous: a batch goes through in micro-batches, in the order of a schedule,
// and all stages make the same step. Communication policies work within the group of peers that hold the same stage of
// different pipelines (replicas); with one pipeline that group is a single peer.

#include <causeway/collective/channels.hpp>
#include <causeway/collective/group_view.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/deadline.hpp>
#include <causeway/nn/declaration.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/parallel/micro_batches.hpp>
#include <causeway/parallel/pipeline/embedding_base.hpp>
#include <causeway/parallel/pipeline/pipeline_batch.hpp>
#include <causeway/parallel/pipeline/pipeline_exchange.hpp>
#include <causeway/parallel/pipeline/pipeline_mailbox.hpp>
#include <causeway/parallel/pipeline/pipeline_place.hpp>
#include <causeway/parallel/pipeline/random_routes.hpp>
#include <causeway/parallel/stage_model.hpp>
#include <causeway/plan/schedule.hpp>
#include <causeway/plan/schedule_cursor.hpp>
#include <causeway/policy/concepts.hpp>
#include <causeway/stage/activation.hpp>
#include <causeway/stage/schedules.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// Gradient of the mean loss over a pipeline's batch; every peer of it is given the same batch (the first stage reads the
/// inputs, the last the targets). With `stage::plain` loss and gradients have the bits of the unsplit model over the same
/// micro-batches; only a tied token table is added up in another order: output layer first, then embedding. Where
/// micro-batches go two ways, gradients and losses are summed way by way. Build each peer's model with `part_of(options,
/// place_in(options, self, peers), layers, schedule.chunks(), path)`, with the path of stage::path_of(schedule); without
/// one for a schedule whose chunks go round.
///
/// Bytes per step and boundary: micro-batches × what the codec makes of [tokens, width], each way; a tied table once more
/// each way between first and last rank; all gradients, where each stage is on two ranks. Memory: activations as the
/// schedule says, of micro-batches. The norm by which gradients are clipped is that of the whole model, so that every stage
/// clips alike.
template <stage::Schedule Schedule = stage::one_f_one_b, stage::ActivationCodec Codec = stage::plain>
class pipeline {
 public:
  static constexpr std::string_view name = "pipeline";
  static constexpr parallel_traits traits{.staged = true, .sums_over_stages = true};
  static constexpr std::uint32_t state_version = Codec::state_version;

  explicit pipeline(pipeline_options options = {}, Schedule schedule = Schedule{}, Codec codec = Codec{})
      : options_{std::move(options)}, order_{std::move(schedule)}, codec_{std::move(codec)} {}

  /// Finds this peer's place, and checks that the parts of all its pipeline's peers make one model.
  result<void> start(auto& ctx) {
    if constexpr (has_stages<std::remove_cvref_t<decltype(ctx.model())>>()) return begin(ctx);
    return {};  // the refusal is the only error
  }

  result<double> forward_backward(auto& ctx, const batch& b) {
    codec_.begin_step();
    CAUSEWAY_TRY(check_batch(name, b, options_.micro_batches));
    completed_ = false;
    std::vector<std::uint64_t> dropout(schedule_.micro_batches);
    for (std::uint32_t m = 0; m < schedule_.micro_batches; ++m) dropout[m] = ctx.dropout_stream(m);
    const float scale = 1.0F / static_cast<float>(b.tokens());
    auto view = view_of(ctx);
    const time_point begin = ctx.clock().now();
    auto loss = options_.random_routes
                    ? run_routed(ctx, view, b, scale, dropout)
                    : run_batch(ctx, view, codec_, *cursor_, {schedule_, place_.rank, chunks_, b, scale, true, dropout},
                                boundaries_on(ctx, first_channel, &base_), exchange(ctx));
    if (loss) batch_times_.observe(ctx.clock().now() - begin);
    return loss;
  }

  /// Over all stages; the gradients of a tied table are added up first. 8 bytes to every peer of the pipeline.
  result<float> norm(auto& ctx) {
    auto view = view_of(ctx);
    if (!completed_) CAUSEWAY_TRY(complete_gradients(ctx, view));
    completed_ = true;
    return norm_of_pipeline(view, squares(ctx), exchange(ctx));
  }

  /// What this step taught the codec counts from now on. After a round of either, first and last rank hold the same tied
  /// table again, the first one's: exchanges of the two groups add up in different orders, and where fragments take turns
  /// the table is not due at both at once. So do the two copies of a stage, where micro-batches go two ways.
  result<void> after_step(auto& ctx) {
    if (has_copies() && place_.replicas() > 1 && ctx.round() != round_) {
      auto view = view_of(ctx);
      CAUSEWAY_ASSIGN(const bool moved, align_copies(view, ctx.parameters(), exchange(ctx)));
      if (moved) ctx.parameters_changed();
    }
    if (has_tied_table(ctx)) {
      auto view = view_of(ctx);
      CAUSEWAY_ASSIGN(const bool moved, at_either_end(view, ctx.round() != round_, exchange(ctx)));
      if (moved) {
        CAUSEWAY_TRY(copy_to_last(view, tied(ctx, ctx.parameters()), exchange(ctx)));
        ctx.parameters_changed();
      }
    }
    round_ = ctx.round();
    return codec_.commit_step();
  }

  /// Boundaries cross as f32 here, whatever the codec. Any number of sequences; a batch goes through in at most as many
  /// micro-batches as in training.
  result<double> evaluate(auto& ctx, const batch& b) {
    const std::int64_t pieces = std::gcd(b.sequences, options_.micro_batches);
    CAUSEWAY_TRY(check_batch(name, b, pieces));
    auto view = view_of(ctx);
    return evaluate_batch(ctx, view, chunks_, static_cast<std::uint32_t>(pieces), b, boundaries_on(ctx, evaluation_channel),
                          exchange(ctx), schedule_.path);
  }

  void serialize(auto& ar) { codec_.serialize(ar); }

  [[nodiscard]] const pipeline_place& place() const noexcept { return place_; }
  [[nodiscard]] const plan::schedule& schedule() const noexcept { return schedule_; }
  [[nodiscard]] Codec& codec() noexcept { return codec_; }
  [[nodiscard]] const pipeline_options& options() const noexcept { return options_; }
  [[nodiscard]] Schedule& order() noexcept { return order_; }

 private:
  // Channels of activations: 0, 1 training; 2, 3 evaluation; 4 what the stages tell each other.
  static constexpr std::uint32_t first_channel = collective::channels::activations;
  static constexpr std::uint32_t evaluation_channel = first_channel + 2;

  result<void> begin(auto& ctx) {
    CAUSEWAY_ASSIGN(place_, place_in(options_, ctx.world().self(), ctx.numbered_peers()));
    CAUSEWAY_TRY(make_schedule());
    CAUSEWAY_ASSIGN(chunks_, chunks_in(ctx.model()));
    ctx.form_group(place_.group);
    ctx.stages().form(ctx.world(), place_.pipeline, copies(ctx));
    auto view = view_of(ctx);
    CAUSEWAY_TRY(agree_on_parts(view, {agreement(ctx), ctx.model().blocks(), schedule_.chunks, ctx.step(), schedule_.path},
                                chunks_, {{.channel = first_channel + 4}, ctx.exchange_options()}));
    round_ = ctx.round();
    if constexpr (stage::UsesBase<Codec>) {
      if (place_.ranks() > 1 && stage::needs_base(codec_)) {
        return base_.share(view, ctx.pool(), ctx.model(), codec_, exchange(ctx));
      }
    }
    return {};
  }

  result<void> make_schedule() {
    CAUSEWAY_TRY(check_micro_batches(name, options_.micro_batches));
    CAUSEWAY_ASSIGN(schedule_, order_.make(place_.ranks(), static_cast<std::uint32_t>(options_.micro_batches)));
    if (stage::remembers(codec_) && has_copies()) {
      return fail(errc::unsupported, "pipeline",
                  "samples go the one way now and the other way later, which an activation codec that remembers them can't "
                  "follow; use stage::plain or stage::coded, or a schedule of one way");
    }
    if (options_.random_routes) CAUSEWAY_TRY(check_routes());
    cursor_ = cursor_of(schedule_, place_.rank, order_);
    window_ = window_of(schedule_, order_);
    return {};
  }

  [[nodiscard]] collective::group_view view_of(auto& ctx) const { return {ctx.world(), place_.pipeline}; }

  [[nodiscard]] pipeline_exchange exchange(auto& ctx) const {
    pipeline_exchange t{{.channel = first_channel + 4, .step = ctx.step()}, ctx.exchange_options()};
    t.options.deadline = deadline(ctx);
    return t;
  }

  [[nodiscard]] boundary_options boundaries_on(auto& ctx, std::uint32_t channel,
                                               const embedding_base* base = nullptr) const {
    return {channel, ctx.step(), place_.replica, window_, deadline(ctx), base};
  }
  // No wait is longer than a batch has ever taken, with room for a peer that saves a checkpoint; before the first, a day.
  // So a peer that hangs ends the run with an error that names whom this one waited for.
  [[nodiscard]] time_point deadline(auto& ctx) const {
    return std::min(ctx.exchange_options().deadline, batch_times_.deadline(ctx.clock().now()));
  }

  result<void> check_routes() const {
    const auto no = [](const char* why) -> result<void> { return fail(errc::unsupported, "pipeline random routes", why); };
    if (schedule_.chunks > 1) return no("replicas swap whole stages; use a schedule with one chunk on each rank");
    if (stage::remembers(codec_)) {
      return no(
          "samples go other ways in every step, which an activation codec that remembers them can't follow; use "
          "stage::plain or stage::coded");
    }
    if (stage::needs_base(codec_))
      return no("the codec knows the embedding of this replica's tokens only; use another one");
    return {};
  }

  // As run_batch, where the stages before and behind are of other replicas in each micro-batch. The loss is that of the
  // micro-batches that end in this pipeline.
  result<double> run_routed(auto& ctx, collective::group_view& view, const batch& b, float scale,
                            std::span<const std::uint64_t> dropout) {
    const std::uint32_t ranks = place_.ranks();
    const random_routes routes{place_.replicas(), ranks, ctx.options().seed};
    std::vector<std::vector<std::uint32_t>> peers(schedule_.micro_batches);
    for (std::uint32_t m = 0; m < schedule_.micro_batches; ++m) {
      peers[m] = routes.way(ctx.step(), m, place_.replica, place_.rank);
      for (std::uint32_t s = 0; s < ranks; ++s) peers[m][s] = place_.rows[peers[m][s]][s];
    }
    batch routed = b;
    if (place_.rank + 1 == ranks) {
      collective::group_view last_stages{ctx.world(), place_.group};
      CAUSEWAY_TRY(swap_targets(last_stages, routes, ranks, schedule_.micro_batches, b, routed_targets_, exchange(ctx)));
      routed.targets = routed_targets_;
    }
    std::vector<net::peer_index> everybody(ctx.world().size());
    std::iota(everybody.begin(), everybody.end(), net::peer_index{0});
    collective::group_view all{ctx.world(), std::move(everybody)};
    boundary_options boundaries = boundaries_on(ctx, first_channel);
    boundaries.seed = 0;  // both sides of a boundary must have the same
    boundaries.routes = &peers;
    CAUSEWAY_ASSIGN(const double sum,
                    pass_batch(ctx, all, codec_, *cursor_, {schedule_, place_.rank, chunks_, routed, scale, true, dropout},
                               boundaries));
    CAUSEWAY_ASSIGN(const double loss, loss_of_pipeline(view, sum, loss_rank(schedule_), exchange(ctx)));
    return loss / static_cast<double>(b.tokens());
  }

  // The blocks of this rank's chunks. A part that was cut otherwise is for all ranks to agree on, if it can be told apart.
  result<std::vector<nn::block_range>> chunks_in(const auto& model) const {
    const nn::model_part& part = model.part();
    if (schedule_.path == plan::stage_path::round && place_.ranks() > 1) return part.ranges(model.blocks());
    auto chunks = chunks_of(options_, place_, model.blocks(), schedule_.chunks, schedule_.path);
    for (std::size_t c = 0; chunks && c < chunks->size(); ++c) {
      if (part.holds((*chunks)[c])) continue;
      return fail(errc::wrong_model, "pipeline",
                  "this peer's model lacks blocks " + nn::model_part::text((*chunks)[c]) +
                      "; build it with parallel::part_of, with the chunks and the path of the schedule");
    }
    return chunks;
  }

  // Equal on peers that can be stages of one pipeline.
  [[nodiscard]] std::uint64_t agreement(auto& ctx) const {
    hasher h;
    h.add_value(std::uint64_t{ctx.model().config_hash()}).add_value(hash_text(Schedule::name));
    h.add_value(codec_.agreement())
        .add_value(options_.micro_batches)
        .add_value(schedule_.path)
        .add_value(options_.random_routes);
    return h.finish();
  }

  // Whether each stage is on two ranks, this one and its mirror.
  [[nodiscard]] bool has_copies() const noexcept { return schedule_.path == plan::stage_path::two_ways; }
  // Whether this is one of two ranks that hold the ends of the model, and a table which is part of both.
  [[nodiscard]] bool has_tied_table(auto& ctx) const {
    return schedule_.path == plan::stage_path::round && place_.ranks() > 1 && ctx.model().tied_table() != nn::not_held;
  }
  [[nodiscard]] std::span<float> tied(auto& ctx, std::span<float> flat) const {
    const auto& s = ctx.model().parameters().segments()[ctx.model().tied_table()];
    return flat.subspan(static_cast<std::size_t>(s.offset), static_cast<std::size_t>(s.size()));
  }

  result<void> complete_gradients(auto& ctx, collective::group_view& view) {
    if (has_copies()) return add_copies(view, ctx.pool(), ctx.gradients(), other_end_, exchange(ctx));
    if (!has_tied_table(ctx)) return {};
    return add_ends(view, ctx.pool(), tied(ctx, ctx.gradients()), other_end_, exchange(ctx));
  }

  // What of this rank's parameters counts on another rank: the second copy of a stage, and of a tied table.
  [[nodiscard]] std::vector<index_range> copies(auto& ctx) const {
    const auto flat = ctx.parameters();
    if (has_copies() && place_.rank >= place_.ranks() / 2) return {{0, std::ssize(flat)}};
    if (!has_tied_table(ctx) || place_.rank == 0) return {};
    const auto begin = tied(ctx, flat).data() - flat.data();
    return {{begin, begin + std::ssize(tied(ctx, flat))}};
  }

  // The squared norm of this rank's gradient; a tied table counts on the first rank only, the second copy of a stage
  // nowhere.
  [[nodiscard]] double squares(auto& ctx) const {
    if (has_copies() && place_.rank >= place_.ranks() / 2) return 0;
    if (!has_tied_table(ctx) || place_.rank == 0) {
      const double all = ctx.own_norm();
      return all * all;
    }
    const auto table = tied(ctx, ctx.gradients());
    const auto from = static_cast<std::size_t>(table.data() - ctx.gradients().data());
    const double before = ctx.norm_of(ctx.gradients().first(from));
    const double behind = ctx.norm_of(ctx.gradients().subspan(from + table.size()));
    return before * before + behind * behind;
  }

  pipeline_options options_;
  Schedule order_;
  Codec codec_;
  pipeline_place place_;
  plan::schedule schedule_;
  std::optional<plan::schedule_cursor> cursor_;
  std::vector<nn::block_range> chunks_;
  std::vector<std::int32_t> routed_targets_;  // of the micro-batches that other replicas began
  embedding_base base_;                       // empty where the codec uses none
  std::vector<float> other_end_;  // a tied table's gradient of the other end; all gradients, where a stage has two copies
  net::arrival_statistics batch_times_{{.floor = std::chrono::minutes{10}, .cap = std::chrono::hours{24}}};
  std::uint64_t round_ = 0;
  std::uint32_t window_ = 1;
  bool completed_ = false;  // this step's gradients of a tied table, or of both copies, are added up
};
static_assert(ParallelismPolicy<pipeline<>>);

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_PIPELINE_HPP
