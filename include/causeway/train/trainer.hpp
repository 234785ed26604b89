// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_TRAINER_HPP
#define CAUSEWAY_TRAIN_TRAINER_HPP

// The training loop's one step, composed of policies. A step runs in four phases; a phase that fails is judged by the fault
// policy and, if it says so, done again from where it failed: gradients that were computed are never thrown away.

#include <causeway/comm/periodic.hpp>
#include <causeway/core/result.hpp>
#include <causeway/fault/fail_stop.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/parallel/data_parallel.hpp>
#include <causeway/policy/concepts.hpp>
#include <causeway/policy/executor.hpp>
#include <causeway/policy/pick.hpp>
#include <causeway/policy/rules.hpp>
#include <causeway/train/context.hpp>
#include <causeway/train/observer.hpp>

#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI {

namespace detail {
template <bool Valid, class Comm, class Parallel, class Fault>
using checked_if =
    std::conditional_t<Valid, compatible<Comm, Parallel, Fault>, unchecked>;  // rules run on real policies only

inline std::string section_of(const char* slot, std::string_view policy) { return slot + std::string{policy}; }

/// Adds the time for which it lives to `total`, seconds.
struct timed {
  const any_clock& time;
  double& total;
  time_point begin = time.now();

  ~timed() { total += seconds(time.now() - begin); }
};

}  // namespace detail

/// The host of a model, an inner optimizer and three policies. Use the alias `trainer`, or `make_trainer`.
/// Thread safety: one thread.
template <Model M, optim::Optimizer Inner, class Comm, class Parallel, class Fault>
class basic_trainer : detail::checked_if<CommunicationPolicy<Comm> && ParallelismPolicy<Parallel> && FaultPolicy<Fault>,
                                         Comm, Parallel, Fault> {
  static_assert(
      HasCommunicationHooks<Comm>,
      "causeway-P1: not a communication policy; the note below names the missing hook. docs/reference/rules.md#p1");
  [[maybe_unused]] static constexpr detail::promised<Comm, HasCommunicationHooks<Comm>> promised{};
  static_assert(ParallelismPolicy<Parallel>,
                "causeway-P2: not a parallelism policy; the note below names the missing hook. docs/reference/rules.md#p2");
  static_assert(FaultPolicy<Fault>,
                "causeway-P3: not a fault policy; the note below names the missing hook. docs/reference/rules.md#p3");

 public:
  using context_type = training_context<M, Inner>;
  using comm_type = Comm;

  explicit basic_trainer(M model, environment env = {}, trainer_options options = {}, Inner inner = Inner{},
                         Comm comm = Comm{}, Parallel parallel = Parallel{}, Fault fault = Fault{}, result<void> given = {})
      : ctx_{std::move(model), std::move(inner), std::move(env), std::move(options), Fault::traits.retries},
        comm_{std::move(comm)},
        parallel_{std::move(parallel)},
        fault_{std::move(fault)},
        given_{std::move(given)} {}

  /// Call once before the first step, on all peers, also after restoring a checkpoint: checks that all start alike.
  result<void> start() {
    if constexpr (valid) {
      CAUSEWAY_TRY(given_);
      CAUSEWAY_TRY(check_group());
      CAUSEWAY_TRY(parallel_.start(ctx_));
      if constexpr (!elastic) CAUSEWAY_TRY(ctx_.agree_on_start(restored_, Comm::traits.identical_replicas));
      CAUSEWAY_TRY(comm_.start(ctx_));
      if constexpr (elastic) {
        opened_ = ctx_.closes_membership();
        return ctx_.open_membership(comm_);
      }
    }
    return {};
  }

  /// The numbers of the samples that this peer trains on next: at most `count`, and none when the run's budget is used up.
  /// With fault::quorum they come from the committed ledger, every number once in the whole run, and a peer that has none
  /// left takes part in the others' rounds until a commit gives it more: blocks as long. With a fixed set of peers they
  /// follow from the step. Call it once per step.
  result<std::vector<std::uint64_t>> draw(std::uint64_t count) {
    if constexpr (valid && elastic) {
      for (;;) {
        auto numbers = ctx_.draw(count);
        ctx_.contribution().drawn_at(ctx_.clock().now());
        if (!numbers.empty() || ctx_.budget_used()) return numbers;
        CAUSEWAY_TRY(attend());
      }
    } else {
      std::vector<std::uint64_t> numbers(count);
      std::iota(numbers.begin(), numbers.end(), (ctx_.step() * ctx_.peers() + ctx_.self()) * count);
      return numbers;
    }
  }

  /// One inner step over this peer's batch, and the exchanges that are due. On an error nothing was committed: the state is
  /// the one before the step, or, where the failure was in an exchange after it, that of a step whose exchange is pending;
  /// both can be saved, and the next call continues there.
  result<step_report> step(const batch& b) {
    if constexpr (valid) return judged_step(b);
    return report_;
  }

  /// Call once after the last step, on all peers: brings the replicas together.
  result<void> finish() {
    if constexpr (valid && !elastic) return comm_.finish(ctx_);  // else the last commit did it
    return {};
  }

  /// Mean loss in nats per token on the current parameters. Where the model is cut into stages, all of a pipeline's peers
  /// call it, with the same batch.
  result<double> evaluate(const batch& b) {
    if constexpr (valid) return parallel_.evaluate(ctx_, b);
    return 0.0;
  }

  [[nodiscard]] context_type& context() noexcept { return ctx_; }
  [[nodiscard]] M& model() noexcept { return ctx_.model(); }
  [[nodiscard]] Comm& comm() noexcept { return comm_; }
  [[nodiscard]] Parallel& parallel() noexcept { return parallel_; }
  [[nodiscard]] Fault& fault() noexcept { return fault_; }

  /// Has `f` called after every committed step, on the trainer's thread.
  void observe(step_observer f) { observers_.push_back(std::move(f)); }

  /// Calls `f(section name, version, object)` for everything that a checkpoint must keep besides the parameters.
  template <class F>
  void for_each_state(F&& f) {
    f(std::string{"trainer"}, std::uint32_t{1}, *this);
    f(detail::section_of("inner.", Inner::name), std::uint32_t{1}, ctx_.inner());
    f(detail::section_of("comm.", Comm::name), std::uint32_t{Comm::state_version}, comm_);
    f(detail::section_of("parallel.", Parallel::name), std::uint32_t{Parallel::state_version}, parallel_);
    f(detail::section_of("fault.", Fault::name), std::uint32_t{Fault::state_version}, fault_);
  }

  /// The trainer's own counters. A step that failed in the gradient exchange is saved as not begun: its gradients are not
  /// part of a checkpoint.
  template <class Archive>
  void serialize(Archive& ar) {
    auto saved = static_cast<std::uint8_t>(phase_ >= phase::after ? phase_ : phase::compute);
    ar(saved, ctx_);
    phase_ = static_cast<phase>(saved);
  }

  /// Call after restoring state.
  void restored() {
    restored_ = true;
    ctx_.parameters_changed();
  }

 private:
  // A mix that was refused above gets empty bodies, so that the refusal is the only error.
  static constexpr bool valid = CommunicationPolicy<Comm> && ParallelismPolicy<Parallel> && FaultPolicy<Fault>;

  static constexpr bool elastic = Fault::traits.produces == peers::elastic && Comm::traits.tolerates == peers::elastic;

  result<void> check_group() const {
    if (elastic == ctx_.elastic()) return {};
    return fail(errc::invalid_argument, std::string{Fault::name},
                elastic
                    ? "it needs a membership, but the environment has none; set environment::group, or use fault::fail_stop"
                    : "the environment has a membership, but this fault policy needs a fixed set of peers; use "
                      "fault::quorum");
  }

  enum class phase : std::uint8_t { compute, before, inner, after, close };

  // One round without training: what this peer has not contributed yet, or nothing.
  result<void> attend() {
    for (;;) {
      CAUSEWAY_TRY(fault_.begin_step(ctx_));
      if constexpr (Comm::traits.talks_between) comm_.stand_by(ctx_);
      const auto admit = [&] {
        if constexpr (Comm::traits.trains_paths) return comm_.admit(ctx_);
        return result<void>{};
      };
      const result<void> outcome = ctx_.attend([&] { return comm_.catch_up(ctx_); }, admit);
      CAUSEWAY_ASSIGN(const verdict judged, fault_.end_step(ctx_, outcome));
      if (judged == verdict::commit) return {};
      if (judged == verdict::abort) return outcome;
    }
  }

  // The fault policy judges after a failed phase and after the last one.
  result<step_report> judged_step(const batch& b) {
    const std::uint64_t round = ctx_.round();
    report_.compute_seconds = report_.exchange_seconds = 0;
    for (;;) {
      const result<void> outcome = advance(b);
      CAUSEWAY_ASSIGN(const verdict judged, fault_.end_step(ctx_, outcome));
      switch (judged) {
        case verdict::commit:
          phase_ = phase::compute;
          report_.by_others = !outcome;
          return committed(round);
        case verdict::retry: break;
        case verdict::abort:
          if (outcome) return fail(errc::cancelled, "fault policy", "it aborted a step that had succeeded");
          return outcome.error();
      }
    }
  }

  result<void> advance(const batch& b) {
    const auto begin = ctx_.clock().now();
    double exchanged = 0;
    auto outcome = advance(b, exchanged);
    report_.exchange_seconds += exchanged;
    report_.compute_seconds += seconds(ctx_.clock().now() - begin) - exchanged;
    return outcome;
  }

  result<void> advance(const batch& b, double& exchanged) {
    if (phase_ == phase::compute) {
      CAUSEWAY_TRY(fault_.begin_step(ctx_));
      ctx_.begin_compute();
      CAUSEWAY_TRY(compute(b));
      phase_ = has_update() ? phase::before : phase::close;
    }
    if (phase_ == phase::before) {
      const detail::timed exchange{ctx_.clock(), exchanged};
      CAUSEWAY_TRY(comm_.before_inner_step(ctx_));
      phase_ = phase::inner;
    }
    if (phase_ == phase::inner) {
      if (!ctx_.skips_inner_step()) {
        CAUSEWAY_ASSIGN(const float norm, parallel_.norm(ctx_));
        CAUSEWAY_TRY(ctx_.inner_step(norm));
      }
      phase_ = phase::after;
    }
    if (phase_ == phase::after) {
      const detail::timed exchange{ctx_.clock(), exchanged};
      CAUSEWAY_TRY(comm_.after_inner_step(ctx_));
      phase_ = phase::close;
    }
    const detail::timed exchange{ctx_.clock(), exchanged};
    CAUSEWAY_TRY(parallel_.after_step(ctx_));
    phase_ = phase::compute;
    return {};
  }

  // Where the policy says so this peer rests until the next exchange, and only counts its steps.
  result<void> compute(const batch& b) {
    report_.loss = 0;
    report_.tokens = 0;
    if constexpr (Comm::traits.draws_peers) {
      if (!comm_.trains(ctx_)) {
        ctx_.skip_inner_step();
        return {};
      }
    }
    const auto pass = [&] { return parallel_.forward_backward(ctx_, b); };
    if constexpr (Comm::traits.looks_ahead && !Parallel::traits.shares_gradient) {
      CAUSEWAY_ASSIGN(report_.loss, comm_.compute(ctx_, pass));
    } else {
      CAUSEWAY_ASSIGN(report_.loss, pass());
    }
    report_.tokens = b.tokens();
    ctx_.count_samples(static_cast<std::uint64_t>(b.sequences));
    return {};
  }

  // Where stages go on their own time a step may have no gradient yet: then there is none to exchange.
  bool has_update() noexcept {
    if constexpr (Comm::traits.exchanges_gradients && !Parallel::traits.global_step) return !ctx_.skips_inner_step();
    return true;
  }

  step_report committed(std::uint64_t round_before) {
    ctx_.commit_step();
    report_.step = ctx_.step();
    report_.round = ctx_.round();
    report_.learning_rate = ctx_.learning_rate();
    report_.gradient_norm = ctx_.gradient_norm();
    report_.committed_round = ctx_.round() != round_before;
    report_.state_hash = report_.committed_round ? ctx_.state_hash() : 0;
    for (const auto& observer : observers_) observer(report_);
    return report_;
  }

  context_type ctx_;
  Comm comm_;
  Parallel parallel_;
  Fault fault_;
  result<void> given_;  // whether the policies' values go together
  phase phase_ = phase::compute;
  bool restored_ = false;
  step_report report_;
  std::vector<step_observer> observers_;
  opened_group opened_;  // last, so that it goes first: others may be fetching from the memory of all that is above
};

namespace detail {

/// With the executor of the three policies in the place of the parallelism.
template <class M, class Inner, class Comm, class Parallel, class Fault>
using trainer_of = basic_trainer<M, Inner, typename policy_for<Comm, executor_of<Parallel, Comm, Fault>>::type,
                                 executor_of<Parallel, Comm, Fault>, Fault>;

}  // namespace detail

/// A trainer of `M` with any of an inner optimizer, a communication, a parallelism and a fault policy, in any order; the
/// rest are AdamW, periodic averaging, data parallelism and fail-stop.
template <class M, class... Policies>
using trainer =
    detail::trainer_of<detail::claimed<M, Policies...>, detail::pick<detail::kind::inner, optim::adamw, Policies...>,
                       detail::pick<detail::kind::comm, comm::periodic<>, Policies...>,
                       detail::pick<detail::kind::parallel, parallel::data_parallel, Policies...>,
                       detail::pick<detail::kind::fault, fault::fail_stop, Policies...>>;

/// The function form, for policies with options: `make_trainer(model, env, options, comm::periodic<>{{.local_steps =
/// 50}})`.
template <class M, class... Policies>
[[nodiscard]] auto make_trainer(M&& model, environment env, trainer_options options, Policies&&... policies) {
  using given_model = detail::given_model<std::remove_cvref_t<M>>;
  static_assert(
      !given_model::is_result,
      "causeway-P7: the model is still a result: take the model out of it with CAUSEWAY_ASSIGN, or with `*` after "
      "looking whether it failed. docs/reference/rules.md#p7");
  static_assert(
      (detail::can_be_given<M> && ... && detail::can_be_given<Policies>),
      "causeway-P10: a model or policy that cannot be copied is given by its name: write `std::move(name)`, for the "
      "trainer will own it. docs/reference/rules.md#p10");
  using type = trainer<typename given_model::type, std::remove_cvref_t<Policies>...>;
  auto own = detail::given<M>(model);
  auto comm = detail::take<detail::kind::comm, comm::periodic<>, Policies...>(policies...);
  auto parallel = detail::take<detail::kind::parallel, parallel::data_parallel, Policies...>(policies...);
  auto fault = detail::take<detail::kind::fault, fault::fail_stop, Policies...>(policies...);
  using run_by = executor<decltype(parallel), decltype(comm), decltype(fault)>;
  const result<void> given = run_by::check(parallel, fault);
  auto runs = run_by::make(std::move(parallel), fault, env);
  return type{given_model::take(own), std::move(env),
              std::move(options),     detail::take<detail::kind::inner, optim::adamw, Policies...>(policies...),
              std::move(comm),        std::move(runs),
              std::move(fault),       given};
}

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_TRAINER_HPP
