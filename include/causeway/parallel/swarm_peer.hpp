// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_PEER_HPP
#define CAUSEWAY_PARALLEL_SWARM_PEER_HPP

// A peer of a swarm, on the trainer's thread: computes what the station has, moves tensors, and is the part that waits.
// What is decided is in swarm_station.hpp, swarm_lead.hpp, swarm_driver.hpp, swarm_table.hpp and swarm_shares.hpp.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/parallel/swarm_hearing.hpp>
#include <causeway/parallel/swarm_mail.hpp>
#include <causeway/parallel/swarm_messages.hpp>
#include <causeway/parallel/swarm_options.hpp>
#include <causeway/parallel/swarm_shares.hpp>
#include <causeway/parallel/swarm_station.hpp>
#include <causeway/stage/routing.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::parallel {

/// Threading: functions of swarm_round from the trainer's thread; `describe` from any.
template <stage::routing::Router Router>
class swarm_peer final : public swarm_round, private swarm_hearing<Router> {
  using base = swarm_hearing<Router>;
  using base::fabric_, base::options_, base::log_, base::table_, base::station_, base::gradients_, base::verdict_;

 public:
  swarm_peer(std::shared_ptr<net::fabric> fabric, swarm_options options, Router router, log_sink log = {})
      : base{std::move(fabric), std::move(options), std::move(router), std::move(log)},
        mail_{*fabric_},
        say_at_{options_.say_after} {}
  ~swarm_peer() override { fabric_->attach(nullptr); }

  [[nodiscard]] const swarm_options& options() const noexcept override { return options_; }

  void tie(swarm_tied_table table) override { this->tied_ = std::move(table); }

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
    begin(swarm_wire::training_turn(step), static_cast<std::uint32_t>(options_.micro_batches), computer);
    CAUSEWAY_TRY(work_until([this] { return this->may_enter(); }));
    double loss = 0;
    locked([&] { loss = verdict_.turn == station_.turn() ? verdict_.loss : 0.0; });
    return loss;
  }

  result<void> complete(const std::function<bool()>& summoned) override {
    if (!this->steps_alone()) gradients_.restore(computer_->gradients(), this->table_of(computer_->gradients()));
    const auto rested = [this] { return fabric_->now() >= again_from_; };
    const auto called = [&] {
      bool ready = false;
      locked([&] { ready = rested(); });
      return ready && summoned();
    };
    CAUSEWAY_TRY(work_until([&] { return this->may_enter() && rested(); }, called));
    return this->steps_alone() ? step_on_what_was_missing() : result<void>{};
  }

  void end_local_step(std::uint64_t step, swarm_computer& round) override {
    const auto per_step = static_cast<std::uint32_t>(options_.micro_batches);
    const auto at = static_cast<std::uint32_t>(step % options_.local_steps);
    const std::uint32_t all = per_step * options_.local_steps;
    if (at == 0 || progress_.size() != all) progress_ = swarm_wire::batch_set{all};
    locked([&] {
      for (std::uint32_t m = 0; m < per_step; ++m) {
        if (station_.done().has(m)) progress_.add(at * per_step + m);
      }
    });
    const bool closes = at + 1 == options_.local_steps;
    begin(swarm_wire::training_turn(step), closes ? all : 0, round, closes ? progress_ : swarm_wire::batch_set{});
  }

  void replaced() override { progress_ = {}; }
  [[nodiscard]] swarm_wire::batch_set progress() const override { return progress_; }

  result<double> evaluate(std::uint64_t step, std::uint32_t pieces, swarm_computer& computer) override {
    if (std::exchange(evaluated_step_, step) != step) evaluations_ = 0;
    if (evaluations_ == swarm_wire::most_evaluations) {
      return fail(errc::invalid_argument, "swarm", "more than a million evaluations between two steps");
    }
    begin(swarm_wire::evaluation_turn(step, evaluations_++), pieces, computer);
    CAUSEWAY_TRY(work_until([this] { return this->evaluated() || this->gives_up(); }));
    std::optional<double> loss;
    locked([&] { loss = this->evaluated(); });
    if (loss) return *loss;
    return fail(errc::cancelled, "swarm", "the others are through with this evaluation, and its loss is lost");
  }

  [[nodiscard]] bool called_away() const noexcept override { return this->called_away_; }

  [[nodiscard]] swarm_holding holding() override {
    swarm_holding h;
    locked([&] { h = {this->step(), this->has_sum(), station_.done(), this->released(), this->has_part()}; });
    return h;
  }

  result<double> take_part(std::span<const swarm_holding> all, std::size_t self) override {
    const swarm_plan plan = plan_shares(all, this->step(), wanted(), this->is_last_of_tied());
    if (plan.parts[self] == swarm_part::dropped) drop_everything();
    if (!plan.complete) {
      const bool lacks_part = this->is_last_of_tied() && plan.adds_part == swarm_plan::none;
      locked([this, asks = lacks_part && self == 0] {
        verdict_.complete = 0;
        again_from_ = fabric_->now() + look_around;  // who has the rest may be on its way
        if (asks) this->asks_itself();
        this->send_report();
        this->settle();
      });
      return fail(errc::cancelled, "stage " + std::to_string(options_.stage),
                  "micro-batches are missing; they are computed first");
    }
    gradients_.put_in(plan.parts[self], computer_->gradients(), !this->steps_alone());
    if (plan.adds_part == self) locked([this] { this->add_part(computer_->gradients()); });
    return this->steps_alone() ? weight_of(all, plan, self) : 1.0;  // every peer's, so that parts are summed
  }

  result<swarm_sum> keep_sum() override {
    const double squares = computer_->squares();
    if (!std::isfinite(squares)) {
      return fail(errc::non_finite, "stage " + std::to_string(options_.stage), "the gradient is not finite");
    }
    kept_ = {this->step(), squares};
    return swarm_sum{kept_.step, squares, computer_->gradients()};
  }

  void restore_sum(const swarm_sum& kept) override {
    locked([&] { has_summed({kept.step, kept.squares}, {kept.values.begin(), kept.values.end()}); });
  }

  result<double> all_summed() override {
    const std::uint64_t step = kept_.step;
    const auto g = computer_->gradients();
    locked([&] {
      has_summed(kept_, {g.begin(), g.end()});
      this->announce();
      this->settle();
    });
    const auto passed = [&] { return table_.squares(step).has_value() && this->may_step(); };  // the barrier
    CAUSEWAY_TRY(work_until([&] { return passed() || table_.left_behind(step); }));
    std::optional<double> all;
    locked([&] { all = passed() ? table_.squares(step) : std::nullopt; });
    if (!all) return fail(errc::cancelled, "swarm", "the others are steps ahead; taking their state over");
    this->leave_table_out(g);
    return *all;
  }

  void committed(bool adopted) override {
    locked([&] {
      if (this->holds_committed(adopted)) this->settle();
    });
  }
  bool put_table() override {
    locked([this] { this->put_table_into_parameters(); });
    return this->is_first_of_tied();
  }

  void agreed(double squares) override { norm_ = std::sqrt(squares); }
  [[nodiscard]] float norm() const override { return static_cast<float>(norm_); }

  [[nodiscard]] std::uint64_t contributed() override {
    std::uint64_t n = 0;
    locked([&] { n = station_.done().count(); });
    return n;
  }

  [[nodiscard]] double seconds_per_micro_batch() override {
    double took = 0;
    locked([&] { took = this->seconds_; });
    return took;
  }

  [[nodiscard]] std::optional<std::uint32_t> asked_to_move() override {
    std::optional<std::uint32_t> to;
    locked([&] { to = this->move_to_; });
    return to;
  }

  /// Whom this peer waits for, and who drives. From any thread.
  [[nodiscard]] std::string describe() override {
    std::string text;
    locked([&] { text = this->describe_lead(); });
    return text + fabric_->describe_waits();
  }

  /// Micro-batches that this peer, as driver, had to route again.
  [[nodiscard]] std::uint64_t rerouted() {
    std::uint64_t n = 0;
    locked([&] { n = this->driver_.rerouted(); });
    return n;
  }
  [[nodiscard]] bool drives() {
    bool so = false;
    locked([&] { so = this->drives_; });
    return so;
  }

 private:
  template <class F>
  void locked(F&& what) {
    fabric_->locked(std::forward<F>(what));
  }

  void begin(std::uint64_t turn, std::uint32_t micro_batches, swarm_computer& computer,
             swarm_wire::batch_set counted = {}) {
    computer_ = &computer;
    forward_seconds_.clear();
    added_ = 0;
    mail_.clear();
    locked([&] {
      mail_.forget_before(turn);
      base::begin(turn, micro_batches, std::move(counted));
    });
  }

  void drop_everything() {
    log_(severity::warning, "some of this peer's micro-batches are in another peer's gradient too; it computes anew");
    if (this->steps_alone()) computer_->forget_progress();
    std::fill(computer_->gradients().begin(), computer_->gradients().end(), 0.0F);
    locked([this] {
      if (this->steps_alone()) station_.settle(false);
      station_.drop_contributions();
      progress_ = station_.done();
    });
  }

  void has_summed(const swarm_wire::stage_sum& what, std::vector<float> sum) {
    gradients_.keep_sum(what.step, std::move(sum));
    table_.remember(options_.stage, what);
    if (this->own_sums_[0].step != what.step) this->own_sums_[1] = this->own_sums_[0];
    this->own_sums_[0] = what;
  }

  // ---- local steps ----------------------------------------------------------------------------------------------------

  // What this peer contributed counts if the driver said so; else others may have been given it, or nobody knows.
  result<double> run_alone(std::uint64_t step, swarm_computer& computer) {
    begin(swarm_wire::local_turn(step), static_cast<std::uint32_t>(options_.micro_batches), computer);
    if (wanted().count() != station_.done().size()) {
      return fail(errc::invalid_argument, "swarm", "local steps need a router that leaves no stage out");
    }
    CAUSEWAY_TRY(work_until([this] { return this->local_step_is_over(); }));
    double loss = 0;
    locked([&] {
      if (!this->declared()) station_.forget();
      loss = this->declared() ? this->loss_ : 0.0;
    });
    return loss;
  }

  // The exchange is prepared anew then: this peer's parameters are others than when it was prepared.
  result<void> step_on_what_was_missing() {
    if (!std::exchange(clobbered_, false)) return {};
    added_ = 0;
    std::uint32_t pending = 0;
    locked([&] { pending = station_.pending(); });
    if (pending > 0) {
      CAUSEWAY_TRY(computer_->take_step(static_cast<float>(progress_.size()) / static_cast<float>(pending)));
      locked([&] {
        station_.settle(true);
        progress_ = station_.done();
      });
    }
    return fail(errc::cancelled, "stage " + std::to_string(options_.stage), "what lost peers had was computed first");
  }

  // ---- waiting --------------------------------------------------------------------------------------------------------

  template <class Done>
  result<void> work_until(Done&& done, const std::function<bool()>& summoned = {}) {
    waited_ = duration{0};
    say_at_ = options_.say_after;
    for (;;) {
      move_tensors();
      std::optional<swarm_task> task;
      bool over = false;
      locked([&] {
        over = done();
        task = over ? std::nullopt : station_.next();
        if (task) this->queue_.began(station_.queued() - 1);
      });
      if (over) return {};
      if (task) {
        CAUSEWAY_TRY(compute(*task));
        waited_ = duration{0};
      } else if (summoned && summoned()) {
        return {};
      } else {
        CAUSEWAY_TRY(wait_a_while(done, summoned ? look_around : duration::max()));
      }
    }
  }

  template <class Done>
  result<void> wait_a_while(Done&& done, duration most) {
    time_point begin;
    locked([&] { begin = fabric_->now(); });
    const auto something = [&] { return done() || this->news_ || mail_.any_done() || station_.next().has_value(); };
    CAUSEWAY_ASSIGN(const bool happened, fabric_->block(something, begin + std::min({options_.say_after, say_at_, most})));
    (void)happened;
    duration more{};
    locked([&] { more = fabric_->now() - begin; });
    waited_ += more;
    if (waited_ >= say_at_) {
      say_at_ = 2 * waited_;
      log_(severity::warning,
           "waiting since " + std::to_string(static_cast<std::int64_t>(seconds(waited_))) + " s: " + describe());
    }
    return {};
  }

  // ---- tensors --------------------------------------------------------------------------------------------------------

  // Takes in what has come, expects what was announced, sends what is due.
  void move_tensors() {
    std::vector<std::pair<net::peer_index, swarm_wire::parcel>> announced, sends;
    std::vector<boundary_bytes> contents;
    auto arrived = mail_.collect();
    locked([&] {
      this->news_ = false;
      for (auto& a : arrived) station_.arrive(a.what.micro_batch, a.what.backward != 0, std::move(a.bytes), a.what.pass);
      announced = this->take_parcels();
      for (const auto& s : station_.take_shipments()) {
        const auto link = table_.link_to(s.to);
        if (!link) continue;  // sent again when it is back
        const swarm_wire::parcel p{station_.turn(), s.micro_batch, s.backward ? std::uint8_t{1} : std::uint8_t{0},
                                   ++serial_, s.pass};
        fabric_->post(*link, swarm_wire::encode(this->run_, p));
        sends.emplace_back(*link, p);
        contents.push_back(s.bytes);
      }
    });
    for (const auto& [link, p] : announced) {
      if (p.micro_batch >= station_.done().size()) continue;
      mail_.expect(link, p, computer_->most_bytes(input(p.micro_batch, p.backward != 0)));
    }
    for (std::size_t i = 0; i < sends.size(); ++i) mail_.send(sends[i].first, sends[i].second, std::move(contents[i]));
  }

  [[nodiscard]] swarm_crossing input(std::uint32_t m, bool backward) const {
    return {m, backward ? options_.stage : stage_below(m), backward};
  }
  [[nodiscard]] swarm_crossing output(std::uint32_t m, bool backward) const {
    return {m, backward ? stage_below(m) : options_.stage, backward};
  }
  // The one before this that the micro-batch passes; 0 for stage 0.
  [[nodiscard]] std::uint32_t stage_below(std::uint32_t m) const {
    std::uint32_t s = options_.stage;
    while (s > 0 && !this->rule_.runs(this->size(), --s, m)) {
    }
    return s;
  }

  // ---- computing ------------------------------------------------------------------------------------------------------

  result<void> compute(const swarm_task& task) {
    if (!task.backward) computer_->forget(task.micro_batch);
    if (task.input) {
      const auto usable = computer_->take_in(input(task.micro_batch, task.backward), task.input);
      if (!usable) return refuse(task, usable.error());
    }
    time_point begin;
    locked([&] { begin = fabric_->now(); });
    if (task.backward) return compute_back(task, begin);
    CAUSEWAY_ASSIGN(auto out, computer_->forward(output(task.micro_batch, false)));
    locked([&] {
      forward_seconds_[task.micro_batch] = seconds(fabric_->now() - begin);
      station_.forwarded(task.micro_batch, std::move(out.bytes), task.pass);
      if (this->in_training()) return;
      station_.contributed(task.micro_batch, out.loss, nullptr, task.pass);
      this->tell_driver(swarm_wire::contributed{station_.turn(), task.micro_batch, 0, out.loss});
      this->settle();
    });
    return {};
  }

  result<void> compute_back(const swarm_task& task, time_point begin) {
    const std::uint32_t m = task.micro_batch;
    std::uint64_t forgotten = 0;
    bool adds = false;
    locked([&] {
      if (std::exchange(seen_forgotten_, this->times_forgotten_) != this->times_forgotten_) added_ = 0;
      forgotten = seen_forgotten_;
      adds = !this->has_sum() && station_.adds(m);
    });
    CAUSEWAY_ASSIGN(auto back, backward(m, adds));
    locked([&] {
      if (forgotten != this->times_forgotten_) return;  // others have been given it
      const double took = time_of(forward_seconds_[m] + seconds(fabric_->now() - begin));
      station_.contributed(m, back.loss, std::move(back.bytes), task.pass);
      this->tell_driver(swarm_wire::contributed{station_.turn(), m, took, back.loss});
      this->settle();
    });
    return {};
  }

  // The first one pays for memory and caches, and says nothing of those to come: 0.
  double time_of(double took) {
    if (!std::exchange(warm_, true)) return 0;
    this->seconds_ = this->seconds_ > 0 ? 0.7 * this->seconds_ + 0.3 * took : took;
    return took;
  }

  // What is computed again for a neighbour's sake adds to nothing.
  result<swarm_output> backward(std::uint32_t m, bool adds) {
    const auto g = computer_->gradients();
    if (adds && this->steps_alone() && added_++ == 0) {
      std::fill(g.begin(), g.end(), 0.0F);
      clobbered_ = this->closes_a_round();
    }
    if (adds) return computer_->backward(output(m, true));
    const std::vector<float> kept{g.begin(), g.end()};
    auto back = computer_->backward(output(m, true));
    std::copy(kept.begin(), kept.end(), g.begin());
    return back;
  }

  // Who sends what cannot be decoded is sent away, and the driver told. When it is back it sends what it kept again, unless
  // the driver has found another.
  result<void> refuse(const swarm_task& task, const error& why) {
    locked([&] {
      const net::peer_id from = station_.refuse(task.micro_batch, task.backward);
      log_(severity::warning, "peer " + std::to_string(from) + " is sent away: micro-batch " +
                                  std::to_string(task.micro_batch) + ": " + why.text());
      if (const auto link = table_.link_to(from)) fabric_->close(*link, why.message);
      this->tell_driver(swarm_wire::refusal{station_.turn(), task.micro_batch, from});
      this->settle();
    });
    return {};
  }

  // The micro-batches that pass this stage.
  [[nodiscard]] swarm_wire::batch_set wanted() const {
    swarm_wire::batch_set all{station_.done().size()};
    for (std::uint32_t m = 0; m < all.size(); ++m) {
      if (this->rule_.runs(this->size(), options_.stage, m)) all.add(m);
    }
    return all;
  }

  static constexpr duration look_around = std::chrono::milliseconds{100};

  swarm_mail mail_;
  swarm_computer* computer_ = nullptr;
  std::map<std::uint32_t, double> forward_seconds_;
  std::uint64_t serial_ = 0;
  std::uint64_t evaluated_step_ = 0;
  std::uint64_t evaluations_ = 0;  // before that step
  swarm_wire::stage_sum kept_;     // of this stage, which the others hear of next
  double norm_ = 0;
  swarm_wire::batch_set progress_;    // of the micro-batches since the last exchange: those that this peer has stepped on
  std::uint32_t added_ = 0;           // micro-batches in the gradients, since they were cleared
  std::uint64_t seen_forgotten_ = 0;  // how often those were forgotten, when they were last looked at
  bool clobbered_ = false;            // the gradients held what was to be exchanged
  bool open_ = false;
  bool warm_ = false;      // has computed a micro-batch to the end
  time_point again_from_;  // another attempt at the exchange
  duration waited_{0};
  duration say_at_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_PEER_HPP
