// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_STREAMED_STEPS_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_STREAMED_STEPS_HPP

// Steps of a replica without a flush: between two exchanges micro-batches stream through its stages, and each stage moves
// when a batch has come back to it. Before an exchange the stream is drained. When an attempt is called off and the replica
// is whole, each stage sends again what its neighbours have not taken, and the stream goes on with the same bits.

#include <causeway/collective/channels.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/parallel/elastic/cohort_progress.hpp>
#include <causeway/parallel/elastic/peer_inventory.hpp>
#include <causeway/parallel/elastic/pipeline_peer.hpp>
#include <causeway/parallel/elastic/replica_steps.hpp>
#include <causeway/parallel/elastic/replica_sums.hpp>
#include <causeway/parallel/elastic/unsound_steps.hpp>
#include <causeway/parallel/pipeline/async_pipeline_stream.hpp>
#include <causeway/parallel/tied_table.hpp>
#include <causeway/stage/activation.hpp>
#include <causeway/tensor/batch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

struct streamed_options {
  bool stashing = true;     ///< as async_pipeline_options; each peer's own choice
  std::uint32_t ahead = 0;  ///< likewise; equal on all peers
};

/// Rank r of p, whose replica has k micro-batches of each batch, makes the steps of a round as async_pipeline does: k
/// forwards, after each of them the backward of the micro-batch d = (p - 1 - r)·(1 + ahead) before, and then moves by the
/// mean gradient of those that came back, if any did. In the last step of a round all others come back, too, and it moves
/// once for each step in which it stood still, by k of them each, before which d mod k go with those of the step. So every
/// stage moves H times in a round of H steps, and by each micro-batch once. Which step is the last is the first stage's
/// word, that goes with the forward of its last micro-batch from stage to stage: so it may be said as late as that.
class streamed_steps {
 public:
  static constexpr std::string_view name = "local_async_pipeline";
  static constexpr bool flushes = false;

  explicit streamed_steps(streamed_options options = {}) : options_{options} {}

  [[nodiscard]] static constexpr std::uint32_t chunks() noexcept { return 1; }
  [[nodiscard]] std::uint64_t agreement() const { return mix(hash_text(name), options_.ahead); }

  /// What was in flight is not part of a checkpoint: a peer's replica is whole if all of them were started again from the
  /// same step. errc::unsupported: the codec needs what a stream does not give it, or both ends of the model share a table.
  template <class Codec>
  result<void> begin(const auto& model, cohort_progress& progress, const Codec& codec) const {
    CAUSEWAY_TRY(check_untied(model, name));
    progress.start_again();
    if (!stage::needs_base(codec)) return {};
    return fail(errc::unsupported, std::string{name},
                "its stages do not know each other's embedding, which this activation codec reads; use another one");
  }

  /// What this peer has taken from its neighbours.
  template <class Context, class Codec>
  void describe(Context&, const Codec&, cohort_member& own) const {
    own.forwards = stream_ ? as<Context, Codec>().taken(stage::direction::forward) : 0;
    own.gradients = stream_ ? as<Context, Codec>().taken(stage::direction::backward) : 0;
  }

  /// The mean loss over the micro-batches that came back last; not a number where none did.
  template <class Context, class Recovery, class Codec>
  result<double> run(Context& ctx, const replica_step<Recovery, Codec>& s, const batch& b) {
    CAUSEWAY_TRY(open<Context>(ctx, s, b));
    auto& stream = as<Context, Codec>();
    stream.deadline(s.peer.attempt.deadline);
    put_back(ctx);
    auto outcome = ended_ ? result<void>{} : step(ctx, stream, s, b);
    if (outcome && stream.ends()) outcome = drain(ctx, stream, s);
    if (!outcome) return stopped(ctx, s, outcome.error());
    double loss = std::numeric_limits<double>::quiet_NaN();
    if (came_ == 0) {
      ctx.skip_inner_step();
    } else {
      CAUSEWAY_ASSIGN(loss, take_mean(ctx, s));
    }
    ++turn_;
    forwards_ = 0;
    ended_ = false;
    s.progress.note_exchange(stream.ends());
    s.progress.took_step();
    return loss;
  }
  /// Of this stage alone: the others are at other micro-batches.
  [[nodiscard]] float norm(cohort_progress&) const noexcept { return norm_; }

  result<void> begin_replica(auto&, const pipeline_peer&) const { return {}; }
  /// Over the transport of another attempt. `members`: what the peers say, by place in `inventory`.
  template <class Context, class Recovery, class Codec>
  result<void> go_on(Context&, const replica_step<Recovery, Codec>& s, const cluster_inventory& inventory,
                     std::span<const cohort_member> members) {
    if (!stream_) return {};
    const auto& stages = s.replica().assignments;
    const auto said = [&](std::size_t rank) {
      const auto& peers = inventory.snapshot.peers;
      const auto is_it = [&](const stage::present_peer& p) { return p.id == stages[rank].peer; };
      return members[static_cast<std::size_t>(std::find_if(peers.begin(), peers.end(), is_it) - peers.begin())];
    };
    const std::size_t rank = s.peer.place.rank;
    as<Context, Codec>().go_on(mates_of(s.peer), {rank + 1 < stages.size() ? said(rank + 1).forwards : 0,
                                                  rank > 0 ? said(rank - 1).gradients : 0});
    return {};
  }

  void forget() {
    stream_.reset();
    kept_.clear();
    turn_ = updates_ = returned_ = 0;
    forwards_ = came_ = 0;
    ended_ = false;
    loss_ = 0;
  }
  /// Whether all micro-batches have come back.
  [[nodiscard]] bool is_drained() const noexcept { return returned_ == turn_ * pieces_; }

 private:
  template <class Context, class Codec>
  using stream_type = async_stream<std::remove_cvref_t<decltype(std::declval<Context&>().model())>, Codec>;
  template <class Context, class Codec>
  [[nodiscard]] stream_type<Context, Codec>& as() const {
    return static_cast<stream_type<Context, Codec>&>(*stream_);
  }

  // A stream is of one round, or of what is left of it after a restart.
  template <class Context, class Recovery, class Codec>
  result<void> open(Context& ctx, const replica_step<Recovery, Codec>& s, const batch& b) {
    const stream_shape shape{b.sequences / s.micro_batches, b.tokens() / s.micro_batches, ctx.model().width()};
    if (stream_ && shape == shape_) return {};
    if (stream_) {
      return fail(errc::invalid_argument, std::string{name},
                  "batches of different shapes cannot follow each other between two exchanges");
    }
    shape_ = shape;
    pieces_ = s.replica().micro_batches;
    tokens_ = s.tokens(b);
    const auto ranks = static_cast<std::uint32_t>(s.replica().assignments.size());
    const stream_setup setup{.rank = static_cast<std::uint32_t>(s.peer.place.rank),
                             .ranks = ranks,
                             .pieces = pieces_,
                             .late = 1 + options_.ahead,
                             .first_step = (s.peer.attempt.round << 16U) + s.progress.now().steps,
                             .blocks = s.peer.assignment->computes,
                             .shape = shape,
                             .grad_scale = static_cast<float>(1 / tokens_),
                             .stashing = options_.stashing};
    delay_ = setup.delay(setup.rank);
    const typename async_pipeline_mailbox<Codec>::options mailbox{.channel = collective::channels::activations,
                                                                  .seed = s.peer.place.replica,
                                                                  .shape = shape,
                                                                  .late = std::size_t{1} + options_.ahead,
                                                                  .keeps = true};
    stream_ = std::make_unique<stream_type<Context, Codec>>(mates_of(s.peer), mailbox, setup);
    return {};
  }

  // The forwards of batch `turn_`, and as many backwards as are due; goes on where it stopped.
  result<void> step(auto& ctx, auto& stream, const auto& s, const batch& b) {
    const std::uint64_t first = turn_ * pieces_;
    const std::uint32_t at = s.peer.layout.first_micro_batch(s.peer.place.replica);
    if (forwards_ == 0) s.codec.begin_step();
    for (std::uint32_t i = 0; i < pieces_; ++i) {
      if (forwards_ == i) {
        const batch piece = b.slice((at + i) * shape_.sequences, shape_.sequences);
        const std::uint64_t dropout = pipeline_peer::dropout_of(ctx.step(), at + i, 1).front();
        const bool ends =
            i + 1 == pieces_ && s.ends_round(ctx);  // the first stage says so, and all others hear it from there
        CAUSEWAY_TRY(stream.forward(ctx.model(), s.codec, first + i, piece, dropout, ends));
        ++forwards_;
      }
      if (first + forwards_ - returned_ > delay_) CAUSEWAY_TRY(back(ctx, stream, s.codec));
    }
    CAUSEWAY_TRY(stream.end_step(ctx.model(), stream.setup().first_step + turn_));
    ended_ = true;
    return {};
  }

  // What is left comes back, and all updates but one are made by it. Resumed, it goes on where it stopped.
  result<void> drain(auto& ctx, auto& stream, const auto& s) {
    for (;;) {
      const std::uint64_t updates = turn_ + 1 - updates_;
      const std::uint64_t left = came_ + (turn_ + 1) * pieces_ - returned_;
      while (came_ < left - (updates - 1) * pieces_) CAUSEWAY_TRY(back(ctx, stream, s.codec));
      if (updates == 1) return stream.end();
      CAUSEWAY_TRY(take_mean(ctx, s));
      CAUSEWAY_TRY(ctx.inner_step(norm_));
      put_back(ctx);
      stream.forget_versions();
    }
  }

  result<void> back(auto& ctx, auto& stream, auto& codec) {
    CAUSEWAY_ASSIGN(const double loss, stream.backward(ctx.model(), codec));
    loss_ += loss;
    ++came_, ++returned_;
    return {};
  }

  // gradients ← the mean over what came back, whose mean loss this is.
  result<double> take_mean(auto& ctx, const auto& s) {
    kept_.clear();
    ++updates_;
    const double part = static_cast<double>(std::exchange(came_, 0U)) / pieces_;
    const double loss = std::exchange(loss_, 0.0) / (part * tokens_);
    const auto g = ctx.gradients();
    if (part != 1) kernels::scale(ctx.pool(), g.data(), static_cast<float>(1 / part), static_cast<std::int64_t>(g.size()));
    norm_ = ctx.own_norm();
    if (const auto sound = check_sound(loss, norm_); !sound) return s.leave_to_others(ctx, sound.error());
    return loss;
  }
  // Where a step failed, what it has of its gradient is kept: the buffer is others', too.
  void put_back(auto& ctx) {
    const auto g = ctx.gradients();
    if (kept_.empty()) {
      kernels::zero(ctx.pool(), g.data(), static_cast<std::int64_t>(g.size()));
    } else {
      std::copy(kept_.begin(), kept_.end(), g.begin());
    }
  }
  error stopped(auto& ctx, const auto& s, const error& why) {
    kept_.assign(ctx.gradients().begin(), ctx.gradients().end());
    const bool ours = why.code == errc::non_finite && why.where == "this stage";
    return ours ? s.leave_to_others(ctx, why) : why;
  }

  streamed_options options_;
  std::unique_ptr<any_stream> stream_;
  stream_shape shape_;
  std::uint32_t pieces_ = 1;    // of the replica's part of a batch
  double tokens_ = 1;           // of that part
  std::uint64_t delay_ = 0;     // micro-batches between a forward and its backward here
  std::uint64_t turn_ = 0;      // steps of this stream
  std::uint32_t forwards_ = 0;  // done in the step under way
  bool ended_ = false;          // of that all but the drain
  std::uint32_t came_ = 0;      // backwards that no update was made by yet
  std::uint64_t returned_ = 0;  // all of them
  double loss_ = 0;             // of `came_`
  std::uint64_t updates_ = 0;   // made by them
  float norm_ = 0;              // of the gradient of the next one
  std::vector<float> kept_;     // gradients of a step that failed
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_STREAMED_STEPS_HPP
