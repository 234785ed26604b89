// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ASYNC_PIPELINE_HPP
#define CAUSEWAY_PARALLEL_ASYNC_PIPELINE_HPP

// A model cut into stages on several peers, asynchronous: micro-batches stream through without a flush, and every stage
// updates its parameters on its own, with gradients that are late. No bubble but that of filling the pipeline once.
// PipeDream (Narayanan et al., SOSP 2019); with optim::nadam, whose look-ahead makes up for the delay, NAG-PP (Ajanthan et
// al., ICML 2025, arXiv 2505.01099).

#include <causeway/collective/channels.hpp>
#include <causeway/collective/group_view.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/net/deadline.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/parallel/micro_batches.hpp>
#include <causeway/parallel/pipeline/async_pipeline_stream.hpp>
#include <causeway/parallel/pipeline/pipeline_batch.hpp>
#include <causeway/parallel/pipeline/pipeline_exchange.hpp>
#include <causeway/parallel/pipeline/pipeline_place.hpp>
#include <causeway/parallel/stage_model.hpp>
#include <causeway/policy/concepts.hpp>
#include <causeway/stage/activation.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// All but `stashing` equal on all peers.
struct async_pipeline_options {
  pipeline_options cut{.micro_batches = 1};  ///< one update after so many micro-batches, the pieces of a step's batch
  /// Backwards use the parameters of their forward (PipeDream). Off: those of now, which saves their memory; the gradient
  /// then mixes two versions.
  bool stashing = true;
  /// Micro-batches in flight on each boundary besides PipeDream's one. With a of them a boundary's latency there and back
  /// is hidden if it is at most the compute of a micro-batches; without, a latency of l seconds makes a step 2 l (p-1) / p
  /// longer. Gradients are as much later.
  std::uint32_t ahead = 0;
};

/// In its step t (from 0) rank r of p runs the forward of micro-batch t and the backward of micro-batch t - d, the oldest
/// in flight, for d = (p - 1 - r)·(1 + ahead): the step's gradient and loss are those of batch t - d. With k micro-batches
/// a step they are those of micro-batches t·k - d to t·k + k - 1 - d, and at most ceil(d / k) updates come between a
/// forward and its backward. Before the first gradient is back a step moves nothing, and its loss is not a number.
///
/// The replicas of a stage exchange among themselves: with a policy of gradients that of each update, in the order of
/// updates. A step before the first gradient is back has no update, and no such exchange.
///
/// The last peer may be d steps behind the first. Batches must have one shape. Clipping is by each stage's own norm.
/// Micro-batches in flight are not part of a checkpoint and are dropped at the end of training: the last d of rank r count
/// as samples, but it did not learn from them; after a restore the pipeline fills anew.
///
/// Bytes per micro-batch and boundary: what the codec makes of [tokens, width], and 8, each way. Memory: activations and
/// the gradient's receive of d + 1 micro-batches; with stashing ceil(d / k) copies of the parameters, and one spare.
template <stage::ActivationCodec Codec = stage::plain>
class async_pipeline {
 public:
  static constexpr std::string_view name = "async_pipeline";
  static constexpr parallel_traits traits{.staged = true, .global_step = false};
  static constexpr std::uint32_t state_version = 100 + Codec::state_version;

  explicit async_pipeline(async_pipeline_options options = {}, Codec codec = Codec{})
      : options_{std::move(options)}, codec_{std::move(codec)} {}

  /// Finds this peer's place, and checks that the parts of all its pipeline's peers make one model, at one step.
  result<void> start(auto& ctx) {
    if constexpr (has_stages<std::remove_cvref_t<decltype(ctx.model())>>()) return begin(ctx);
    return {};  // the refusal is the only error
  }

  result<double> forward_backward(auto& ctx, const batch& b) {
    CAUSEWAY_TRY(check_batch(ctx, b));
    auto& stream = stream_of(ctx, b);
    if (!begun_) {
      codec_.begin_step();
      forwards_ = backwards_ = 0;
      loss_ = 0;
    } else {
      std::copy(kept_.begin(), kept_.end(), ctx.gradients().begin());  // of what this step did before it failed
    }
    begun_ = true;
    moved_ = 0;
    const time_point begin = ctx.clock().now();
    stream.deadline(deadline(ctx));
    const auto outcome = run_step(ctx, stream, b);
    if (!outcome) {
      kept_.assign(ctx.gradients().begin(), ctx.gradients().end());
      return outcome.error();
    }
    begun_ = false;
    step_times_.observe(ctx.clock().now() - begin);
    ++turn_;
    return yield(ctx, b);
  }

  /// Of this stage alone: the others are at other steps.
  result<float> norm(auto& ctx) {
    moved_ = 1;
    return ctx.own_norm();
  }

  result<void> after_step(auto&) {
    CAUSEWAY_TRY(codec_.commit_step());
    moved_ = 0;
    return {};
  }

  /// Forward only, with every stage's parameters of now, which have come to the same step. Boundaries cross as f32.
  result<double> evaluate(auto& ctx, const batch& b) {
    CAUSEWAY_TRY(check_batch(ctx, b, false));
    auto view = view_of(ctx);
    return evaluate_batch(
        ctx, view, chunks_, pieces(), b,
        {.channel = evaluation_channel, .step = ctx.step(), .seed = place_.replica, .deadline = deadline(ctx)},
        exchange(ctx, ctx.step()));
  }

  void serialize(auto& ar) {
    ar(moved_);
    codec_.serialize(ar);
  }

  [[nodiscard]] const pipeline_place& place() const noexcept { return place_; }
  /// Micro-batches between a forward and its backward on this rank.
  [[nodiscard]] std::uint64_t delay() const noexcept {
    return place_.pipeline.empty() ? 0 : std::uint64_t{place_.ranks() - 1 - place_.rank} * (1 + options_.ahead);
  }
  [[nodiscard]] Codec& codec() noexcept { return codec_; }
  [[nodiscard]] const async_pipeline_options& options() const noexcept { return options_; }

 private:
  // Channels of activations, as in pipeline: 0, 1 training; 2, 3 evaluation; 4 what the stages tell each other.
  static constexpr std::uint32_t first_channel = collective::channels::activations;
  static constexpr std::uint32_t evaluation_channel = first_channel + 2;

  template <class Context>
  using stream_type = async_stream<std::remove_cvref_t<decltype(std::declval<Context&>().model())>, Codec>;

  result<void> begin(auto& ctx) {
    CAUSEWAY_TRY(check_options());
    CAUSEWAY_ASSIGN(place_, place_in(options_.cut, ctx.world().self(), ctx.numbered_peers()));
    if (place_.ranks() > 1 && ctx.model().tied_table() != nn::not_held) {
      return fail(errc::unsupported, "async_pipeline",
                  "first and last stage share a token table, whose gradients would be of different batches; build the "
                  "model with tie = false, or use parallel::pipeline");
    }
    chunks_ = ctx.model().part().ranges(ctx.model().blocks());
    ctx.form_group(place_.group);
    auto view = view_of(ctx);
    // A peer that was stopped in an exchange has the step behind it, but for that.
    return agree_on_parts(view, {agreement(ctx), ctx.model().blocks(), 1, ctx.step() + moved_}, chunks_, exchange(ctx, 0));
  }

  [[nodiscard]] result<void> check_options() const {
    CAUSEWAY_TRY(check_micro_batches(name, options_.cut.micro_batches));
    if (options_.ahead >= 1U << most_ahead_bits) {
      return fail(errc::invalid_argument, "async_pipeline",
                  std::to_string(options_.ahead) + " micro-batches ahead; choose fewer than 65536");
    }
    return {};
  }

  // Equal on peers that can be stages of one pipeline.
  [[nodiscard]] std::uint64_t agreement(auto& ctx) const {
    hasher h;
    h.add_value(std::uint64_t{ctx.model().config_hash()}).add_value(hash_text(name)).add_value(codec_.agreement());
    h.add_value(options_.cut.micro_batches).add_value(options_.ahead);
    return h.finish();
  }

  [[nodiscard]] collective::group_view view_of(auto& ctx) const { return {ctx.world(), place_.pipeline}; }

  // `step`: on which the stages agree; 0 before they do.
  [[nodiscard]] pipeline_exchange exchange(auto& ctx, std::uint64_t step) const {
    pipeline_exchange t{{.channel = first_channel + 4, .step = step}, ctx.exchange_options()};
    t.options.deadline = deadline(ctx);
    return t;
  }
  // No wait is longer than a step has ever taken, with room for a neighbour that saves a checkpoint or is in an exchange;
  // before the first, a day. So a peer that hangs ends the run with an error that names whom this one waited for.
  [[nodiscard]] time_point deadline(auto& ctx) const {
    return std::min(ctx.exchange_options().deadline, step_times_.deadline(ctx.clock().now()));
  }

  result<void> check_batch(auto& ctx, const batch& b, bool training = true) const {
    const std::int64_t k = options_.cut.micro_batches;
    CAUSEWAY_TRY(parallel::check_batch(name, b, k));
    if (!training || !stream_ || shape_of(ctx, b) == shape_) return {};
    return fail(errc::invalid_argument, "async_pipeline",
                "batches of different shapes cannot follow each other; give all of them " +
                    std::to_string(shape_.sequences * k) + " sequences of " +
                    std::to_string(shape_.rows / shape_.sequences) + " tokens");
  }

  [[nodiscard]] stream_shape shape_of(auto& ctx, const batch& b) const {
    const std::int64_t k = options_.cut.micro_batches;
    return {b.sequences / k, b.tokens() / k, ctx.model().width()};
  }

  template <class Context>
  stream_type<Context>& stream_of(Context& ctx, const batch& b) {
    if (!stream_) {
      shape_ = shape_of(ctx, b);
      const typename async_pipeline_mailbox<Codec>::options mailbox{
          .channel = first_channel, .seed = place_.replica, .shape = shape_, .late = std::size_t{1} + options_.ahead};
      const stream_setup setup{.rank = place_.rank,
                               .ranks = place_.ranks(),
                               .pieces = pieces(),
                               .late = 1 + options_.ahead,
                               .first_step = ctx.step(),
                               .blocks = chunks_[0],
                               .shape = shape_,
                               .grad_scale = 1.0F / static_cast<float>(b.tokens()),
                               .stashing = options_.stashing};
      stream_ = std::make_unique<stream_type<Context>>(view_of(ctx), mailbox, setup);
    }
    return static_cast<stream_type<Context>&>(*stream_);
  }

  [[nodiscard]] std::uint32_t pieces() const noexcept { return static_cast<std::uint32_t>(options_.cut.micro_batches); }

  // One forward, one backward, in turn; goes on where it stopped.
  result<void> run_step(auto& ctx, auto& stream, const batch& b) {
    const std::int64_t each = b.sequences / pieces();
    const std::uint64_t first = turn_ * pieces();
    for (std::uint32_t i = 0; i < pieces(); ++i) {
      if (forwards_ == i) {
        CAUSEWAY_TRY(stream.forward(ctx.model(), codec_, first + i, b.slice(i * each, each), ctx.dropout_stream(i)));
        ++forwards_;
      }
      if (first + forwards_ - returned_ > delay()) {  // not by what is in flight: a forward may have failed half-way
        CAUSEWAY_ASSIGN(const double loss, stream.backward(ctx.model(), codec_));
        loss_ += loss;
        ++backwards_, ++returned_;
      }
    }
    return stream.end_step(ctx.model(), stream.setup().first_step + turn_);
  }

  // The step's gradient is the mean over the micro-batches that came back in it: all but in the first steps.
  double yield(auto& ctx, const batch& b) {
    if (backwards_ == 0) {
      ctx.skip_inner_step();
      moved_ = 1;
      return std::numeric_limits<double>::quiet_NaN();
    }
    const double share = static_cast<double>(backwards_) / pieces();
    if (backwards_ < pieces()) {
      const auto g = ctx.gradients();
      kernels::scale(ctx.pool(), g.data(), static_cast<float>(1.0 / share), static_cast<std::int64_t>(g.size()));
    }
    return loss_ / (share * static_cast<double>(b.tokens()));
  }

  static constexpr std::uint32_t most_ahead_bits = 16;

  async_pipeline_options options_;
  Codec codec_;
  pipeline_place place_;
  std::vector<nn::block_range> chunks_;
  stream_shape shape_;
  net::arrival_statistics step_times_{{.floor = std::chrono::minutes{10}, .cap = std::chrono::hours{24}}};
  std::unique_ptr<any_stream> stream_;  // since the first batch
  std::uint64_t turn_ = 0;              // steps of this stream
  std::uint32_t forwards_ = 0;          // done in this step
  std::uint32_t backwards_ = 0;
  std::uint64_t returned_ = 0;  // backwards done in all steps
  double loss_ = 0;             // of those backwards
  std::vector<float> kept_;     // gradients of a step that failed
  bool begun_ = false;          // this step has failed, and is to go on
  std::uint8_t moved_ = 0;      // the step under way needs no more batch: what is missing is an exchange
};
static_assert(ParallelismPolicy<async_pipeline<>>);

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ASYNC_PIPELINE_HPP
