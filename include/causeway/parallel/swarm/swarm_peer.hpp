// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_SWARM_PEER_HPP
#define CAUSEWAY_PARALLEL_SWARM_SWARM_PEER_HPP

// A peer of a swarm, on the trainer's thread: the steps, the exchange with the stage's other peers, and the part that
// waits. What is computed meanwhile is in swarm_work.hpp; what is decided, in micro_batch_state.hpp, swarm_coordinator.hpp,
// swarm_scheduler.hpp, peer_directory.hpp and swarm_shares.hpp.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/parallel/swarm/micro_batch_state.hpp>
#include <causeway/parallel/swarm/swarm_messages.hpp>
#include <causeway/parallel/swarm/swarm_options.hpp>
#include <causeway/parallel/swarm/swarm_shares.hpp>
#include <causeway/parallel/swarm/swarm_work.hpp>
#include <causeway/stage/routing.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// Threading: functions of swarm_round from the trainer's thread; `describe` from any.
template <stage::routing::Router Router>
class swarm_peer final : public swarm_round, private swarm_work<Router> {
  using base = swarm_work<Router>;
  using base::computer_, base::fabric_, base::decisions_, base::gradients_, base::locked, base::log_, base::options_,
      base::progress_, base::meanwhile_, base::micro_batches_, base::directory_, base::verdict_, base::with_lock;

 public:
  swarm_peer(std::shared_ptr<net::fabric> fabric, swarm_options options, Router router, log_sink log = {})
      : base{std::move(fabric), std::move(options), std::move(router), std::move(log)}, say_at_{options_.say_after} {}
  ~swarm_peer() override { fabric_->attach(nullptr); }

  [[nodiscard]] const swarm_options& options() const noexcept override { return options_; }

  void tie(swarm_tied_table table) override { this->tied_ = std::move(table); }

  result<void> exchange_means(bool late, gradient_place at) override {
    if (this->tied_.length > 0) {
      return fail(errc::unsupported, "swarm",
                  "the first and the last stage each have a part of the table's gradient, which a policy that rounds would "
                  "round apart; build the model with untied embeddings, or use comm::every_step without a codec");
    }
    averages_ = true;
    late_ = late;
    this->place_ = std::move(at);
    locked([this] {
      if (this->place_) this->scheduler_.peers_differ();
    });
    return {};
  }

  void open(std::uint64_t agreement) override {
    if (std::exchange(open_, true)) return;
    this->run_ = mix(options_.run, agreement,
                     mix(options_.stages, static_cast<std::uint64_t>(options_.micro_batches), options_.local_steps));
    fabric_->attach(this);
    locked([this] {
      this->claims_from_ = fabric_->now() + options_.heartbeat;
      this->heartbeat();
    });
  }

  // ---- a step --------------------------------------------------------------------------------------------------------

  result<double> run(std::uint64_t step, swarm_computer& computer) override {
    if (this->steps_alone()) return run_alone(step, computer);
    this->begin(swarm_wire::training_turn(step), static_cast<std::uint32_t>(options_.micro_batches), computer);
    const auto done = [this] { return this->may_enter(); };
    CAUSEWAY_TRY(this->at_place(done, [&] { return work_until(done); }));
    if (averages_) (void)make_mean({});
    return with_lock([&] { return verdict_.turn == micro_batches_.turn() ? verdict_.loss : 0.0; });
  }

  result<void> complete(const std::function<bool()>& summoned) override {
    if (!this->steps_alone()) gradients_.restore(computer_->gradients(), this->table_of(computer_->gradients()));
    decisions_.begin();
    if (swarm_wire::is_local(micro_batches_.turn())) {  // all of the steps since the last exchange, most of which are done
      this->begin(closing_.first, progress_.size(), *closing_.second, progress_);
    }
    const auto rested = [this] { return fabric_->now() >= again_from_; };
    const auto called = [&] { return with_lock(rested) && summoned(); };
    const auto row_of = averages_ ? std::exchange(progress_, {}) : swarm_wire::batch_set{};
    const auto done = [&] { return this->may_enter() && rested(); };
    CAUSEWAY_TRY(this->at_place(done, [&] { return work_until(done, called); }));
    CAUSEWAY_TRY(this->check_contribution());
    if (averages_) return make_mean(row_of);
    return this->steps_alone() ? this->step_on_what_was_missing() : result<void>{};
  }

  void end_local_step(std::uint64_t step, swarm_computer& round) override {
    const auto per_step = static_cast<std::uint32_t>(options_.micro_batches);
    const std::uint32_t before = progress_.size();
    swarm_wire::batch_set all{before + per_step};
    for (std::uint32_t m = 0; m < before; ++m) {
      if (progress_.has(m)) all.add(m);
    }
    locked([&] {
      for (std::uint32_t m = 0; m < per_step; ++m) {
        if (micro_batches_.done().has(m)) all.add(before + m);
      }
    });
    progress_ = std::move(all);
    closing_ = {swarm_wire::training_turn(step), &round};
  }
  [[nodiscard]] bool run_ends() override {
    return options_.steps > 0 && with_lock([this] { return this->step(); }) + 1 >= options_.steps;
  }
  void meets_in_groups() override {
    locked([this] { this->in_groups_ = true; });
  }
  result<void> shares_paths(std::uint32_t count, std::function<void(std::uint32_t)> taken,
                            std::function<void(std::uint32_t, std::span<float>)> put) override {
    return base::shares_paths(count, std::move(taken), std::move(put));
  }
  void has_values(bool it_has) override {
    locked([&] { this->has_values_ = it_has; });
  }
  void meanwhile(std::function<void()> what) override { meanwhile_ = std::move(what); }
  void throw_away() override { this->throw_work_away(); }
  [[nodiscard]] swarm_wire::batch_set progress() const override { return progress_; }

  result<double> evaluate(std::uint64_t step, std::uint32_t pieces, swarm_computer& computer,
                          std::optional<std::uint32_t> path) override {
    if (std::exchange(evaluated_step_, step) != step) evaluations_ = 0;
    if (evaluations_ == swarm_wire::most_evaluations) {
      return fail(errc::invalid_argument, "swarm", "more than a million evaluations between two steps");
    }
    const typename base::judged_path judged{*this, computer, path};
    this->begin(swarm_wire::evaluation_turn(step, evaluations_++), pieces, computer);
    const auto outcome = work_until([this] { return this->evaluated() || this->gives_up(); });
    if (!outcome) CAUSEWAY_TRY(leave_evaluation_to_others(outcome.error()));
    const std::optional<double> loss = with_lock([&] { return this->evaluated(); });
    if (loss) return *loss;
    return fail(errc::cancelled, "swarm", "the others are through with this evaluation, and its loss is lost");
  }

  [[nodiscard]] bool called_away() const noexcept override { return this->called_away_; }
  [[nodiscard]] bool is_waited_for() override {
    return with_lock([this] { return this->followed_.term != told_by_; });
  }

  [[nodiscard]] swarm_holding holding() override {
    return with_lock([&] {
      swarm_holding h{this->step(),     this->has_sum(),  micro_batches_.done(),
                      this->released(), this->has_part(), !this->has_values_};
      if (h.done.count() > 0) h.module_path = this->module_path_;
      if (verdict_.turn == micro_batches_.turn() && verdict_.complete != 0) h.left_out = verdict_.left_out;
      return h;
    });
  }

  result<swarm_part_taken> take_part(std::span<const swarm_holding> all, std::size_t self) override {
    const swarm_plan plan = plan_shares(all, this->step(), this->wanted(), this->is_last_of_tied(), late_);
    const bool drops = this->steps_alone() ? has_doubles(all, plan, self) : averages_ && is_superfluous(all, plan, self);
    if (drops || plan.parts[self] == swarm_part::dropped) this->drop_everything();
    if (drops && this->steps_alone()) return swarm_part_taken{.weights = weights_of(all, plan), .gives_up = true};
    if (drops) return this->without_gradient();
    if (!plan.complete) {
      const bool lacks_part = this->is_last_of_tied() && plan.adds_part == swarm_plan::none;
      locked([this, asks = lacks_part && self == 0] {
        verdict_.complete = 0;
        again_from_ = fabric_->now() + look_around;  // who has the rest may be on its way
        if (asks) this->asks_itself();
        this->send_report();
        this->after_event();
      });
      return fail(errc::cancelled, "stage " + std::to_string(options_.stage),
                  "micro-batches are missing; they are computed first");
    }
    if (exchanges_rows()) return part_of_mean(all, plan);
    gradients_.put_in(plan.parts[self], computer_->gradients());
    if (plan.adds_part == self) locked([this] { this->add_part(computer_->gradients()); });
    return swarm_part_taken{std::vector(all.size(), 1.0)};  // so that parts are summed
  }

  result<swarm_sum> keep_sum(std::span<const float> sum, std::span<const float> gradient) override {
    const double squares = exchanges_rows() ? this->sum_of_squares(gradient) : computer_->squares();
    if (!std::isfinite(squares)) {
      return fail(errc::non_finite, "stage " + std::to_string(options_.stage), "the gradient is not finite");
    }
    kept_ = {this->step(), squares, decisions_.asked()};
    summed_ = sum;
    return swarm_sum{kept_.step, squares, exchanges_rows() ? std::span<float>{} : computer_->gradients()};
  }

  void restore_sum(const swarm_sum& kept) override {
    locked([&] {
      if (!kept.values.empty()) gradients_.keep_sum(kept.step, {kept.values.begin(), kept.values.end()});
      has_summed({kept.step, kept.squares});
    });
  }

  result<std::vector<double>> all_summed() override {
    const std::uint64_t step = kept_.step;
    const auto g = computer_->gradients();
    locked([&] {
      if (!this->in_groups_) gradients_.keep_sum(step, {summed_.begin(), summed_.end()});
      has_summed(kept_);
      this->announce();
      this->after_event();
    });
    const auto total = [&] { return this->may_step() ? decisions_.total(directory_, options_.stage, step) : std::nullopt; };
    CAUSEWAY_TRY(work_until([&] { return total().has_value() || directory_.left_behind(step); }));  // the barrier
    const auto all = with_lock(total);
    if (!all) return fail(errc::cancelled, "swarm", "the others are steps ahead; taking their state over");
    if (all->asked.size() < kept_.asked.size()) {
      return fail(errc::protocol, "swarm", "another stage exchanges something else; do all run the same policy?");
    }
    this->leave_table_out(g);
    return swarm_wire::numbers_of(*all, kept_.asked.size());
  }

  result<void> sum(std::span<double> values, const collective::collective_options&) override {
    decisions_.ask(values);
    if (decisions_.asked().size() <= most_asked_) return {};
    return fail(errc::invalid_argument, "policy",
                "it asks the stages for more numbers than it said at its start (stage_peers::will_ask)");
  }
  std::span<std::byte> decision(std::size_t most) override { return decisions_.memory(most_asked_ = most); }

  void committed(bool adopted) override {
    progress_ = {};
    locked([&] {
      this->round_is_over(!adopted);
      if (!adopted && this->closes_a_round()) this->committed_ = this->step() + 1;
      const bool tells = this->tell_committed();
      if (this->holds_committed(adopted) || tells) this->after_event();
    });
  }
  bool put_table() override {
    locked([this] { this->put_table_into_parameters(); });
    return this->is_first_of_tied();
  }

  void agreed(std::span<const double> all) override {
    norm_ = std::sqrt(all.front());
    decisions_.decide(kept_.step, all);
  }
  [[nodiscard]] float norm() const override { return static_cast<float>(norm_); }

  [[nodiscard]] std::uint64_t contributed() override {
    return with_lock([&] { return micro_batches_.done().count(); });
  }

  [[nodiscard]] double seconds_per_micro_batch() override {
    return with_lock([&] { return this->seconds_; });
  }

  [[nodiscard]] std::optional<std::uint32_t> asked_to_move() override {
    return with_lock([&] { return this->move_to_; });
  }

  [[nodiscard]] time_point now() override {
    return with_lock([&] { return fabric_->now(); });
  }

  /// Whom this peer waits for, and who coordinates. From any thread.
  [[nodiscard]] std::string describe() override {
    return with_lock([&] { return this->describe_coordination(); }) + fabric_->describe_waits();
  }

  /// Micro-batches that this peer, as coordinator, had to route again.
  [[nodiscard]] std::uint64_t rerouted() {
    return with_lock([&] { return this->scheduler_.rerouted(); });
  }
  [[nodiscard]] bool coordinates() {
    return with_lock([&] { return this->coordinates_; });
  }

 private:
  [[nodiscard]] bool exchanges_rows() const { return averages_ || this->steps_alone(); }

  // The gradients become the mean over this peer's micro-batches, for the policy to make its row of. `row_of`: those that
  // its last row is of. errc::cancelled: it must make another one.
  result<void> make_mean(const swarm_wire::batch_set& row_of) {
    progress_ = with_lock([&] { return micro_batches_.done(); });
    const auto own = static_cast<float>(std::max(progress_.count(), 1U));
    gradients_.put_in_mean(static_cast<float>(this->wanted().count()) / own, computer_->gradients());
    if (late_ || progress_ == row_of) return {};
    return fail(errc::cancelled, "stage " + std::to_string(options_.stage), "what lost peers had was computed first");
  }

  // What somebody has is taken as it is; else everybody's row counts by its micro-batches.
  [[nodiscard]] result<swarm_part_taken> part_of_mean(std::span<const swarm_holding> all, const swarm_plan& plan) {
    swarm_part_taken part{.weights = weights_of(all, plan)};
    part.paths = paths_of(all, plan, part.weights);
    const auto at = std::find(plan.parts.begin(), plan.parts.end(), swarm_part::sum);
    if (at == plan.parts.end()) return part;
    part.result_at = static_cast<std::uint32_t>(at - plan.parts.begin());
    if (with_lock([&] { return this->has_sum(); })) part.result = gradients_.sum();
    return part;
  }

  void has_summed(const swarm_wire::stage_sum& what) {
    directory_.remember(options_.stage, what);
    if (this->own_sums_[0].step != what.step) this->own_sums_[1] = this->own_sums_[0];
    this->own_sums_[0] = what;
  }

  // A peer whose values are not finite takes what others of its stage come to; its next step mends it.
  result<void> leave_evaluation_to_others(const error& why) {
    if (why.code != errc::non_finite || !with_lock([&] { return directory_.anybody_serves(options_.stage); })) return why;
    this->throw_work_away();
    return work_until([this] { return this->evaluated() || this->gives_up(); });
  }

  // ---- local steps ----------------------------------------------------------------------------------------------------

  // What this peer contributed counts if the coordinator said so; else others may have been given it, or nobody knows.
  result<double> run_alone(std::uint64_t step, swarm_computer& computer) {
    this->begin(swarm_wire::local_turn(step), static_cast<std::uint32_t>(options_.micro_batches), computer);
    if (this->wanted().count() != micro_batches_.done().size()) {
      return fail(errc::invalid_argument, "swarm", "local steps need a router that leaves no stage out");
    }
    CAUSEWAY_TRY(work_until([this] { return this->local_step_is_over(); }));
    return with_lock([&] {
      if (!this->declared()) micro_batches_.forget();
      told_by_ = this->followed_.term;
      return this->declared() ? this->loss_ : 0.0;
    });
  }

  // ---- waiting --------------------------------------------------------------------------------------------------------

  template <class Done>
  result<void> work_until(Done&& done, const std::function<bool()>& summoned = {}) {
    waited_ = duration{0};
    say_at_ = options_.say_after;
    for (;;) {
      this->move_tensors();
      std::optional<swarm_task> task;
      bool over = false;
      locked([&] {
        this->trainer_is_here(fabric_->now());
        over = done();
        task = over ? std::nullopt : micro_batches_.next();
        if (task) this->queue_.began(micro_batches_.queued() - 1);
      });
      if (over) return {};
      if (task) {
        CAUSEWAY_TRY(this->compute(*task));
        waited_ = duration{0};
      } else if (summoned && summoned()) {
        return {};
      } else {
        if (meanwhile_) meanwhile_();
        CAUSEWAY_TRY(wait_a_while(done, meanwhile_ ? a_moment : summoned ? look_around : duration::max()));
      }
    }
  }

  template <class Done>
  result<void> wait_a_while(Done&& done, duration most) {
    const time_point begin = with_lock([&] { return fabric_->now(); });
    const auto something = [&] { return done() || this->has_something_to_do(); };
    CAUSEWAY_ASSIGN(const bool happened, fabric_->block(something, begin + std::min({options_.say_after, say_at_, most})));
    (void)happened;
    waited_ += with_lock([&] { return fabric_->now() - begin; });
    if (waited_ >= say_at_) {
      say_at_ = 2 * waited_;
      log_(severity::waiting,
           "waiting since " + std::to_string(static_cast<std::int64_t>(seconds(waited_))) + " s: " + describe());
    }
    return {};
  }

  static constexpr duration look_around = std::chrono::milliseconds{100}, a_moment = std::chrono::milliseconds{5};

  std::uint64_t evaluated_step_ = 0, evaluations_ = 0;  // so many before that step
  swarm_wire::stage_sum kept_;                          // of this stage, which the others hear of next
  std::span<const float> summed_;                       // what that is of
  double norm_ = 0;
  std::pair<std::uint64_t, swarm_computer*> closing_{};  // the turn before an exchange after the step under way
  std::uint32_t told_by_ = 0;                            // the term in which the last local step was over
  bool open_ = false, averages_ = false, late_ = false;  // see exchange_means
  std::size_t most_asked_ = 0;                           // see decision
  time_point again_from_;                                // another attempt at the exchange
  duration waited_{0}, say_at_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_SWARM_PEER_HPP
