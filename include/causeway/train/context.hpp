// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_CONTEXT_HPP
#define CAUSEWAY_TRAIN_CONTEXT_HPP

// What policies see of a run: parameters and gradients, peers, time, randomness, and the exchanges built from them. It is
// the only door: a policy that needs the network, a clock or a random number takes it from here, so that a simulated run is
// the same run. All members are for the trainer's thread.

#include <causeway/collective/broadcast.hpp>
#include <causeway/collective/channels.hpp>
#include <causeway/collective/gather.hpp>
#include <causeway/collective/options.hpp>
#include <causeway/collective/pairs.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/optim/divisible.hpp>
#include <causeway/optim/optimizer.hpp>
#include <causeway/tensor/batch.hpp>
#include <causeway/tensor/buffer.hpp>
#include <causeway/tensor/parameters.hpp>
#include <causeway/train/contribution.hpp>
#include <causeway/train/environment.hpp>
#include <causeway/train/fixed_group.hpp>
#include <causeway/train/inner_steps.hpp>
#include <causeway/train/mean_exchange.hpp>
#include <causeway/train/model.hpp>
#include <causeway/train/model_arithmetic.hpp>
#include <causeway/train/parameter_window.hpp>
#include <causeway/train/round_attendance.hpp>
#include <causeway/train/run_group.hpp>
#include <causeway/train/shared_state_of.hpp>
#include <causeway/train/stage_peers.hpp>

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI {

template <Model M, optim::Optimizer Inner>
class training_context {
 public:
  training_context(M model, Inner inner, environment env, trainer_options options, bool keeps_inputs)
      : model_{std::move(model)},
        inner_{std::move(inner)},
        env_{std::move(env)},
        options_{std::move(options)},
        fixed_{std::make_unique<detail::fixed_group>(std::move(env_.transport), env_.exchange.deadline)},
        keeps_inputs_{keeps_inputs},
        attendance_{membership()},
        random_{options_.seed, mix(streams::own, identity())},
        shared_random_{options_.seed, mix(streams::shared)} {
    reset_inner();
  }

  // ---- who and when -------------------------------------------------------------------------------------------------

  /// This peer, below peers(). Where peers come and go: its place in the exchange entered last; identity() stays.
  [[nodiscard]] net::peer_index self() const { return transport().self(); }
  [[nodiscard]] std::uint32_t peers() const { return transport().size(); }
  /// Whether peers may come and go during the run.
  [[nodiscard]] bool elastic() const noexcept { return !group().is_fixed(); }
  /// How many may be named by number: where they come and go none.
  [[nodiscard]] std::uint32_t numbered_peers() const { return elastic() ? 0 : peers(); }
  [[nodiscard]] opened_group closes_membership() const { return opened_group{env_.group, 1}; }  ///< for who opens it
  [[nodiscard]] std::uint64_t identity() const { return group().identity(); }
  [[nodiscard]] std::uint64_t step() const noexcept { return step_; }  ///< inner steps committed by this peer
  /// Outer rounds committed by this peer.
  [[nodiscard]] std::uint64_t round() const noexcept { return group().round(); }
  /// Whether a failed exchange must leave its input as it was, because the fault policy may ask for it again.
  [[nodiscard]] bool keeps_inputs() const noexcept { return keeps_inputs_; }

  // ---- what is trained ----------------------------------------------------------------------------------------------

  [[nodiscard]] M& model() noexcept { return model_; }
  [[nodiscard]] Inner& inner() noexcept { return inner_.optimizer(); }
  /// All parameters, flat, padding included (always zero).
  [[nodiscard]] std::span<float> parameters() { return view().values; }
  /// Their gradients in the same layout. Between inner steps the buffer is free for a policy's use.
  [[nodiscard]] std::span<float> gradients() { return view().gradients; }
  [[nodiscard]] parameter_view view() { return window_.of(model_.parameters().view()); }
  /// From now on these three are of a part alone. Gives what they were of before.
  detail::parameter_window look_at(detail::parameter_window part) { return std::exchange(window_, std::move(part)); }
  void parameters_changed() { model_.parameters().touch(); }  ///< call it after writing them
  /// The inner optimizer forgets what it knows, as at the start of the run: it may be what spoilt the parameters.
  void reset_inner() { inner().reset(model_.parameters().length()); }
  /// From now on each inner step adds what it subtracts from the parameters to `sum`, which must outlive the training.
  /// errc::unsupported if the inner optimizer does not report its updates.
  result<void> track_updates(std::span<float> sum) { return inner_.track_updates(sum); }

  /// From now on this peer holds another part of the model. The inner optimizer's state goes with the parameters, zero
  /// where they are new; it counts `steps`.
  result<void> hold(nn::model_part part, std::uint64_t steps) requires optim::Divisible<Inner> {
    const auto segments = model_.parameters().segments();
    const std::vector<parameter_segment> before{segments.begin(), segments.end()};
    CAUSEWAY_TRY(model_.hold(std::move(part)));
    auto& store = model_.parameters();
    optim::divide(inner(), before, store.segments(), store.length(), steps);
    parameters_changed();
    return {};
  }

  /// Adds `scale` times the gradient of the summed token losses of `b`; gives that sum.
  result<double> forward_backward(const batch& b, float scale) {
    return model_.forward_backward(b.inputs, b.targets, b.sequences, scale, dropout_stream(micro_batch_++));
  }

  /// Names a micro-batch's dropout masks: a function of (seed, peer, step, micro-batch); a pipeline's stages are one peer.
  [[nodiscard]] std::uint64_t dropout_stream(std::uint64_t micro_batch) const {
    return mix(step_, identity(), micro_batch);
  }

  /// The 2-norm of the gradient that this peer holds.
  [[nodiscard]] float own_norm() { return norm_of(gradients()); }
  [[nodiscard]] float norm_of(std::span<const float> part) { return detail::norm_of(model_, part); }  ///< of a part

  /// Arithmetic on whole rows, where the model computes, if all of them lie in its memory: see kernels::RowArithmetic.
  [[nodiscard]] auto rows() { return detail::rows_of(model_); }
  /// Where the parameters lie, for rows that are to lie there too.
  [[nodiscard]] memory_source memory() { return detail::memory_of(model_); }
  /// The outcome of an exchange of rows; or what a device failed with meanwhile, which says more than that.
  result<void> or_device_error(result<void> outcome) { return detail::or_device_error(model_, std::move(outcome)); }

  // ---- doors --------------------------------------------------------------------------------------------------------

  [[nodiscard]] thread_pool& pool() { return model_.backend().pool(); }
  [[nodiscard]] any_clock& clock() noexcept { return env_.clock; }
  /// To the peers that hold the same parameters: all of the run, or, where a model is cut into stages, this stage's.
  [[nodiscard]] net::any_transport& transport() noexcept {
    return const_cast<net::any_transport&>(std::as_const(*this).transport());
  }
  [[nodiscard]] const net::any_transport& transport() const noexcept {
    return entry().transport != nullptr ? *entry().transport : fixed_->transport();
  }
  [[nodiscard]] net::any_transport& world() noexcept { return fixed_->world(); }  ///< to all peers of the run
  /// From now on transport(), self() and peers() are those of `members`, peers of world() with this one among them: who
  /// holds the same stage of a model, in the order of their pipelines. Call it in `start`.
  void form_group(std::vector<net::peer_index> members) {
    fixed_->form(std::move(members));
    attendance_.look();
  }
  [[nodiscard]] run_group& membership() noexcept { return env_.group ? *env_.group : *fixed_; }  ///< who is there
  [[nodiscard]] stage_peers& stages() noexcept { return stages_; }  ///< of the model that this peer holds one of
  [[nodiscard]] const log_sink& log() const noexcept { return env_.log; }
  [[nodiscard]] rng& random() noexcept { return random_; }  ///< differs from peer to peer
  /// The same sequence on all peers, as long as all draw equally often.
  [[nodiscard]] rng& shared_random() noexcept { return shared_random_; }

  // ---- exchanges: all peers must take part, in the same round ----------------------------------------------------------

  /// data ← mean over all peers, or those in `among`, through `codec`, in place; bit-identical everywhere. Nothing is sent
  /// by a peer alone. Where peers come and go, they count by the samples that they trained on: Σ n_i·x_i / Σ n_i. Bytes:
  /// 2(n−1)/n · the encoded size. On an error the data is garbage unless keeps_inputs(). `part`: see `in_parts`. `where`:
  /// see `left_exchange`.
  result<void> mean(const auto& codec, std::span<float> data, std::uint64_t part = 0,
                    const parallel::row_holders* among = nullptr, const std::vector<index_range>* where = nullptr) {
    return mean_.mean(*this, attendance_, codec, data, part, among, where);
  }
  /// All peers of an exchange, or those `in` it, by the samples that they say are behind rows, `own` here: 8 bytes to each.
  auto told_samples(std::uint64_t own, std::uint64_t part, auto* in) { return mean_.told_samples(*this, own, part, in); }

  /// Both peers: data ← (theirs + ours) / 2. `other` must call it with us in the same round. Bytes: 4 per value each way.
  result<void> average_with(net::peer_index other, std::span<float> data) {
    received_.resize(data.size());
    return collective::average_pair(transport(), other, {.channel = collective::channels::parameters, .step = round()},
                                    data, received_, env_.exchange.deadline);
  }

  /// This peer's partner when all are paired at random, by seed and round; none for the one left over.
  [[nodiscard]] std::optional<net::peer_index> random_partner() const {
    return collective::partner_of(self(), peers(), rng{options_.seed, mix(streams::pairs, round())});
  }

  /// The parameters as they stand are what all peers hold now, and the next exchange is based on. Where peers come and go,
  /// they are a candidate until the fault policy has decided on the step.
  void commit_round() { commit_round(std::span<const float>{parameters()}); }

  /// The same where it is other values that all peers hold alike; none if the peers do not hold the same.
  void commit_round(std::span<const float> shared) {
    const auto hash = [&](std::uint64_t round) -> std::uint64_t {
      const bool full = options_.hash_every != 0 && round % options_.hash_every == 0 && !shared.empty();
      return full ? detail::hash_of(model_, shared) : 0;
    };
    attendance_.is_candidate(std::ref(hash));
  }
  /// The gradients of this step are kept for a later one: the inner optimizer does not move, once.
  void skip_inner_step() noexcept { inner_.skip(); }
  [[nodiscard]] bool skips_inner_step() noexcept { return inner_.is_skipped(); }  ///< says so once

  /// An exchange that a policy runs itself is framed by these two: the first lets this peer in and gives the weight of its
  /// row, the second that the result is there. With fixed peers, or divided batches, that is what it `counts`; else it goes
  /// by samples, 0 for who has just joined; transport(), self() and peers() are those of the exchange from then on.
  result<float> enter_exchange(std::uint64_t counts = 1) {
    CAUSEWAY_TRY(attendance_.enter());
    return attempt() == 0 || contribution().divides_batches() ? static_cast<float>(counts) : own_weight();
  }
  [[nodiscard]] float own_weight() const { return static_cast<float>(entry().share * peers()); }
  result<void> left_exchange(std::span<const float> row, std::span<const float> counts = {},
                             const std::vector<index_range>* where = nullptr) {
    return attendance_.exchanged(row, counts, where);
  }
  /// Another exchange of the attempt under way, while one is about to end: see detail::round_attendance.
  result<void> one_more(const std::function<result<void>()>& exchange) { return attendance_.one_more(exchange); }
  /// Between them: the round has so many such exchanges, and is over with the last.
  void in_parts(std::size_t count) noexcept { attendance_.in_parts(count); }
  /// Nothing is exchanged in this attempt: an earlier one had come to its end at some peer, and what it came to counts.
  [[nodiscard]] bool result_is_known() const noexcept { return entry().result_at.has_value(); }
  [[nodiscard]] bool knows_result() const noexcept { return !entry().result.empty(); }  ///< this peer itself
  [[nodiscard]] bool keeps_result() const noexcept { return entry().result_kept; }  ///< and its policy has all of it still
  /// row ← the next piece of that, as `part`. All take part. 4 bytes a value to and from each peer.
  result<void> take_known_result(std::span<float> row, std::uint64_t part) {
    if (knows_result()) attendance_.take_known(row);
    const auto id = exchange_id(collective::channels::updates, part);
    return collective::broadcast(transport(), id, *entry().result_at, row, exchange_options());
  }
  /// Names the attempt that this peer was let into, until that is judged; never 0.
  [[nodiscard]] std::uint64_t attempt() const noexcept { return attendance_.attempt(); }
  /// Whether the exchange entered last is the run's last: every sample of its budget is contributed with it.
  [[nodiscard]] bool is_last_exchange() const noexcept { return entry().last; }
  /// What part of the weight the row of a peer has, in the exchange entered last.
  [[nodiscard]] double share_of(net::peer_index peer) const { return entry().shares[peer]; }
  [[nodiscard]] const round_entry& entry() const noexcept { return attendance_.entry(); }  ///< that exchange
  /// Which samples the next exchange is for: close it when its row is made long before, and open it when there is no row.
  [[nodiscard]] detail::contribution& contribution() noexcept { return attendance_.samples(); }
  /// Tells how many samples this peer has gathered. Whether all have enough together, and it is time to enter.
  bool announce_samples() { return attendance_.announce(); }
  bool stand_by() { return attendance_.stand_by(); }  ///< says that this peer is ready; whether it is time to enter
  [[nodiscard]] bool exchanges_at_once() const { return group().exchanges_at_once(); }  ///< see there
  [[nodiscard]] bool run_ends() const { return group().run_ends(); }                    ///< likewise
  [[nodiscard]] bool moves_blocks() const { return group().moves_blocks(); }            ///< likewise
  /// What part of everybody's weight this peer had when it was let in last, or can be expected to have.
  [[nodiscard]] double own_share() const { return entry().share > 0 ? entry().share : 1.0 / group().expected(); }

  /// Before `enter_exchange`, one pass: where peers come and go, who has a row that is not finite sits the round out.
  result<void> check_own(std::span<float> row) { return mean_.check(*this, attendance_, row); }
  /// What came of such an exchange. Where everybody saw that this peer's own row cannot be used, it sits the round out.
  result<void> or_unusable(result<void> outcome) { return mean_.or_unusable(*this, attendance_, std::move(outcome)); }
  /// Of such an exchange: how it may cut and how long it may take. No workspace: several of them may be under way.
  [[nodiscard]] collective::collective_options exchange_options() {
    collective::collective_options options = env_.exchange;
    options.pool = &pool();
    options.deadline = entry().deadline;
    options.checks_results = elastic();
    return options;
  }

  /// What names the messages of the exchange entered last; `part`, below 2^24, of several that are under way at a time.
  /// Fixed peers enter none: `own` does, or the newest committed round.
  [[nodiscard]] net::message_id exchange_id(std::uint32_t channel, std::uint64_t part = 0) const {
    return exchange_id({.channel = channel, .step = round(), .parent = parent()}, part);
  }
  [[nodiscard]] net::message_id exchange_id(const net::message_id& own, std::uint64_t part) const {
    if (!elastic()) return own;
    return {.channel = own.channel, .step = entry().round | part << 40U, .parent = entry().parent};
  }

  /// Of the inner step that comes next; its factors, the policy's and a stage's, are not in a checkpoint.
  [[nodiscard]] float next_learning_rate() const { return inner_.next_learning_rate(options_, step_); }
  void multiply_learning_rate(float by, bool of_stage = false) noexcept { inner_.multiply_learning_rate(by, of_stage); }
  /// Where the schedule of the learning rate is, whatever the steps: where the inner optimizer moves once a round.
  void schedule_at(std::uint64_t step) noexcept { inner_.schedule_at(step); }

  /// Samples that this peer has trained on since it was built. Where peers come and go: since its last contribution.
  [[nodiscard]] std::uint64_t samples() const noexcept { return attendance_.samples().all(); }

  /// For a peer that took over the others' state. The step under way is not counted, unless `going_on` with what it has.
  void resume_at(std::uint64_t step, bool going_on = false) noexcept {
    step_ = step;
    resumed_ = !going_on;
  }

  /// What became of an attempted step among peers that come and go. Blocks until the others have judged it too.
  result<verdict> decide(const result<void>& outcome) {
    CAUSEWAY_ASSIGN(const verdict judged, attendance_.decide(outcome));
    if (attendance_.gave_up()) {
      inner_.begin_anew();
      if (!shares_inner_) reset_inner();
    }
    return judged;
  }

  // ---- for the trainer -------------------------------------------------------------------------------------------------

  /// Founds or joins the run with the state that `comm` and the context share.
  template <class Comm>
  result<void> open_membership(Comm& comm) {
    shares_inner_ = Comm::traits.exchanges_gradients;
    return membership().open(detail::shared_state_of(*this, comm), pool());
  }

  /// One exchange without a step before it: `exchange` is the policy's part, or `admit` when nobody has anything to give.
  template <class Exchange, class Admit>
  result<void> attend(Exchange&& exchange, Admit&& admit) {
    CAUSEWAY_TRY(attendance_.enter());
    if (!entry().empty) return exchange();
    CAUSEWAY_TRY(admit());
    contribution().passed();
    commit_round();
    return {};
  }

  void count_samples(std::uint64_t samples) noexcept { contribution().add(samples); }
  /// Numbers of this peer's next samples in the ledger: see basic_trainer::draw.
  [[nodiscard]] std::vector<std::uint64_t> draw(std::uint64_t count) {
    return contribution().paused() ? std::vector<std::uint64_t>{} : membership().draw(samples(), count);
  }
  [[nodiscard]] bool budget_used() const { return group().budget_used(); }
  /// All start from the same parameters, or all from checkpoints (of one round, if `alike`). One hash to everybody.
  result<void> agree_on_start(bool restored, bool alike) {
    if (!restored) fixed_->starts_from(detail::hash_of(model_, parameters()));
    return collective::all_equal(
        transport(), {.channel = collective::channels::state}, restored ? mix(~0ULL, alike ? round() : 0) : parent(),
        "starts from other parameters; use the same seed and options, or checkpoints of one round", mean_.options(*this));
  }

  /// Clears gradients before a step.
  void begin_compute() {
    micro_batch_ = 0;
    resumed_ = false;
    detail::set_to_zero(model_, gradients());
  }

  /// Clips, and lets the inner optimizer move the parameters. errc::non_finite leaves them as they were.
  result<void> inner_step() {
    if (inner_.is_skipped()) return {};
    CAUSEWAY_ASSIGN(const float norm, stages_.norm(own_norm(), exchange_options()));
    return inner_step(norm);
  }
  /// The same with a norm that is known, where the gradient is part of a larger one.
  result<void> inner_step(float norm) {
    if (inner_.is_skipped()) return {};
    if (auto checked = inner_.check(norm, step_ + 1); !checked) {
      CAUSEWAY_TRY(or_device_error({}));
      return attendance_.can_sit_out() ? without_step(checked.error()) : checked;
    }
    inner_.step(pool(), model_.parameters().view_with_copies(), options_, step_);
    parameters_changed();
    return {};
  }

  void commit_step() noexcept { step_ += std::exchange(resumed_, false) ? 0U : 1U; }
  [[nodiscard]] float gradient_norm() const noexcept { return inner_.gradient_norm(); }
  [[nodiscard]] float learning_rate() const noexcept { return inner_.learning_rate(); }
  [[nodiscard]] std::uint64_t state_hash() const noexcept { return group().state_hash(); }
  /// Names the committed state that exchanges are based on.
  [[nodiscard]] std::uint64_t parent() const noexcept { return group().parent(); }
  [[nodiscard]] const trainer_options& options() const noexcept { return options_; }

  void serialize(auto& ar) { ar(step_, *fixed_, random_, shared_random_); }

 private:
  struct streams {
    static constexpr std::uint64_t own = 0x6F776E;
    static constexpr std::uint64_t shared = 0x736861726564;
    static constexpr std::uint64_t pairs = 0x7061697273;
  };

  /// An overflow of the gradient costs one step; parameters that are not finite cost all since the last commit, and so does
  /// a gradient that others have a share in, or one after the other.
  result<void> without_step(const error& why) {
    if (attempt() != 0 || !inner_.may_go_without() || !std::isfinite(norm_of(parameters())))
      return attendance_.unusable(why.message);
    log()(severity::warning, why.text() + ": this step is skipped");
    return {};
  }

  [[nodiscard]] const run_group& group() const noexcept { return env_.group ? *env_.group : *fixed_; }

  M model_;
  detail::inner_steps<Inner> inner_;
  environment env_;  // its transport is moved to fixed_
  trainer_options options_;
  std::unique_ptr<detail::fixed_group> fixed_;  // all there is, or unused; stays where it is when the context moves
  stage_peers stages_;
  bool keeps_inputs_;
  detail::parameter_window window_;
  detail::round_attendance attendance_;
  detail::mean_exchange mean_;

  rng random_;
  rng shared_random_;
  std::uint64_t step_ = 0;
  std::uint64_t micro_batch_ = 0;
  bool shares_inner_ = false;  // the inner optimizer is part of the shared state
  bool resumed_ = false;       // step_ was set during the step under way
  std::vector<float> received_;
};

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_CONTEXT_HPP
