// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_SWARM_COORDINATOR_HPP
#define CAUSEWAY_PARALLEL_SWARM_SWARM_COORDINATOR_HPP

// Who coordinates a swarm: this peer itself, by a scheduler, or another that it follows. The part of swarm_peer.hpp that
// brings scheduler, micro-batches and directory together, without tensors and without waiting.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/net/deadline.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/parallel/swarm/early_orders.hpp>
#include <causeway/parallel/swarm/path_schedulers.hpp>
#include <causeway/parallel/swarm/peer_directory.hpp>
#include <causeway/parallel/swarm/swarm_balance.hpp>
#include <causeway/parallel/swarm/swarm_messages.hpp>
#include <causeway/parallel/swarm/swarm_options.hpp>
#include <causeway/parallel/swarm/swarm_table_sync.hpp>
#include <causeway/stage/routing.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// To be used with the fabric's lock held.
template <stage::routing::Router Router>
class swarm_coordinator : protected swarm_table_sync {
 protected:
  swarm_coordinator(std::shared_ptr<net::fabric> fabric, swarm_options options, Router router, log_sink log)
      : swarm_table_sync{std::move(fabric), std::move(options), std::move(log)},
        rule_{router},
        scheduler_{options_.stages, std::move(router), options_.window, options_.local_steps > 0},
        orders_{options_.most_micro_batches()},
        balance_{options_.stages, options_.rebalance_every, options_.hysteresis} {}
  ~swarm_coordinator() = default;

  // ---- a turn ----------------------------------------------------------------------------------------------------------

  /// `counted`: of the turn's micro-batches, those that this peer has stepped on already.
  /// The same turn again: what this peer had of it is lost.
  void begin(std::uint64_t turn, std::uint32_t micro_batches, swarm_wire::batch_set counted = {}) {
    const bool again = turn == micro_batches_.turn() && micro_batches_.done().size() > 0;
    if (again) leave_turn();
    micro_batches_.begin(turn, micro_batches, std::move(counted));
    queue_.begin_turn();
    gradients_.begin(swarm_wire::step_of(turn));
    begin_table_sync(swarm_wire::step_of(turn));
    serving_ = has_values_ && !move_to_ && (step() >= sound_from_ || !directory_.anybody_serves(options_.stage));
    looks_on_ = !serving_ && !move_to_;
    trainer_hangs_ = gives_up_ = declared_ = false;
    trainer_is_here(fabric_->now(), orders_.empty() ? duration{0} : fabric_->now() - seen_trainer_);
    const bool told = take_early_orders(turn) || (verdict_.turn == turn && !again);
    if (coordinates_ && micro_batches > 0) coordinate(std::exchange(asked_, true) && !closes_a_round());
    announce();
    if (closes_a_round() && !coordinates_) {
      send_report();
    } else if (!told) {
      ask_what_was_missed();
    }
    after_event();
  }

  /// What this peer has of the turn is worth nothing. The coordinator gives it to others; this peer is that no more.
  void leave_turn() {
    serving_ = false;
    looks_on_ = true;
    if (verdict_.turn == micro_batches_.turn()) verdict_.complete = 0;
    micro_batches_.forget();
    ++times_forgotten_;
    if (std::exchange(coordinates_, false)) followed_ = {};
    announce();
    after_event();
  }
  /// Who came to values that are not finite computes again with its next step; after each time more, within a hundred
  /// steps, it looks on for one step, three, seven ... 63, as long as others serve its stage.
  void count_offence() {
    if (step() > sound_from_ + 100) offences_ = 0;
    sound_from_ = step() + (std::uint64_t{1} << std::min(offences_++, 6U)) - 1;
  }

  /// Peers take steps on their own between exchanges.
  [[nodiscard]] bool steps_alone() const noexcept { return options_.local_steps > 0; }
  /// This turn is about all micro-batches of the local steps behind it, most of which are done.
  [[nodiscard]] bool closes_a_round() const {
    return steps_alone() && in_training() && !swarm_wire::is_local(micro_batches_.turn());
  }
  /// The local step that is this turn has all its micro-batches in all stages, as the coordinator says or has said: it is
  /// beyond then. What this peer has contributed counts if it heard so itself.
  [[nodiscard]] bool local_step_is_over() const {
    const std::uint64_t turn = micro_batches_.turn();
    return declared_ || directory_.beyond(followed_.id, turn) || (coordinates_ && directory_.anybody_beyond(turn));
  }
  [[nodiscard]] bool declared() const noexcept { return declared_; }
  /// Others are through with this round, or may be: what is missing can no longer be computed, and is not waited for.
  [[nodiscard]] bool released() const {
    const bool was_told = in_groups_ && directory_.remembers(options_.stage, step());  // of an attempt that was called off
    return closes_a_round() && (was_told || directory_.anybody_through(micro_batches_.turn()));
  }
  /// The coordinator took this peer for lost, and has given what is not in its parameters yet to others.
  void forget_what_was_given_away() {
    if (!steps_alone() || declared_ || has_sum()) return;
    micro_batches_.forget();
    ++times_forgotten_;
  }

  [[nodiscard]] stage::routing::step_size size() const { return {step(), micro_batches_.done().size(), options_.stages}; }

  /// All stages have all micro-batches; or others of this stage are beyond the step: the membership has their state; or
  /// other stages are, and this one has its sum from before a restart. With a tied table the last stage sums after the
  /// first.
  [[nodiscard]] bool may_enter() const {
    const std::uint64_t turn = micro_batches_.turn();
    return verdict_.turn > turn || (verdict_.turn == turn && verdict_.complete != 0 && may_sum()) ||
           directory_.anybody_beyond(options_.stage, turn) || released() ||
           (directory_.anybody_beyond(turn) && (has_sum() || directory_.has_sum(options_.stage, step())));
  }

  /// Of the evaluation that is this turn.
  [[nodiscard]] std::optional<double> evaluated() const {
    const auto at = evaluated_.find(micro_batches_.turn());
    return at == evaluated_.end() ? std::nullopt : std::optional{at->second};
  }
  [[nodiscard]] bool gives_up() const noexcept { return gives_up_; }

  // ---- coordinating ---------------------------------------------------------------------------------------------------

  // The first time, others may be inside the turn already.
  void coordinate(bool from_the_beginning) {
    std::set<net::peer_id> asked;
    for (const auto& [id, p] : directory_.peers()) {
      if (!directory_.serves(id)) continue;
      scheduler_.serves(id, *p.said, last_round_);
      if (p.said->seconds > 0) scheduler_.measured(id, p.said->seconds);
      if (!from_the_beginning) asked.insert(id);
    }
    scheduler_.serves(fabric_->id(), own_status(), last_round_);
    scheduler_.begin(term_, micro_batches_.turn(), size(), judges_ ? 0 : static_cast<std::uint32_t>(options_.micro_batches),
                     asked);
    for (const net::peer_id id : asked) post(id, swarm_wire::claim{term_});
    if (!from_the_beginning) scheduler_.take(fabric_->id(), micro_batches_.summary(term_));
    told_complete_ = false;
  }

  void claim_coordination() {
    term_ = directory_.term() + 1;
    directory_.term(term_);
    coordinates_ = true;
    asked_ = false;
    follow({fabric_->id(), term_});
    log_(severity::info, "coordinating the swarm, term " + std::to_string(term_));
    coordinate(false);
    announce();
  }

  void elect() {
    if (!serving_ && !looks_on_) return;
    auto d = directory_.coordinator(coordinates_ ? term_ : 0);
    if (coordinates_ && d.id != fabric_->id()) coordinates_ = false;
    const bool may_claim = serving_ && options_.stage == 0 && directory_.first_in_line() && fabric_->now() >= claims_from_;
    if (d.id == 0 && may_claim) return claim_coordination();
    if (d.id != 0 && (d.id != followed_.id || d.term != followed_.term)) follow(d);
  }

  void follow(peer_directory::coordinator_choice d) {
    followed_ = d;
    directory_.tell_delays_again();
    micro_batches_.drop_orders();
    orders_.drop_before(d.term);
    if (d.id != fabric_->id()) send_report();
  }

  void send_report() {
    if (followed_.id == 0) return;
    if (followed_.id == fabric_->id()) {
      scheduler_.take(fabric_->id(), micro_batches_.summary(term_));
      told_complete_ = false;
    } else {
      post(followed_.id, micro_batches_.summary(followed_.term));
    }
  }

  /// To the coordinator, also where that is this peer.
  template <class M>
  void tell_coordinator(const M& m) {
    if (coordinates_) {
      heard_by_coordinator(fabric_->id(), m);
    } else if (followed_.id != 0) {
      post(followed_.id, m);
    }
  }
  void heard_by_coordinator(net::peer_id from, const swarm_wire::contributed& c) { scheduler_.take(from, c); }
  void heard_by_coordinator(net::peer_id, const swarm_wire::refusal& r) {
    scheduler_.failed(r.from, r.turn, r.micro_batch);
  }
  void heard_by_coordinator(net::peer_id from, const swarm_wire::delays& all) {
    for (const auto& d : all.list) {
      const bool known = d.to == fabric_->id() || directory_.peers().contains(d.to);  // strangers fill no memory
      if (known) scheduler_.link(from, d.to, d.seconds);
    }
  }
  void heard_by_coordinator(net::peer_id from, const swarm_wire::report& r) {
    scheduler_.take(from, r);
    if (r.turn == micro_batches_.turn()) return post(from, judge());
    const auto known = evaluated_.find(r.turn);
    const bool is_known = known != evaluated_.end();
    if (r.turn < micro_batches_.turn() && !swarm_wire::trains(r.turn)) {
      post(from,
           swarm_wire::verdict{r.turn, is_known ? std::uint8_t{1} : std::uint8_t{0}, is_known ? known->second : 0.0, {}});
    }
  }

  /// After every event: who coordinates, what the coordinator wants, whether the turn is complete.
  void after_event() {
    elect();
    if (coordinates_) steer();
    ask_the_other_end();
    news_ = true;
    called_away_ = !may_enter();
  }

  void steer() {
    if (declared_ || micro_batches_.done().size() == 0) return;  // nothing more comes of this turn
    look_for_sums();
    for (addressed_order& o : scheduler_.take_orders()) {
      if (o.to == fabric_->id()) {
        accept(o.to, o.what);
      } else {
        post(o.to, std::move(o.what));
      }
    }
    const bool complete = scheduler_.complete();
    if (complete != std::exchange(told_complete_, complete)) tell_all(judge());
    const bool heard = verdict_.turn == micro_batches_.turn();
    if (heard ? (verdict_.complete != 0) != complete : complete) hear(judge());
  }

  void look_for_sums() {  // only when one of them has said something new
    const sums_seen now{directory_.changes(), micro_batches_.turn(), gradients_.version(), term_};
    if (!in_training() || std::exchange(sums_seen_, now) == now) return;
    for (std::uint32_t s = 0; s < options_.stages; ++s) {
      scheduler_.summed(s, directory_.has_sum(s, step()) || (s == options_.stage && has_sum()));
    }
  }

  [[nodiscard]] swarm_wire::verdict judge() const { return scheduler_.judge(micro_batches_.turn()); }

  // ---- following -------------------------------------------------------------------------------------------------------

  void accept(net::peer_id from, const swarm_wire::order& o) {
    const auto term = static_cast<std::uint32_t>(o.version >> 32U);
    if (term < followed_.term || (term == followed_.term && from > followed_.id) || !says_it_coordinates(from, term))
      return;
    if (o.turn > micro_batches_.turn() || !serving_) {
      if (o.path.size() == options_.stages) orders_.keep(from, o);
    } else if (takes_path_of(o)) {
      micro_batches_.take(o);
    }
  }
  [[nodiscard]] bool says_it_coordinates(net::peer_id who, std::uint32_t term) const {
    if (who == fabric_->id()) return true;
    const auto known = directory_.peers().find(who);
    if (known == directory_.peers().end() || !known->second.said) return false;
    return known->second.said->coordinates != 0 && known->second.said->term == term;
  }

  /// Whether there were any of this turn; those of a peer that does not serve are for somebody who stays.
  bool take_early_orders(std::uint64_t turn) {
    const auto early = orders_.take(turn);
    for (const auto& [from, o] : early) {
      if (serving_) accept(from, o);
    }
    return !early.empty();
  }

  // ---- the trainer -----------------------------------------------------------------------------------------------------

  /// It has looked, and what it was busy with took so long.
  void trainer_is_here(time_point now, duration took = {}) {
    if (took > duration{0}) trainer_times_.observe(took);
    seen_trainer_ = now;
    if (!std::exchange(trainer_hangs_, false)) return;
    looks_on_ = false;
    serving_ = !move_to_;
    log_(severity::info, "this peer's trainer goes on");
    forget_what_was_given_away();
    announce();
    elect();
    send_report();
  }
  /// A trainer that hangs while work waits for it holds up everybody, and this thread's heartbeats hide it. So it is told
  /// here, where the evidence is: others get its work until it moves again.
  void look_after_the_trainer(time_point now) {
    const bool was_stopped = now - std::exchange(looked_at_, now) > 3 * options_.heartbeat;  // this whole process
    if (was_stopped || (orders_.empty() && !micro_batches_.next())) seen_trainer_ = now;     // or nothing waits for it
    const duration since = now - seen_trainer_;
    if (!serving_ || since <= std::max(trainer_times_.patience(), options_.silence)) return;
    trainer_hangs_ = true;
    serving_ = false;
    looks_on_ = true;
    if (std::exchange(coordinates_, false)) followed_ = {};
    log_(severity::warning, "this peer's trainer has done nothing for " +
                                std::to_string(static_cast<std::int64_t>(seconds(since))) +
                                " s, though work waits for it: others get that until it goes on");
    announce();
    after_event();
  }

  /// The coordinator's word. What an evaluation came to is kept for those who come late.
  void hear(const swarm_wire::verdict& v) {
    const bool evaluation = !swarm_wire::trains(v.turn);
    if (evaluation && v.complete != 0) evaluated_[v.turn] = v.loss;
    while (evaluated_.size() > most_kept_losses) evaluated_.erase(evaluated_.begin());
    if (evaluation && v.complete == 0 && v.turn == micro_batches_.turn())
      gives_up_ = directory_.beyond(followed_.id, v.turn);
    if (v.turn >= verdict_.turn) verdict_ = v;
    if (steps_alone() && swarm_wire::is_local(v.turn) && v.turn == micro_batches_.turn() && v.complete != 0) {
      declared_ = true;
      loss_ = v.loss;
    }
  }

  /// Who comes late to a turn may have missed orders, and how it ended: the coordinator knows.
  void ask_what_was_missed() {
    if (!coordinates_ && directory_.reached(followed_.id, micro_batches_.turn())) send_report();
  }

  /// The others are through with an evaluation, and this peer does not know what came out.
  void ask_for_the_loss() {
    if (in_training() || evaluated() || !directory_.anybody_beyond(micro_batches_.turn())) return;
    gives_up_ = gives_up_ || coordinates_;
    if (directory_.beyond(followed_.id, micro_batches_.turn())) ask_what_was_missed();
  }

  /// Queues are looked at with every heartbeat, and compared when it is time.
  void balance(time_point now) {
    std::vector<serving_peer> others;
    for (const auto& [id, p] : directory_.peers()) {
      if (directory_.serves(id)) others.push_back({id, p.said->stage, p.said->seconds, p.said->queued});
    }
    const auto move = balance_.look(now, others, {fabric_->id(), options_.stage, seconds_, queue_.mean()});
    if (!move) return;
    if (!move->again) {
      log_(severity::info, "peer " + std::to_string(move->who) + " is to serve stage " + std::to_string(move->to));
    }
    post(move->who, swarm_wire::move_request{term_, move->to});
  }

  [[nodiscard]] std::string describe_coordination() const {
    const std::string text = describe_swarm() + describe_table_sync();
    if (!coordinates_) return text + "\n";
    return text + "; coordinating, " + std::to_string(scheduler_.finished()) + " of " +
           std::to_string(micro_batches_.done().size()) + " micro-batches are through\n";
  }

  using sums_seen = std::array<std::uint64_t, 4>;  // changes, turn, version, term

  static constexpr std::size_t most_kept_losses = 4096;

  Router rule_;  // for runs() alone
  path_schedulers<Router> scheduler_;
  early_orders orders_;
  std::map<std::uint64_t, double> evaluated_;  // by turn: summed losses
  stage_balance balance_;
  swarm_wire::verdict verdict_;
  std::optional<std::uint32_t> move_to_;
  time_point claims_from_;  // before, others that coordinate already are listened for
  std::uint32_t term_ = 0;
  bool asked_ = false;  // every peer's report on the turn at which its coordinating began
  bool told_complete_ = false;
  bool gives_up_ = false;  // nobody knows what this evaluation came to
  bool declared_ = false;  // this local step is over, and what this peer contributed counts
  double loss_ = 0;        // of that step
  std::uint64_t times_forgotten_ = 0;
  std::uint64_t sound_from_ = 0;  // the step from which this peer computes again
  std::uint32_t offences_ = 0;    // times that it came to values that are not finite
  sums_seen sums_seen_{};
  net::arrival_statistics trainer_times_;  // of what the trainer computes at a stretch
  time_point seen_trainer_, looked_at_;
  bool trainer_hangs_ = false;
  bool looks_on_ = false;  // it does not serve, and follows the coordinator all the same
  bool news_ = false;
  std::atomic<bool> called_away_ = false;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_SWARM_COORDINATOR_HPP
