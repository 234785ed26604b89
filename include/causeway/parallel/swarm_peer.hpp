// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_PEER_HPP
#define CAUSEWAY_PARALLEL_SWARM_PEER_HPP

// A peer of a swarm on its network: hands messages to the station and, where it drives, to the driver, moves tensors, and
// is the part that waits. What is decided is in swarm_station.hpp, swarm_driver.hpp, swarm_table.hpp and swarm_shares.hpp.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/parallel/swarm_balance.hpp>
#include <causeway/parallel/swarm_driver.hpp>
#include <causeway/parallel/swarm_mail.hpp>
#include <causeway/parallel/swarm_messages.hpp>
#include <causeway/parallel/swarm_options.hpp>
#include <causeway/parallel/swarm_shares.hpp>
#include <causeway/parallel/swarm_station.hpp>
#include <causeway/parallel/swarm_table.hpp>
#include <causeway/parallel/swarm_talk.hpp>
#include <causeway/stage/routing.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::parallel {

/// Threading: functions of swarm_round from the trainer's thread; `describe` from any.
template <stage::routing::Router Router>
class swarm_peer final : public swarm_round, private net::fabric_events, private swarm_talk {
 public:
  swarm_peer(std::shared_ptr<net::fabric> fabric, swarm_options options, Router router, log_sink log = {})
      : swarm_talk{std::move(fabric), std::move(options), std::move(log)},
        rule_{router},
        driver_{options_.stages, std::move(router), options_.window},
        mail_{*fabric_},
        say_at_{options_.say_after} {}
  ~swarm_peer() override { fabric_->attach(nullptr); }

  [[nodiscard]] const swarm_options& options() const noexcept override { return options_; }

  void open() override {
    if (std::exchange(open_, true)) return;
    fabric_->attach(this);
    locked([this] {
      claims_from_ = fabric_->now() + options_.heartbeat;
      heartbeat();
    });
  }

  // ---- a step --------------------------------------------------------------------------------------------------------

  result<double> run(std::uint64_t step, swarm_computer& computer) override {
    computer_ = &computer;
    mail_.clear();
    locked([&] { begin(step); });
    CAUSEWAY_TRY(work_until([this] { return may_enter(); }));
    return verdict_.step == step ? verdict_.loss : 0.0;
  }

  result<void> complete(const std::function<bool()>& summoned) override {
    gradients_.restore(computer_->gradients());
    const auto rested = [this] { return fabric_->now() >= again_from_; };
    const auto called = [&] {
      bool ready = false;
      locked([&] { ready = rested(); });
      return ready && summoned();
    };
    return work_until([&] { return may_enter() && rested(); }, called);
  }

  [[nodiscard]] bool called_away() const noexcept override { return called_away_; }

  [[nodiscard]] swarm_holding holding() override {
    swarm_holding h;
    locked([&] { h = {station_.step(), has_sum(), station_.done()}; });
    return h;
  }

  result<void> take_part(std::span<const swarm_holding> all, std::size_t self) override {
    const swarm_plan plan = plan_shares(all, station_.step(), wanted());
    if (plan.parts[self] == swarm_part::dropped) {
      log_(severity::warning, "some of this peer's micro-batches are in another peer's gradient too; it computes anew");
      std::fill(computer_->gradients().begin(), computer_->gradients().end(), 0.0F);
      locked([this] { station_.drop_contributions(); });
    }
    if (!plan.complete) {
      locked([this] {
        verdict_.complete = 0;
        again_from_ = fabric_->now() + look_around;  // who has the rest may be on its way
        send_report();
        settle();
      });
      return fail(errc::cancelled, "stage " + std::to_string(options_.stage),
                  "micro-batches are missing; they are computed first");
    }
    gradients_.put_in(plan.parts[self], computer_->gradients());
    return {};
  }

  result<double> all_summed() override {
    const std::uint64_t step = station_.step();
    const double own = computer_->squares();
    if (!std::isfinite(own)) {
      return fail(errc::non_finite, "stage " + std::to_string(options_.stage), "the gradient is not finite");
    }
    gradients_.keep_sum(step, computer_->gradients());
    locked([&] {
      table_.remember(options_.stage, {step, own});
      if (own_sums_[0].step != step) own_sums_[1] = own_sums_[0];
      own_sums_[0] = {step, own};
      announce();
      settle();
    });
    CAUSEWAY_TRY(work_until([&] { return table_.squares(step).has_value() || table_.left_behind(step); }));
    std::optional<double> all;
    locked([&] { all = table_.squares(step); });
    if (!all) return fail(errc::cancelled, "swarm", "the others are steps ahead; taking their state over");
    return *all;
  }

  void agreed(double squares) override { norm_ = std::sqrt(squares); }
  [[nodiscard]] float norm() const override { return static_cast<float>(norm_); }

  [[nodiscard]] std::uint64_t contributed() override {
    std::uint64_t n = 0;
    locked([&] { n = station_.done().count(); });
    return n;
  }

  [[nodiscard]] std::optional<std::uint32_t> asked_to_move() override {
    std::optional<std::uint32_t> to;
    locked([&] { to = move_to_; });
    return to;
  }

  /// Whom this peer waits for, and who drives. From any thread.
  [[nodiscard]] std::string describe() override {
    std::string text;
    locked([&] { text = describe_locked(); });
    return text + fabric_->describe_waits();
  }

  /// Micro-batches that this peer, as driver, had to route again.
  [[nodiscard]] std::uint64_t rerouted() {
    std::uint64_t n = 0;
    locked([&] { n = driver_.rerouted(); });
    return n;
  }
  [[nodiscard]] bool drives() const noexcept { return drives_; }

 private:
  template <class F>
  void locked(F&& what) {
    fabric_->locked(std::forward<F>(what));
  }

  // ---- the trainer's thread --------------------------------------------------------------------------------------------

  template <class Done>
  result<void> work_until(Done&& done, const std::function<bool()>& summoned = {}) {
    waited_ = duration{0};
    say_at_ = options_.say_after;
    for (;;) {
      move_tensors();
      std::optional<swarm_task> task;
      bool over = false;
      locked([&] {
        task = station_.next();
        over = done();
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
    const auto something = [&] { return done() || news_ || mail_.any_done() || station_.next().has_value(); };
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

  // Starts what was announced, takes in what has come, sends what is due.
  void move_tensors() {
    struct incoming {
      net::peer_index link;
      swarm_wire::parcel what;
    };
    std::vector<incoming> announced;
    std::vector<std::pair<net::peer_index, swarm_wire::parcel>> sends;
    std::vector<boundary_values> values;
    auto arrived = mail_.collect();
    locked([&] {
      news_ = false;
      for (auto& a : arrived) station_.arrive(a.micro_batch, a.backward, std::move(a.values));
      std::erase_if(parcels_, [&](const auto& p) {
        if (p.second.step > station_.step()) return false;
        if (p.second.step == station_.step()) announced.push_back({p.first, p.second});
        return true;
      });
      for (const auto& s : station_.take_shipments()) {
        const auto link = table_.link_to(s.to);
        if (!link) continue;  // sent again when it is back
        const swarm_wire::parcel p{station_.step(), s.micro_batch, s.backward ? std::uint8_t{1} : std::uint8_t{0},
                                   ++serial_};
        fabric_->post(*link, swarm_wire::encode(options_.run, p));
        sends.emplace_back(*link, p);
        values.push_back(s.values);
      }
    });
    for (const auto& a : announced) mail_.expect(a.link, a.what, computer_->boundary());
    for (std::size_t i = 0; i < sends.size(); ++i) mail_.send(sends[i].first, sends[i].second, std::move(values[i]));
  }

  result<void> compute(const swarm_task& task) {
    time_point begin, end;
    locked([&] { begin = fabric_->now(); });
    if (!task.backward) {
      CAUSEWAY_ASSIGN(auto output, computer_->forward(task.micro_batch, task.input));
      locked([&] {
        end = fabric_->now();
        forward_seconds_[task.micro_batch] = seconds(end - begin);
        station_.forwarded(task.micro_batch, std::move(output));
      });
      return {};
    }
    CAUSEWAY_ASSIGN(auto back, backward(task));
    locked([&] {
      end = fabric_->now();
      const double took = forward_seconds_[task.micro_batch] + seconds(end - begin);
      seconds_ = seconds_ > 0 ? 0.7 * seconds_ + 0.3 * took : took;
      station_.contributed(task.micro_batch, back.loss, std::move(back.d_input));
      tell_contributed({station_.step(), task.micro_batch, took, back.loss});
      settle();
    });
    return {};
  }

  // What is computed again for a neighbour's sake, after the stage has its sum, adds to nothing.
  result<swarm_gradient> backward(const swarm_task& task) {
    if (!has_sum()) return computer_->backward(task.micro_batch, task.input);
    const auto g = computer_->gradients();
    const std::vector<float> kept{g.begin(), g.end()};
    auto back = computer_->backward(task.micro_batch, task.input);
    std::copy(kept.begin(), kept.end(), g.begin());
    return back;
  }

  // ---- the gradient ----------------------------------------------------------------------------------------------------

  [[nodiscard]] bool has_sum() const noexcept { return gradients_.has_sum(station_.step()); }

  [[nodiscard]] stage::routing::step_size size() const {
    return {station_.step(), static_cast<std::uint32_t>(options_.micro_batches), options_.stages};
  }
  // The micro-batches that pass this stage.
  [[nodiscard]] swarm_wire::batch_set wanted() const {
    swarm_wire::batch_set all{static_cast<std::uint32_t>(options_.micro_batches)};
    for (std::uint32_t m = 0; m < all.size(); ++m) {
      if (rule_.runs(size(), options_.stage, m)) all.add(m);
    }
    return all;
  }

  // All stages have all micro-batches, or others of this stage are beyond the step: the membership has their state.
  [[nodiscard]] bool may_enter() const {
    const std::uint64_t step = station_.step();
    return verdict_.step > step || (verdict_.step == step && verdict_.complete != 0) ||
           table_.anybody_beyond(options_.stage, step);
  }

  // ---- with the lock held: a step begins -------------------------------------------------------------------------------

  void begin(std::uint64_t step) {
    fabric_->cancel_before(static_cast<std::uint32_t>(step) + 1);
    station_.begin(step, static_cast<std::uint32_t>(options_.micro_batches));
    forward_seconds_.clear();
    gradients_.begin(step);
    serving_ = !move_to_;
    std::erase_if(orders_, [&](const auto& o) {
      if (o.second.step == step) accept(o.first, o.second);
      return o.second.step <= step;
    });
    if (drives_) drive(std::exchange(asked_, true));
    announce();
    settle();
  }

  // ---- driving ---------------------------------------------------------------------------------------------------------

  // The first time, others may be inside the step already.
  void drive(bool from_the_beginning) {
    std::set<net::peer_id> asked;
    for (const auto& [id, p] : table_.peers()) {
      if (!table_.serves(id)) continue;
      driver_.serves(id, p.said->stage);
      if (p.said->seconds > 0) driver_.known().measured(id, p.said->seconds);
      if (!from_the_beginning) asked.insert(id);
    }
    driver_.serves(fabric_->id(), options_.stage);
    driver_.begin(term_, size(), asked);
    for (const net::peer_id id : asked) post(id, swarm_wire::claim{term_});
    if (!from_the_beginning) driver_.take(fabric_->id(), station_.summary(term_));
    told_complete_ = false;
  }

  void claim_driving() {
    term_ = table_.term() + 1;
    table_.term(term_);
    drives_ = true;
    asked_ = false;
    follow({fabric_->id(), term_});
    log_(severity::info, "driving the swarm, term " + std::to_string(term_));
    drive(false);
    announce();
  }

  void elect() {
    if (!serving_) return;
    auto d = table_.driver(drives_ ? term_ : 0);
    if (drives_ && d.id != fabric_->id()) drives_ = false;
    const bool may_claim = options_.stage == 0 && table_.first_in_line() && fabric_->now() >= claims_from_;
    if (d.id == 0 && may_claim) return claim_driving();
    if (d.id != 0 && (d.id != followed_.id || d.term != followed_.term)) follow(d);
  }

  void follow(swarm_table::driver_choice d) {
    followed_ = d;
    station_.drop_orders();
    std::erase_if(orders_, [&](const auto& o) { return o.second.version >> 32U < d.term; });
    if (d.id != fabric_->id()) send_report();
  }

  void send_report() {
    if (followed_.id == 0) return;
    if (followed_.id == fabric_->id()) {
      driver_.take(fabric_->id(), station_.summary(term_));
      told_complete_ = false;
    } else {
      post(followed_.id, station_.summary(followed_.term));
    }
  }

  void tell_contributed(const swarm_wire::contributed& c) {
    if (drives_) {
      driver_.take(fabric_->id(), c);
    } else if (followed_.id != 0) {
      post(followed_.id, c);
    }
  }

  // After every event: who drives, what the driver wants, whether the step is complete.
  void settle() {
    elect();
    if (drives_) {
      for (std::uint32_t s = 0; s < options_.stages; ++s) {
        driver_.summed(s, table_.has_sum(s, station_.step()) || (s == options_.stage && has_sum()));
      }
      for (addressed_order& o : driver_.take_orders()) {
        if (o.to == fabric_->id()) {
          accept(o.to, o.what);
        } else {
          post(o.to, std::move(o.what));
        }
      }
      const bool complete = driver_.complete();
      if (complete != std::exchange(told_complete_, complete)) tell_all(judge());
      if (complete || verdict_.step == station_.step()) verdict_ = judge();
    }
    news_ = true;
    called_away_ = !may_enter();
  }

  [[nodiscard]] swarm_wire::verdict judge() const {
    return {station_.step(), driver_.complete() ? std::uint8_t{1} : std::uint8_t{0}, driver_.loss()};
  }

  void accept(net::peer_id from, const swarm_wire::order& o) {
    const auto term = static_cast<std::uint32_t>(o.version >> 32U);
    if (term < followed_.term || (term == followed_.term && from > followed_.id)) return;
    if (o.step > station_.step() || !serving_) {
      if (orders_.size() < most_early_orders) orders_.emplace_back(from, o);
    } else {
      station_.take(o);
    }
  }

  // Queues are looked at with every heartbeat, and compared when it is time.
  void balance(time_point now) {
    const net::peer_id self = fabric_->id();
    for (const auto& [id, p] : table_.peers()) {
      if (table_.serves(id)) queues_.saw(id, p.said->queued);
    }
    queues_.saw(self, station_.queued());
    queues_.looked();
    if (!queues_.due(now, options_.rebalance_every)) return;
    std::vector<std::vector<balanced_peer>> stages(options_.stages);
    for (const auto& [id, p] : table_.peers()) {
      if (table_.serves(id)) stages[p.said->stage].push_back({id, p.said->seconds, queues_.mean(id), true});
    }
    stages[options_.stage].push_back({self, seconds_, queues_.mean(self), false});
    queues_.clear();
    const auto move = choose_move(stages, options_.hysteresis);
    if (!move) return;
    log_(severity::info, "peer " + std::to_string(move->who) + " is to serve stage " + std::to_string(move->to));
    post(move->who, swarm_wire::move_request{term_, move->to});
  }

  // ---- net::fabric_events
  // ------------------------------------------------------------------------------------------------

  void on_up(net::peer_index link, net::peer_id id, const std::string& address) override {
    table_.up(id, link, address, fabric_->now());
    greet(id, address);
    station_.connected(id);
    settle();
  }

  void on_down(net::peer_index link, const error& why) override {
    const net::peer_id id = table_.at(link);
    log_(severity::debug, "peer " + std::to_string(id) + " is down: " + why.message);
    table_.down(id);
    std::erase_if(parcels_, [link](const auto& p) { return p.first == link; });
    driver_.gone(id);
    settle();
  }

  void on_unreachable(const std::string&, const error&) override {}

  void on_control(net::peer_index link, std::span<const std::byte> bytes) override {
    const net::peer_id from = table_.at(link);
    auto m = swarm_wire::decode(options_.run, bytes);
    if (!m) {
      log_(severity::warning, "peer " + std::to_string(from) + " is sent away: " + m.error().text());
      return fabric_->close(link, m.error().message);
    }
    table_.peers()[from].heard = fabric_->now();
    std::visit([&](auto& what) { take(link, from, what); }, *m);
    settle();
  }

  void on_wake() override {
    heartbeat();
    settle();
  }

  void heartbeat() {
    const time_point now = fabric_->now();
    announce();
    look_around_for_peers(now);
    if (drives_) balance(now);
    fabric_->wake_at(now + options_.heartbeat);
  }

  // ---- messages --------------------------------------------------------------------------------------------------------

  void take(net::peer_index, net::peer_id from, const swarm_wire::status& s) {
    if (s.stage >= options_.stages) return;
    table_.take(from, s, fabric_->now());
    if (!drives_) return;
    if (s.serving != 0) {
      driver_.serves(from, s.stage);
    } else {
      driver_.gone(from);
    }
  }
  void take(net::peer_index, net::peer_id from, const swarm_wire::claim& c) {
    auto& said = table_.peers()[from].said;
    if (!said) return;
    said->drives = 1;
    said->term = c.term;
    table_.term(c.term);
    const auto before = followed_;
    elect();
    if (followed_.id == from && before.id == from && before.term == c.term) send_report();
  }
  void take(net::peer_index, net::peer_id from, const swarm_wire::report& r) {
    if (!drives_) return;
    driver_.take(from, r);
    if (r.step == station_.step()) post(from, judge());
  }
  void take(net::peer_index, net::peer_id from, const swarm_wire::order& o) { accept(from, o); }
  void take(net::peer_index link, net::peer_id, const swarm_wire::parcel& p) {
    if (p.step >= station_.step() && parcels_.size() < most_early_orders) parcels_.emplace_back(link, p);
  }
  void take(net::peer_index, net::peer_id from, const swarm_wire::contributed& c) {
    if (drives_) driver_.take(from, c);
  }
  void take(net::peer_index, net::peer_id from, const swarm_wire::verdict& v) {
    if (from == followed_.id && v.step >= verdict_.step) verdict_ = v;
  }
  void take(net::peer_index, net::peer_id, const swarm_wire::addresses& a) { learn(a); }
  void take(net::peer_index, net::peer_id from, const swarm_wire::move_request& m) {
    if (from == followed_.id && m.stage < options_.stages && m.stage != options_.stage) move_to_ = m.stage;
  }

  [[nodiscard]] std::string describe_locked() const {
    if (!drives_) return describe_swarm() + "\n";
    return describe_swarm() + "; driving, " + std::to_string(driver_.finished()) + " of " +
           std::to_string(options_.micro_batches) + " micro-batches are through\n";
  }

  static constexpr duration look_around = std::chrono::milliseconds{100};
  static constexpr std::size_t most_early_orders = std::size_t{1} << 20U;

  Router rule_;  // for runs() alone
  swarm_driver<Router> driver_;
  swarm_mail mail_;
  swarm_computer* computer_ = nullptr;

  std::vector<std::pair<net::peer_id, swarm_wire::order>> orders_;       // of steps to come
  std::vector<std::pair<net::peer_index, swarm_wire::parcel>> parcels_;  // whose data is not expected yet
  std::map<std::uint32_t, double> forward_seconds_;
  queue_watch queues_;
  swarm_wire::verdict verdict_;
  std::optional<std::uint32_t> move_to_;
  swarm_gradients gradients_;
  std::uint64_t serial_ = 0;
  std::uint32_t term_ = 0;
  double norm_ = 0;
  bool open_ = false;
  bool asked_ = false;  // every peer's report on the step at which the driving began
  bool told_complete_ = false;
  bool news_ = false;
  std::atomic<bool> called_away_ = false;
  time_point again_from_;   // another attempt at the exchange
  time_point claims_from_;  // before, others that drive already are listened for
  duration waited_{0};
  duration say_at_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_PEER_HPP
