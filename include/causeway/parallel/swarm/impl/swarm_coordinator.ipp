// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_COORDINATOR_IPP
#define CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_COORDINATOR_IPP

#include <causeway/parallel/swarm/swarm_coordinator.hpp>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL swarm_coordinator::swarm_coordinator(swarm_state& my, swarm_messenger& messenger, swarm_table_sync& table,
                                                   stage::routing::any_router router)
    : my_{my},
      messenger_{messenger},
      table_{table},
      rule_{router},
      scheduler_{my.options.stages, std::move(router), my.options.window, my.options.local_steps > 0},
      orders_{my.options.most_micro_batches()},
      balance_{my.options.stages, my.options.rebalance_every, my.options.hysteresis} {}

CAUSEWAY_DECL void swarm_coordinator::begin(std::uint64_t turn, std::uint32_t micro_batches,
                                            swarm_wire::batch_set counted) {
  const bool again = turn == my_.micro_batches.turn() && my_.micro_batches.done().size() > 0;
  if (again) leave_turn();
  my_.micro_batches.begin(turn, micro_batches, std::move(counted));
  my_.queue.begin_turn();
  my_.gradients.begin(swarm_wire::step_of(turn));
  table_.begin(swarm_wire::step_of(turn));
  my_.serving =
      my_.has_values && !move_to_ && (my_.step() >= sound_from_ || !my_.directory.anybody_serves(my_.options.stage));
  looks_on_ = !my_.serving && !move_to_;
  trainer_hangs_ = gives_up_ = declared_ = false;
  trainer_is_here(my_.fabric->now(), orders_.empty() ? duration{0} : my_.fabric->now() - seen_trainer_);
  const bool told = take_early_orders(turn) || (verdict_.turn == turn && !again);
  if (my_.coordinates && micro_batches > 0) coordinate(std::exchange(asked_, true) && !my_.closes_a_round());
  messenger_.announce();
  if (my_.closes_a_round() && !my_.coordinates) {
    send_report();
  } else if (!told) {
    ask_what_was_missed();
  }
  after_event();
}

CAUSEWAY_DECL void swarm_coordinator::leave_turn() {
  my_.serving = false;
  looks_on_ = true;
  if (verdict_.turn == my_.micro_batches.turn()) verdict_.complete = 0;
  my_.micro_batches.forget();
  ++times_forgotten_;
  if (std::exchange(my_.coordinates, false)) my_.followed = {};
  messenger_.announce();
  after_event();
}

CAUSEWAY_DECL void swarm_coordinator::count_offence() {
  if (my_.step() > sound_from_ + 100) offences_ = 0;
  sound_from_ = my_.step() + (std::uint64_t{1} << std::min(offences_++, 6U)) - 1;
}

CAUSEWAY_DECL bool swarm_coordinator::local_step_is_over() const {
  const std::uint64_t turn = my_.micro_batches.turn();
  return declared_ || my_.directory.beyond(my_.followed.id, turn) ||
         (my_.coordinates && my_.directory.anybody_beyond(turn));
}

CAUSEWAY_DECL bool swarm_coordinator::released() const {
  const bool was_told =
      my_.in_groups && my_.directory.remembers(my_.options.stage, my_.step());  // of an attempt that was called off
  return my_.closes_a_round() && (was_told || my_.directory.anybody_through(my_.micro_batches.turn()));
}

CAUSEWAY_DECL void swarm_coordinator::forget_what_was_given_away() {
  if (!my_.steps_alone() || declared_ || my_.has_sum()) return;
  my_.micro_batches.forget();
  ++times_forgotten_;
}

CAUSEWAY_DECL bool swarm_coordinator::may_enter() const {
  const std::uint64_t turn = my_.micro_batches.turn();
  return verdict_.turn > turn || (verdict_.turn == turn && verdict_.complete != 0 && table_.may_sum()) ||
         my_.directory.anybody_beyond(my_.options.stage, turn) || released() ||
         (my_.directory.anybody_beyond(turn) && (my_.has_sum() || my_.directory.has_sum(my_.options.stage, my_.step())));
}

CAUSEWAY_DECL std::optional<double> swarm_coordinator::evaluated() const {
  const auto at = evaluated_.find(my_.micro_batches.turn());
  return at == evaluated_.end() ? std::nullopt : std::optional{at->second};
}

CAUSEWAY_DECL void swarm_coordinator::coordinate(bool from_the_beginning) {
  std::set<net::peer_id> asked;
  for (const auto& [id, p] : my_.directory.peers()) {
    if (!my_.directory.serves(id)) continue;
    scheduler_.serves(id, *p.said, my_.last_round);
    if (p.said->seconds > 0) scheduler_.measured(id, p.said->seconds);
    if (!from_the_beginning) asked.insert(id);
  }
  scheduler_.serves(my_.fabric->id(), my_.status(), my_.last_round);
  scheduler_.begin(term_, my_.micro_batches.turn(), my_.size(),
                   my_.judges ? 0 : static_cast<std::uint32_t>(my_.options.micro_batches), asked);
  for (const net::peer_id id : asked) messenger_.post(id, swarm_wire::claim{term_});
  if (!from_the_beginning) scheduler_.take(my_.fabric->id(), my_.micro_batches.summary(term_));
  told_complete_ = false;
}

CAUSEWAY_DECL void swarm_coordinator::claim_coordination() {
  term_ = my_.directory.term() + 1;
  my_.directory.term(term_);
  my_.coordinates = true;
  asked_ = false;
  follow({my_.fabric->id(), term_});
  my_.log(severity::info, "coordinating the swarm, term " + std::to_string(term_));
  coordinate(false);
  messenger_.announce();
}

CAUSEWAY_DECL void swarm_coordinator::elect() {
  if (!my_.serving && !looks_on_) return;
  auto d = my_.directory.coordinator(my_.coordinates ? term_ : 0);
  if (my_.coordinates && d.id != my_.fabric->id()) my_.coordinates = false;
  const bool may_claim =
      my_.serving && my_.options.stage == 0 && my_.directory.first_in_line() && my_.fabric->now() >= claims_from_;
  if (d.id == 0 && may_claim) return claim_coordination();
  if (d.id != 0 && (d.id != my_.followed.id || d.term != my_.followed.term)) follow(d);
}

CAUSEWAY_DECL void swarm_coordinator::follow(peer_directory::coordinator_choice d) {
  my_.followed = d;
  my_.directory.tell_delays_again();
  my_.micro_batches.drop_orders();
  orders_.drop_before(d.term);
  if (d.id != my_.fabric->id()) send_report();
}

CAUSEWAY_DECL void swarm_coordinator::send_report() {
  if (my_.followed.id == 0) return;
  if (my_.followed.id == my_.fabric->id()) {
    scheduler_.take(my_.fabric->id(), my_.micro_batches.summary(term_));
    told_complete_ = false;
  } else {
    messenger_.post(my_.followed.id, my_.micro_batches.summary(my_.followed.term));
  }
}

CAUSEWAY_DECL void swarm_coordinator::heard_by_coordinator(net::peer_id, const swarm_wire::refusal& r) {
  scheduler_.failed(r.from, r.turn, r.micro_batch);
}

CAUSEWAY_DECL void swarm_coordinator::heard_by_coordinator(net::peer_id from, const swarm_wire::delays& all) {
  for (const auto& d : all.list) {
    const bool known = d.to == my_.fabric->id() || my_.directory.peers().contains(d.to);  // strangers fill no memory
    if (known) scheduler_.link(from, d.to, d.seconds);
  }
}

CAUSEWAY_DECL void swarm_coordinator::heard_by_coordinator(net::peer_id from, const swarm_wire::report& r) {
  scheduler_.take(from, r);
  if (r.turn == my_.micro_batches.turn()) return messenger_.post(from, judge());
  const auto known = evaluated_.find(r.turn);
  const bool is_known = known != evaluated_.end();
  if (r.turn < my_.micro_batches.turn() && !swarm_wire::trains(r.turn)) {
    messenger_.post(from, swarm_wire::verdict{
                              r.turn, is_known ? std::uint8_t{1} : std::uint8_t{0}, is_known ? known->second : 0.0, {}});
  }
}

CAUSEWAY_DECL void swarm_coordinator::after_event() {
  elect();
  if (my_.coordinates) steer();
  table_.ask_the_other_end();
  news_ = true;
  called_away_ = !may_enter();
}

CAUSEWAY_DECL void swarm_coordinator::steer() {
  if (declared_ || my_.micro_batches.done().size() == 0) return;  // nothing more comes of this turn
  look_for_sums();
  for (addressed_order& o : scheduler_.take_orders()) {
    if (o.to == my_.fabric->id()) {
      accept(o.to, o.what);
    } else {
      messenger_.post(o.to, std::move(o.what));
    }
  }
  const bool complete = scheduler_.complete();
  if (complete != std::exchange(told_complete_, complete)) messenger_.tell_all(judge());
  const bool heard = verdict_.turn == my_.micro_batches.turn();
  if (heard ? (verdict_.complete != 0) != complete : complete) hear(judge());
}

CAUSEWAY_DECL void swarm_coordinator::look_for_sums() {
  const sums_seen now{my_.directory.changes(), my_.micro_batches.turn(), my_.gradients.version(), term_};
  if (!my_.in_training() || std::exchange(sums_seen_, now) == now) return;
  for (std::uint32_t s = 0; s < my_.options.stages; ++s) {
    scheduler_.summed(s, my_.directory.has_sum(s, my_.step()) || (s == my_.options.stage && my_.has_sum()));
  }
}

CAUSEWAY_DECL void swarm_coordinator::accept(net::peer_id from, const swarm_wire::order& o) {
  const auto term = static_cast<std::uint32_t>(o.version >> 32U);
  if (term < my_.followed.term || (term == my_.followed.term && from > my_.followed.id) || !says_it_coordinates(from, term))
    return;
  if (o.turn > my_.micro_batches.turn() || !my_.serving) {
    if (o.path.size() == my_.options.stages) orders_.keep(from, o);
  } else if (messenger_.takes_path_of(o)) {
    my_.micro_batches.take(o);
  }
}

CAUSEWAY_DECL bool swarm_coordinator::says_it_coordinates(net::peer_id who, std::uint32_t term) const {
  if (who == my_.fabric->id()) return true;
  const auto known = my_.directory.peers().find(who);
  if (known == my_.directory.peers().end() || !known->second.said) return false;
  return known->second.said->coordinates != 0 && known->second.said->term == term;
}

CAUSEWAY_DECL bool swarm_coordinator::take_early_orders(std::uint64_t turn) {
  const auto early = orders_.take(turn);
  for (const auto& [from, o] : early) {
    if (my_.serving) accept(from, o);
  }
  return !early.empty();
}

CAUSEWAY_DECL void swarm_coordinator::trainer_is_here(time_point now, duration took) {
  if (took > duration{0}) trainer_times_.observe(took);
  seen_trainer_ = now;
  if (!std::exchange(trainer_hangs_, false)) return;
  looks_on_ = false;
  my_.serving = !move_to_;
  my_.log(severity::info, "this peer's trainer goes on");
  forget_what_was_given_away();
  messenger_.announce();
  elect();
  send_report();
}

CAUSEWAY_DECL void swarm_coordinator::look_after_the_trainer(time_point now) {
  const bool was_stopped = now - std::exchange(looked_at_, now) > 3 * my_.options.heartbeat;  // this whole process
  if (was_stopped || (orders_.empty() && !my_.micro_batches.next())) seen_trainer_ = now;     // or nothing waits for it
  const duration since = now - seen_trainer_;
  if (!my_.serving || since <= std::max(trainer_times_.patience(), my_.options.silence)) return;
  trainer_hangs_ = true;
  my_.serving = false;
  looks_on_ = true;
  if (std::exchange(my_.coordinates, false)) my_.followed = {};
  my_.log(severity::warning, "this peer's trainer has done nothing for " +
                                 std::to_string(static_cast<std::int64_t>(seconds(since))) +
                                 " s, though work waits for it: others get that until it goes on");
  messenger_.announce();
  after_event();
}

CAUSEWAY_DECL void swarm_coordinator::hear(const swarm_wire::verdict& v) {
  const bool evaluation = !swarm_wire::trains(v.turn);
  if (evaluation && v.complete != 0) evaluated_[v.turn] = v.loss;
  while (evaluated_.size() > most_kept_losses) evaluated_.erase(evaluated_.begin());
  if (evaluation && v.complete == 0 && v.turn == my_.micro_batches.turn())
    gives_up_ = my_.directory.beyond(my_.followed.id, v.turn);
  if (v.turn >= verdict_.turn) verdict_ = v;
  if (my_.steps_alone() && swarm_wire::is_local(v.turn) && v.turn == my_.micro_batches.turn() && v.complete != 0) {
    declared_ = true;
    loss_ = v.loss;
  }
}

CAUSEWAY_DECL void swarm_coordinator::ask_what_was_missed() {
  if (!my_.coordinates && my_.directory.reached(my_.followed.id, my_.micro_batches.turn())) send_report();
}

CAUSEWAY_DECL void swarm_coordinator::ask_for_the_loss() {
  if (my_.in_training() || evaluated() || !my_.directory.anybody_beyond(my_.micro_batches.turn())) return;
  gives_up_ = gives_up_ || my_.coordinates;
  if (my_.directory.beyond(my_.followed.id, my_.micro_batches.turn())) ask_what_was_missed();
}

CAUSEWAY_DECL void swarm_coordinator::balance(time_point now) {
  std::vector<serving_peer> others;
  for (const auto& [id, p] : my_.directory.peers()) {
    if (my_.directory.serves(id)) others.push_back({id, p.said->stage, p.said->seconds, p.said->queued});
  }
  const auto move = balance_.look(now, others, {my_.fabric->id(), my_.options.stage, my_.seconds, my_.queue.mean()});
  if (!move) return;
  if (!move->again) {
    my_.log(severity::info, "peer " + std::to_string(move->who) + " is to serve stage " + std::to_string(move->to));
  }
  messenger_.post(move->who, swarm_wire::move_request{term_, move->to});
}

CAUSEWAY_DECL std::string swarm_coordinator::describe() const {
  const std::string text = messenger_.describe() + table_.describe();
  if (!my_.coordinates) return text + "\n";
  return text + "; coordinating, " + std::to_string(scheduler_.finished()) + " of " +
         std::to_string(my_.micro_batches.done().size()) + " micro-batches are through\n";
}

CAUSEWAY_DECL bool swarm_coordinator::runs(std::uint32_t stage, std::uint32_t micro_batch) const {
  return rule_.runs(my_.size(), stage, micro_batch);
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_COORDINATOR_IPP
