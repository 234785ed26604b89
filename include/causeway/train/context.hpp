// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_CONTEXT_HPP
#define CAUSEWAY_TRAIN_CONTEXT_HPP

// What policies see of a run: parameters and gradients, peers, time, randomness, and the exchanges built from them. It is
// the only door: a policy that needs the network, a clock or a random number takes it from here, so that a simulated run is
// the same run. All members are for the trainer's thread.

#include <causeway/collective/agreement.hpp>
#include <causeway/collective/all_reduce.hpp>
#include <causeway/collective/broadcast.hpp>
#include <causeway/collective/channels.hpp>
#include <causeway/collective/group_view.hpp>
#include <causeway/collective/pairs.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/kernels/backend.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/kernels/row_hash.hpp>
#include <causeway/kernels/rows.hpp>
#include <causeway/membership/state_image.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/optim/clip.hpp>
#include <causeway/optim/divisible.hpp>
#include <causeway/optim/optimizer.hpp>
#include <causeway/tensor/batch.hpp>
#include <causeway/tensor/buffer.hpp>
#include <causeway/tensor/parameters.hpp>
#include <causeway/train/contribution.hpp>
#include <causeway/train/elastic_group.hpp>
#include <causeway/train/environment.hpp>
#include <causeway/train/model.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI {

template <Model M, optim::Optimizer Inner>
class training_context {
  using backend_type = std::remove_cvref_t<decltype(std::declval<M&>().backend())>;

 public:
  training_context(M model, Inner inner, environment env, trainer_options options, bool keeps_inputs)
      : model_{std::move(model)},
        inner_{std::move(inner)},
        env_{std::move(env)},
        options_{std::move(options)},
        world_{std::make_unique<net::any_transport>(std::move(env_.transport))},
        keeps_inputs_{keeps_inputs},
        random_{options_.seed, mix(streams::own, name_of_stream())},
        shared_random_{options_.seed, mix(streams::shared)} {
    inner_.reset(model_.parameters().length());
  }

  // ---- who and when -------------------------------------------------------------------------------------------------

  /// This peer, 0 to peers()-1. Where peers come and go: its place in the exchange entered last; identity() stays.
  [[nodiscard]] net::peer_index self() const { return transport().self(); }
  [[nodiscard]] std::uint32_t peers() const { return transport().size(); }
  /// Whether peers may come and go during the run.
  [[nodiscard]] bool elastic() const noexcept { return env_.group != nullptr; }
  [[nodiscard]] opened_group closes_membership() const { return opened_group{env_.group, 1}; }  ///< for who opens it
  [[nodiscard]] std::uint64_t identity() const { return elastic() ? env_.group->identity() : std::uint64_t{self()}; }
  [[nodiscard]] std::uint64_t step() const noexcept { return step_; }  ///< inner steps committed by this peer
  /// Outer rounds committed by this peer.
  [[nodiscard]] std::uint64_t round() const noexcept { return elastic() ? env_.group->round() : round_; }
  /// Whether a failed exchange must leave its input as it was, because the fault policy may ask for it again.
  [[nodiscard]] bool keeps_inputs() const noexcept { return keeps_inputs_; }

  // ---- what is trained ----------------------------------------------------------------------------------------------

  [[nodiscard]] M& model() noexcept { return model_; }
  [[nodiscard]] Inner& inner() noexcept { return inner_; }
  /// All parameters, flat, padding included (always zero).
  [[nodiscard]] std::span<float> parameters() { return model_.parameters().values(); }
  /// Their gradients in the same layout. Between inner steps the buffer is free for a policy's use.
  [[nodiscard]] std::span<float> gradients() { return model_.parameters().gradients(); }
  [[nodiscard]] parameter_view view() { return model_.parameters().view(); }
  void parameters_changed() { model_.parameters().touch(); }  ///< call it after writing them
  /// The inner optimizer forgets what it knows, as at the start of the run: it may be what spoilt the parameters.
  void reset_inner() { inner_.reset(model_.parameters().length()); }
  /// From now on every inner step adds what it subtracts from the parameters to `sum` (same layout), which must outlive the
  /// training. errc::unsupported if the inner optimizer does not report its updates.
  result<void> track_updates(std::span<float> sum) {
    if constexpr (optim::ReportsUpdates<Inner>) {
      updates_ = sum;
      return {};
    } else {
      return fail(errc::unsupported, std::string{Inner::name},
                  "this inner optimizer does not report its updates; use pseudo_gradient::difference, or optim::sgd");
    }
  }

  /// From now on this peer holds another part of the model: see nn::language_model::hold. The inner optimizer's state goes
  /// with the parameters, zero where they are new; it counts `steps`.
  result<void> hold(nn::model_part part, std::uint64_t steps) requires optim::Divisible<Inner> {
    const auto segments = model_.parameters().segments();
    const std::vector<parameter_segment> before{segments.begin(), segments.end()};
    CAUSEWAY_TRY(model_.hold(std::move(part)));
    auto& store = model_.parameters();
    optim::divide(inner_, before, store.segments(), store.length(), steps);
    parameters_changed();
    return {};
  }

  /// Adds `scale` times the gradient of the summed token losses of `b`; gives that sum. Dropout masks are a function of
  /// (seed, peer, step, micro-batch).
  result<double> forward_backward(const batch& b, float scale) {
    return model_.forward_backward(b.inputs, b.targets, b.sequences, scale, dropout_stream(micro_batch_++));
  }

  /// Names the dropout masks of a micro-batch of this step: a function of (seed, peer, step, micro-batch), where all stages
  /// of a pipeline are one peer.
  [[nodiscard]] std::uint64_t dropout_stream(std::uint64_t micro_batch) const {
    return mix(step_, identity(), micro_batch);
  }

  /// The 2-norm of the gradient that this peer holds.
  [[nodiscard]] float own_norm() { return norm_of(gradients()); }
  /// Of a part of `gradients()`.
  [[nodiscard]] float norm_of(std::span<const float> part) {
    if constexpr (kernels::Backend<backend_type>) {
      const auto count = static_cast<std::int64_t>(part.size());
      return static_cast<float>(std::sqrt(model_.backend().sum_of_squares(part.data(), count)));
    } else {
      return optim::global_norm(pool(), part);
    }
  }

  // ---- rows: where the model computes, if all of them lie in its memory ----------------------------------------------

  /// Arithmetic on whole rows: see kernels::RowArithmetic.
  [[nodiscard]] auto rows() {
    if constexpr (requires { model_.backend().rows(); }) {
      return model_.backend().rows();
    } else {
      return kernels::host_rows{pool()};
    }
  }
  /// Where the parameters lie, for rows that are to lie there too.
  [[nodiscard]] memory_source memory() {
    if constexpr (kernels::Backend<backend_type>) return model_.backend().source();
    return {};
  }
  /// The outcome of an exchange of rows; or what a device failed with meanwhile, which says more than that its bytes were
  /// refused.
  result<void> or_device_error(result<void> outcome) {
    if constexpr (kernels::Backend<backend_type>) CAUSEWAY_TRY(model_.backend().finish());
    return outcome;
  }

  // ---- doors --------------------------------------------------------------------------------------------------------

  [[nodiscard]] thread_pool& pool() { return model_.backend().pool(); }
  [[nodiscard]] any_clock& clock() noexcept { return env_.clock; }
  /// To the peers that hold the same parameters: all of the run, or, where a model is cut into stages, this stage's.
  [[nodiscard]] net::any_transport& transport() noexcept {
    return const_cast<net::any_transport&>(std::as_const(*this).transport());
  }
  [[nodiscard]] const net::any_transport& transport() const noexcept {
    if (entry_.transport) return *entry_.transport;
    return group_ ? *group_ : *world_;
  }
  [[nodiscard]] net::any_transport lasting_transport() { return env_.group->lasting(); }  ///< where peers come and go
  [[nodiscard]] net::any_transport& world() noexcept { return *world_; }                  ///< to all peers of the run
  /// From now on transport(), self() and peers() are those of the group of `members`, peers of world() with this one among
  /// them: the ones that hold the same stage of a model, in the order of their pipelines. Call it in `start`.
  void form_group(std::vector<net::peer_index> members) {
    group_.emplace(collective::group_view{*world_, std::move(members)});
  }
  [[nodiscard]] const log_sink& log() const noexcept { return env_.log; }
  /// Differs from peer to peer.
  [[nodiscard]] rng& random() noexcept { return random_; }
  /// The same sequence on all peers, as long as all draw equally often.
  [[nodiscard]] rng& shared_random() noexcept { return shared_random_; }

  // ---- exchanges: all peers must take part, in the same round ----------------------------------------------------------

  /// data ← mean over all peers, through `codec`, in place; bit-identical everywhere. Nothing is sent by a peer alone.
  /// Where peers come and go, they count by the samples that they trained on: Σ n_i·x_i / Σ n_i.
  /// Bytes: 2(n−1)/n · the encoded size. On an error the data is garbage unless keeps_inputs(). `part`: see `in_parts`.
  template <class Codec>
  result<void> mean(const Codec& codec, std::span<float> data, std::uint64_t part = 0) {
    if (can_sit_out()) CAUSEWAY_TRY(keep_finite(data));
    CAUSEWAY_TRY(enter());
    if (peers() == 1 && !result_is_known()) return exchanged(data);
    if (keeps_inputs_ && !can_sit_out()) kept_.assign(data.begin(), data.end());
    auto outcome = weighed_mean(codec, data, part);
    if (outcome && data.size() == parameters().size())
      outcome = kernels::clear(rows(), padding_of(view().segments, data.size()), data);
    if (outcome) outcome = exchanged(data);
    if (outcome || !keeps_inputs_) return outcome;
    std::copy(kept_.begin(), kept_.end(), data.begin());
    if (!is_refused(outcome.error())) return outcome;
    if (!collective::survives(codec, pool(), kept_)) return unusable("it is not finite once it is encoded");
    outcome.error().culprit = error::nobody;  // who says so is wrong, or spoilt it on its way
    return outcome;
  }

  /// Both peers: data ← (theirs + ours) / 2. `other` must call it with us in the same round. Bytes: 4 per value each way.
  result<void> average_with(net::peer_index other, std::span<float> data) {
    received_.resize(data.size());
    return collective::average_pair(transport(), other, {.channel = collective::channels::parameters, .step = round_}, data,
                                    received_, env_.exchange.deadline);
  }

  /// This peer's partner when all are paired at random, by seed and round alone; none for the one left over.
  [[nodiscard]] std::optional<net::peer_index> random_partner() const {
    return collective::partner_of(self(), peers(), rng{options_.seed, mix(streams::pairs, round_)});
  }

  /// The parameters as they stand are what all peers hold now: the next exchange will be based on them. Where peers come
  /// and go, they are a candidate until the fault policy has decided on the step.
  void commit_round() { commit_round(std::span<const float>{parameters()}); }

  /// The same where it is other values that all peers hold alike; none if the peers do not hold the same.
  void commit_round(std::span<const float> shared) {
    if (elastic()) {
      candidate_ = true;
      return;
    }
    ++round_;
    const bool full = options_.hash_every != 0 && round_ % options_.hash_every == 0 && !shared.empty();
    hash_ = full ? hash_of(shared) : 0;
    parent_ = mix(parent_, hash_, round_);
  }

  /// The gradients of this step are kept for a later one: the inner optimizer does not move, once.
  void skip_inner_step() noexcept { skip_ = true; }

  /// An exchange that a policy runs itself, through collective/, is framed by these two: the first lets this peer in and
  /// gives the weight that its row has, the second says that the result is there, in `row`. With fixed peers the weight is
  /// 1; where they come and go, transport(), self() and peers() are those of the exchange from then on, and the weights
  /// those of the samples: a peer that has just joined has 0.
  result<float> enter_exchange() {
    CAUSEWAY_TRY(enter());
    return elastic() ? static_cast<float>(entry_.share * peers()) : 1.0F;
  }
  result<void> left_exchange(std::span<const float> row) { return exchanged(row); }
  /// Between them: the round has so many such exchanges, and is over with the last.
  void in_parts(std::size_t count) noexcept { parts_ = parts_left_ = count; }
  /// Nothing is exchanged in this attempt: an earlier one had come to its end at some peer, and what it came to counts.
  [[nodiscard]] bool result_is_known() const noexcept { return entry_.result_at.has_value(); }
  [[nodiscard]] bool knows_result() const noexcept { return !entry_.result.empty(); }  ///< this peer itself
  [[nodiscard]] bool keeps_result() const noexcept { return entry_.result_kept; }  ///< and its policy has all of it still
  /// row ← that. All take part. 4 bytes a value to and from each peer.
  result<void> take_known_result(std::span<float> row) {
    if (knows_result()) std::copy(entry_.result.begin(), entry_.result.end(), row.begin());
    return collective::broadcast(transport(), exchange_id(collective::channels::updates), *entry_.result_at, row,
                                 exchange_options());
  }
  /// Names the attempt that this peer was let into, until that is judged; never 0.
  [[nodiscard]] std::uint64_t attempt() const noexcept { return entered_ ? std::uint64_t{1} + entry_.attempt : 0; }
  /// Whether the exchange entered last is the run's last: every sample of its budget is contributed with it.
  [[nodiscard]] bool is_last_exchange() const noexcept { return entry_.last; }
  /// What part of the weight the row of a peer has, in the exchange entered last.
  [[nodiscard]] double share_of(net::peer_index peer) const { return elastic() ? entry_.shares[peer] : 1.0 / peers(); }
  [[nodiscard]] const round_entry& entry() const noexcept { return entry_; }  ///< where peers come and go: that exchange

  /// Which samples the next exchange is for: close it when its row is made long before, and open it when there is no row.
  [[nodiscard]] detail::contribution& contribution() noexcept { return contribution_; }
  /// Tells how many samples this peer has gathered. Whether all have enough together, and it is time to enter.
  bool announce_samples() { return entered_ || env_.group->announce(contribution_.all()); }
  /// Says that this peer is ready for the next exchange. Whether it is time to enter.
  bool stand_by() {
    return entered_ || env_.group->stand_by(contribution_.all() - contribution_.later(), contribution_.later());
  }
  /// What part of everybody's weight this peer had when it was let in last, or can be expected to have.
  [[nodiscard]] double own_share() const {
    return entry_.share > 0 ? entry_.share : 1.0 / (elastic() ? env_.group->expected() : peers());
  }

  /// Before `enter_exchange`, one pass: where peers come and go, who has a row that is not finite sits the round out.
  result<void> check_own(std::span<float> row) {
    if (!can_sit_out()) return {};
    bool there = false;
    if constexpr (requires { rows().there(row); }) there = rows().there(row);
    const bool finite = there ? std::isfinite(norm_of(row)) : collective::finite_values(row);
    return finite ? result<void>{} : unusable("it holds NaN or infinity");
  }
  /// What came of such an exchange. Where everybody saw that this peer's own row cannot be used, it sits the round out.
  result<void> or_unusable(result<void> outcome) {
    return !outcome && is_refused(outcome.error()) ? unusable("it is not finite once it is encoded") : outcome;
  }
  /// Of such an exchange: how it may cut and how long it may take. No workspace: several of them may be under way.
  [[nodiscard]] collective::collective_options exchange_options() {
    collective::collective_options options = env_.exchange;
    options.pool = &pool();
    if (elastic()) options.deadline = entry_.deadline;
    options.checks_results = elastic();
    return options;
  }

  /// What names the messages of the exchange entered last; `part`, below 2^24, of several that are under way at a time.
  [[nodiscard]] net::message_id exchange_id(std::uint32_t channel, std::uint64_t part = 0) const {
    if (!elastic()) return {.channel = channel, .epoch = 0, .step = round_, .parent = parent_};
    return {.channel = channel, .step = entry_.round | part << 40U, .parent = entry_.parent};
  }

  /// Of the inner step that comes next.
  [[nodiscard]] float next_learning_rate() const {
    return rate_factor_ * options_.learning_rate.at(scheduled_at_.value_or(step_));
  }
  void multiply_learning_rate(float factor) noexcept { rate_factor_ = factor; }  ///< from now on; not in a checkpoint
  /// Where the schedule of the learning rate is, whatever the steps: where the inner optimizer moves once a round.
  void schedule_at(std::uint64_t step) noexcept { scheduled_at_ = step; }

  /// Samples that this peer has trained on since it was built. Where peers come and go: since its last contribution.
  [[nodiscard]] std::uint64_t samples() const noexcept { return contribution_.all(); }

  /// Sets the number of inner steps, on which the learning rate depends, for a peer that took over the others' state. The
  /// step under way is not counted, unless it is `going_on`, with what it computed kept.
  void resume_at(std::uint64_t step, bool going_on = false) noexcept {
    step_ = step;
    resumed_ = !going_on;
  }

  /// What became of an attempted step among peers that come and go. Blocks until the others have judged it too.
  result<verdict> decide(const result<void>& outcome) {
    if (!elastic()) {
      return fail(errc::invalid_argument, "fault policy",
                  "it needs a membership, but the environment has none; set environment::group, or use fault::fail_stop");
    }
    if (outcome && !candidate_) return verdict::commit;
    if (std::exchange(unusable_, false) && !outcome) return sit_out(outcome.error());
    CAUSEWAY_ASSIGN(const verdict judged, env_.group->decide(outcome, candidate_));
    entered_ = candidate_ = false;
    if (judged == verdict::commit) contribution_.committed(env_.group->contributed());
    return judged;
  }

  // ---- for the trainer -------------------------------------------------------------------------------------------------

  /// Founds or joins the run with the state that `comm` and the context share.
  template <class Comm>
  result<void> open_membership(Comm& comm) {
    if (!elastic()) return {};
    membership::image_collector parts;
    if constexpr (Comm::traits.needs_global_step) {
      shares_inner_ = true;
      parts.view(parameters());
      parts(inner_);
    }
    const std::size_t of_model = parts.parts().size();
    comm.shared(parts);
    parts(shared_random_);
    if constexpr (Comm::traits.own_parameters) parts.own(parameters());
    shared_state state{parts.parts(), [this, &comm](std::span<const float> previous) { adopted(comm, previous); }};
    state.of_model = of_model;
    state.own = parts.own_parts();
    state.round_samples = contribution_.round_samples();
    if constexpr (requires { comm.replay(*this); }) {
      state.replay = [this, &comm](std::span<const float> mean) { return replay(comm, mean); };
    }
    if constexpr (Comm::traits.moves_with_blocks) move_with_blocks(state, comm, *this);
    return env_.group->open(std::move(state), pool());
  }

  /// One exchange without a step before it: `exchange` is the policy's part, left out when nobody has anything to give.
  template <class Exchange>
  result<void> attend(Exchange&& exchange) {
    CAUSEWAY_TRY(enter());
    if (!entry_.empty) return exchange();
    contribution_.passed();
    commit_round();
    return {};
  }

  void count_samples(std::uint64_t samples) noexcept { contribution_.add(samples); }
  /// Numbers of this peer's next samples: see basic_trainer::draw.
  [[nodiscard]] std::vector<std::uint64_t> draw(std::uint64_t count) {
    if (elastic() && !contribution_.paused()) return env_.group->draw(contribution_.all(), count);
    std::vector<std::uint64_t> numbers(elastic() ? 0 : count);
    std::iota(numbers.begin(), numbers.end(), (step_ * peers() + self()) * count);
    return numbers;
  }
  [[nodiscard]] bool budget_used() const { return elastic() && env_.group->budget_used(); }
  /// All peers must start from the same parameters. One hash from and to everybody.
  result<void> agree_on_start() {
    parent_ = hash_of(parameters());
    return collective::all_equal(transport(), {.channel = collective::channels::state, .step = round_}, parent_,
                                 "starts from other parameters; all peers need the same seed, the same options and "
                                 "checkpoints of the same round",
                                 own_exchange_options());
  }

  /// Clears gradients before a step.
  void begin_compute() {
    micro_batch_ = 0;
    resumed_ = false;
    const auto g = gradients();
    if constexpr (kernels::Backend<backend_type>) {
      model_.backend().zero(g.data(), std::ssize(g));
    } else {
      kernels::zero(pool(), g.data(), std::ssize(g));
    }
  }

  /// Clips, and lets the inner optimizer move the parameters. errc::non_finite leaves them as they were.
  result<void> inner_step() {
    return inner_step([this] { return result<float>{own_norm()}; });
  }
  /// The same where the gradient is part of a larger one: `norm()` gives the norm of that, and may fail.
  template <class Norm>
  result<void> inner_step(Norm&& norm) {
    if (skip_) {
      skip_ = false;
      return {};
    }
    CAUSEWAY_ASSIGN(gradient_norm_, norm());
    if (auto checked = optim::check_norm(gradient_norm_, "step " + std::to_string(step_ + 1)); !checked) {
      CAUSEWAY_TRY(or_device_error({}));
      return can_sit_out() ? without_step(checked.error()) : checked;
    }
    skipped_ = 0;
    rate_ = next_learning_rate();
    inner_.step(pool(), view(),
                {.learning_rate = rate_,
                 .gradient_scale = optim::clip_scale(gradient_norm_, options_.clip_norm),
                 .update_sum = updates_});
    parameters_changed();
    return {};
  }

  void commit_step() noexcept { step_ += std::exchange(resumed_, false) ? 0U : 1U; }
  [[nodiscard]] float gradient_norm() const noexcept { return gradient_norm_; }
  [[nodiscard]] float learning_rate() const noexcept { return rate_; }
  [[nodiscard]] std::uint64_t state_hash() const noexcept { return elastic() ? env_.group->state_hash() : hash_; }
  /// Names the committed state that exchanges are based on.
  [[nodiscard]] std::uint64_t parent() const noexcept { return elastic() ? env_.group->parent() : parent_; }
  [[nodiscard]] const trainer_options& options() const noexcept { return options_; }

  template <class Archive>
  void serialize(Archive& ar) {
    ar(step_, round_, parent_, random_, shared_random_);
  }

 private:
  struct streams {
    static constexpr std::uint64_t own = 0x6F776E;
    static constexpr std::uint64_t shared = 0x736861726564;
    static constexpr std::uint64_t pairs = 0x7061697273;
  };

  // Lets this peer into the exchange of the round, once per attempt.
  result<void> enter() {
    if (!elastic() || entered_) return {};
    CAUSEWAY_ASSIGN(entry_, env_.group->enter(contribution_.all() - contribution_.later(), contribution_.later()));
    entered_ = true;
    in_parts(1);
    return {};
  }

  result<void> exchanged(std::span<const float> mean) {
    if (!elastic() || --parts_left_ > 0) return {};
    parts_left_ = 1;
    return env_.group->exchanged(std::exchange(parts_, 1) == 1 ? mean : std::span<const float>{});
  }

  template <class Codec>
  result<void> weighed_mean(const Codec& codec, std::span<float> data, std::uint64_t part) {
    if (result_is_known()) return take_known_result(data);
    if (elastic()) CAUSEWAY_TRY(weigh(data));
    return or_device_error(collective::exchange_mean(transport(), exchange_id(collective::channels::updates, part), codec,
                                                     data, own_exchange_options()));
  }

  // ---- contributions that are not finite, where peers come and go -----------------------------------------------------

  [[nodiscard]] bool can_sit_out() const { return elastic() && env_.group->can_sit_out(); }

  /// This peer gives up what it computed since the last commit: `decide` sees to it.
  [[nodiscard]] error unusable(const std::string& what) {
    unusable_ = true;
    return fail(errc::non_finite, "this peer's contribution", what);
  }

  result<verdict> sit_out(const error& why) {
    CAUSEWAY_ASSIGN(const verdict judged, env_.group->sit_out(why));
    entered_ = candidate_ = false;
    skipped_ = 0;
    if (!shares_inner_) reset_inner();
    return judged;
  }

  /// kept_ ← data, which must be finite: one pass for both.
  result<void> keep_finite(std::span<const float> data) {
    kept_.resize(data.size());
    if (collective::copy_finite(pool(), data, kept_)) return {};
    return unusable("it holds NaN or infinity");
  }

  /// Whether an exchange of this peer's failed because its own values were refused.
  [[nodiscard]] bool is_refused(const error& why) const {
    return can_sit_out() && why.code == errc::non_finite && why.culprit == self();
  }

  /// The gradient is not finite. An overflow costs one step; parameters that are not finite cost all since the last commit,
  /// and so does a gradient that others have a share in, or one after the other.
  result<void> without_step(const error& why) {
    if (entered_ || ++skipped_ > steps_skipped || !std::isfinite(norm_of(parameters()))) return unusable(why.message);
    log()(severity::warning, why.text() + ": this step is skipped");
    return {};
  }

  // Equal shares scale by exactly 1.
  result<void> weigh(std::span<float> data) {
    const auto scale = static_cast<float>(entry_.share * peers());
    return scale == 1.0F ? result<void>{} : rows().scale(data, scale);
  }

  [[nodiscard]] std::uint64_t hash_of(std::span<const float> row) {
    if constexpr (requires { model_.backend().hash(row); }) {
      return model_.backend().hash(row);
    } else {
      return kernels::row_hash(pool(), row);
    }
  }

  template <class Comm>
  void adopted(Comm& comm, std::span<const float> previous) {
    if (previous.empty()) contribution_.give_up();
    comm.adopt(*this, previous);
    parameters_changed();
  }

  // The gradients may be what this peer is about to exchange.
  template <class Comm>
  result<void> replay(Comm& comm, std::span<const float> mean) {
    const std::span<float> row = gradients();
    if (mean.size() != row.size()) return fail(errc::wrong_model, "replay", "the mean of a round has another length");
    const std::vector<float> own(row.begin(), row.end());
    std::copy(mean.begin(), mean.end(), row.begin());
    auto outcome = comm.replay(*this);
    std::copy(own.begin(), own.end(), row.begin());
    parameters_changed();
    return outcome;
  }

  std::uint64_t name_of_stream() const { return elastic() ? env_.group->identity() : std::uint64_t{world_->self()}; }

  [[nodiscard]] collective::collective_options own_exchange_options() {
    collective::collective_options options = exchange_options();
    options.workspace = &workspace_;
    return options;
  }

  M model_;
  Inner inner_;
  environment env_;  // its transport is moved to world_
  trainer_options options_;
  std::unique_ptr<net::any_transport> world_;  // stays where it is when the context moves: group_ refers to it
  std::optional<net::any_transport> group_;
  bool keeps_inputs_;

  rng random_;
  rng shared_random_;
  std::uint64_t step_ = 0;
  std::uint64_t round_ = 0;
  std::uint64_t parent_ = 0;
  std::uint64_t hash_ = 0;
  std::uint64_t micro_batch_ = 0;
  float gradient_norm_ = 0, rate_ = 0, rate_factor_ = 1;

  static constexpr std::uint32_t steps_skipped = 3;  // in a row, before the shared state is taken over again

  round_entry entry_;
  bool unusable_ = false;      // what this peer computed since the last commit
  bool shares_inner_ = false;  // the inner optimizer is part of the shared state
  std::uint32_t skipped_ = 0;  // inner steps in a row whose gradient was not finite
  bool skip_ = false;          // the next inner step
  std::optional<std::uint64_t> scheduled_at_;
  bool resumed_ = false;                    // step_ was set during the step under way
  bool entered_ = false;                    // into the exchange under way
  std::size_t parts_ = 1, parts_left_ = 1;  // of it
  bool candidate_ = false;                  // the shared state is that of a round which is not decided on yet
  detail::contribution contribution_;

  std::span<float> updates_;
  std::vector<float> kept_;
  std::vector<float> received_;
  collective::collective_workspace workspace_;
};

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_CONTEXT_HPP
