// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_IMPL_LEADER_IPP
#define CAUSEWAY_MEMBERSHIP_IMPL_LEADER_IPP

// Bodies of membership/leader.hpp.

#include <causeway/membership/leader.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

CAUSEWAY_DECL leader::leader(peer_table& t, follower& f)
    : t_{t}, follower_{f}, blame_{t}, waits_{t.settings}, calls_{t.settings.heartbeat} {}

CAUSEWAY_DECL void leader::begin() {
  term_ = t_.votes.durable().floor.term;
  active_ = true;
  transfers_ = transfer_time{t_.now, t_.settings.heartbeat};
  calls_ = roll_call{t_.settings.heartbeat};
  next_ = {term_, 0};
  attempt_ = {};
  begin_round();
  for (auto& [id, p] : t_.peers) p.rounds_down = 0;  // what we counted as an earlier leader is old
  for (const net::peer_id id : t_.votes.durable().samples.holders()) (void)t_.entry(id);
  t_.note_leads(term_);
  t_.out->log(severity::info, "leading the run, term " + std::to_string(term_));
  follower_.follow(t_.self);
  follower_.say();  // our own report is of the term before
  beat();
}

CAUSEWAY_DECL void leader::begin_round() {
  barrier_ = {term_, 0};
  attempt_.over();
  failures_ = 0;
  blame_.begin_round();
  failed_adoptions_.clear();
  waits_.begin_round(t_.now);
  values_seen_ = undecided_ = false;
  for (const auto& [id, p] : t_.peers) {  // who reported ahead of us does not do so again
    values_seen_ = values_seen_ || (p.said && p.said->accepted);
    if (usable(p) && p.said->ready) waits_.somebody_ready(t_.now, id);
  }
  for (const net::peer_id id : t_.members()) (void)t_.entry(id);
  takeover_.begin_round(t_.votes.durable().samples, t_.members());
  enough_samples_ = false;
  count_samples();
}

CAUSEWAY_DECL void leader::on(net::peer_id from, bool news) {
  if (!active_) return;
  peer_entry& p = t_.entry(from);
  const report& m = *p.said;
  values_seen_ = values_seen_ || m.accepted.has_value();
  if (m.ready && usable(p)) waits_.somebody_ready(t_.now, from);
  if (news) count_samples();
  if (m.beat == number_) calls_.answered(t_.now);
  if ((news || from == blocker_) && matters(from, p)) changed_ = true;
  if (news && m.floor.term < term_) t_.post(from, make_beat());  // it does not know that we lead, or refuses: once
  if (m.newest == t_.votes.newest() && m.holds) p.holds_round = m.newest.round;
  if (m.accepted && attempt_.running() && m.accepted->at == attempt_.at()) {
    attempt_.voted(from, m.accepted->value.state, t_.now);
  }
  if (attempt_.running() && (m.floor > attempt_.at() || m.promised_to != t_.self)) attempt_.failed(from);  // it never will
  const bool may_vote = follows_us(p) && m.newest == t_.votes.newest() && m.floor <= attempt_.at();
  if (attempt_.adopting() && may_vote && concerns(from, attempt_.proposal()) && p.told_adoption < attempt_.at()) {
    p.told_adoption = attempt_.at();
    attempt_.ask(from);
    t_.post(from, adoption_notice());
  }
}

CAUSEWAY_DECL void leader::on(net::peer_id from, const vote& m) {
  if (active_ && attempt_.running() && m.at == attempt_.at()) attempt_.voted(from, m.state, t_.now);
}

CAUSEWAY_DECL void leader::on(net::peer_id from, const failure& m) {
  if (!active_ || !(t_.votes.is_member(from) || blame_.took_part(from))) return;
  if (m.why == errc::non_finite && contains(m.suspects, from)) {
    t_.out->log(severity::warning, "peer " + std::to_string(from) +
                                       " says that what it computed is not finite; the round goes on without its part");
  }
  if (m.at.term != term_) return;
  blame_.on(from, m);
  if (attempt_.running() && m.at == attempt_.at()) attempt_.failed(from);
}

CAUSEWAY_DECL void leader::asked_for_time(net::peer_id from, const transfer_need& needs) {
  if (!active_) return;
  if (!t_.votes.is_member(from) && !follows_us(t_.entry(from))) return t_.reject(reject_reason::not_a_member, from);
  transfers_.ask(from, needs, t_.now);
  changed_ = true;
}

CAUSEWAY_DECL void leader::peer_up(net::peer_id id) {
  if (!active_) return;
  t_.entry(id).rounds_down = 0;
  t_.post(id, make_beat());
}

CAUSEWAY_DECL void leader::peer_down(net::peer_id id) {
  changed_ = true;
  transfers_.forget(id, t_.now);
  if (active_ && attempt_.running()) attempt_.lost(id);
}

CAUSEWAY_DECL void leader::wake() {
  if (!active_ || t_.now < next_beat_) return;
  drop_silent();
  beat();
}

CAUSEWAY_DECL time_point leader::next_wake() const {
  if (!active_) return no_deadline;
  return std::min(next_beat_, attempt_.running() ? waits_.attempt_deadline(attempt_) : go_at_);
}

CAUSEWAY_DECL bool leader::decide() {
  if (!active_) return false;
  if (t_.votes.durable().promised_to != t_.self || t_.votes.durable().floor.term != term_) {
    active_ = false;
    if (follower_.leader() == t_.self) follower_.lose_leader();  // or it would refuse whoever leads a later term
    return false;
  }
  if (!std::exchange(changed_, false) && t_.now < next_wake()) return false;
  if (attempt_.running()) return judge(), false;
  return gather();
}

CAUSEWAY_DECL holder_list leader::holders_for(net::peer_id id) const {
  std::vector<located_peer> all;
  for (const auto& [other, p] : t_.peers) {
    if (p.up && p.holds_round == t_.votes.newest().round && t_.votes.newest().known()) all.push_back({other, p.address});
  }
  if (all.size() > holders_told) {
    std::rotate(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(id % all.size()), all.end());
    all.resize(holders_told);
  }
  return {t_.votes.newest(), all};
}

CAUSEWAY_DECL const std::vector<net::peer_id>& leader::last_view() const {
  return active_ && !blame_.last_order().empty() ? blame_.last_order() : t_.members();
}

CAUSEWAY_DECL std::string leader::describe(time_point now) const {
  if (!attempt_.running()) return waiting_;
  return std::string{attempt_.adopting() ? "adoption" : "exchange"} + " since " +
         std::to_string(seconds(now - attempt_.began())) + " s: " + attempt_.summary();
}

CAUSEWAY_DECL bool leader::follows_us(const peer_entry& p) const {
  return p.up && p.said && p.said->floor.term == term_ && p.said->promised_to == t_.self;
}

CAUSEWAY_DECL bool leader::usable(const peer_entry& p) const {
  return follows_us(p) && !p.said->partial && p.said->floor >= barrier_ && p.said->newest == t_.votes.newest();
}

CAUSEWAY_DECL bool leader::matters(net::peer_id from, const peer_entry& p) const {
  if (attempt_.running() || values_seen_ || !usable(p) || p.said->leaving) return true;
  const std::size_t least = std::max({least_peers(), first_peers(), (t_.members().size() + 1) / 2});
  if (waits_.ready_count() < least) return false;
  return blocker_ == 0 || blocker_ == from || waits_.ready_count() >= look_again_at_;
}

CAUSEWAY_DECL void leader::count_samples() {
  if (t_.settings.round_samples == 0 || enough_samples_) return;
  std::uint64_t together = 0;
  for (const auto& [id, p] : t_.peers) together += usable(p) ? p.said->samples : 0;
  if (together < t_.settings.round_samples) return;
  enough_samples_ = changed_ = true;
  t_.post_all(others_up(), make_beat());
}

CAUSEWAY_DECL bool leader::gather() {
  std::uint32_t above = 0;
  for (auto& [id, p] : t_.peers) {
    if (!p.up || !p.said) continue;
    if (needs_new_term(id, p)) above = std::max(above, p.said->floor.term);
    if (follows_us(p)) next_ = std::max(next_, p.said->floor);  // called off by somebody else in our name
    if (follows_us(p) && p.said->floor < barrier_ && p.told_floor < barrier_) {
      p.told_floor = barrier_;
      t_.post(id, abort_attempt{barrier_});
    }
  }
  let_go();
  const std::vector<net::peer_id> heard = t_.members_that([&](auto, const peer_entry& p) { return usable(p); });
  go_at_ = no_deadline;
  blocker_ = 0;
  stuck_ = !t_.quorum_up();
  if (stuck_) {
    if (above > 0) active_ = false;  // somebody else may lead: ask as everybody does
    if (above > 0) follower_.lose_leader();
    return say_waiting("members within reach", heard), false;
  }
  if (above > 0 || next_.attempt >= ballot::max_attempt - 1) return take_new_term(), true;
  if (t_.now < waits_.pause_until(failures_)) {
    go_at_ = waits_.pause_until(failures_);
    return say_waiting("members reported, pause after many failures", heard), false;
  }
  const proposal_rule rule = what_may_be_proposed(t_.members(), statements(heard));
  const bool waits = rule.is == proposal_rule::wait;
  if (waits != std::exchange(undecided_, waits)) changed_ = true;
  if (waits) return say_waiting("members reported", heard), false;
  if (rule.value != nullptr && adoptable(rule)) return begin_adoption(*rule.value), false;
  if (rule.is == proposal_rule::bound) {
    stuck_ = true;
    waiting_ = "round " + std::to_string(t_.votes.newest().round + 1) +
               " may be committed already, and nobody who holds its state is here: start one of its members again";
    return false;
  }
  try_go();
  return false;
}

CAUSEWAY_DECL bool leader::needs_new_term(net::peer_id id, const peer_entry& p) const {
  if (!t_.promised_elsewhere(p) || !t_.acquainted(id) || !t_.near(p.said->floor.term)) return false;
  const auto fit = [&](auto, const peer_entry& q) { return usable(q); };
  return undecided_ || p.renewed_for != t_.votes.newest().round + 1 || !is_quorum(t_.members(), t_.members_that(fit));
}

CAUSEWAY_DECL void leader::take_new_term() {
  for (auto& [id, p] : t_.peers) p.renewed_for = needs_new_term(id, p) ? t_.votes.newest().round + 1 : p.renewed_for;
}

CAUSEWAY_DECL void leader::let_go() {
  const auto informed = [&](net::peer_id, const peer_entry& p) {
    return p.up && p.said && p.said->newest == t_.votes.newest();
  };
  const std::vector<net::peer_id> know = t_.members_that(informed);
  if (!is_quorum(t_.members(), know)) return;
  bool all = know.size() == t_.members().size();
  for (const auto& [id, p] : t_.peers) {
    all = all && (!p.up || !p.said || (p.said->leaving && (!p.said->ready || p.said->samples == 0)));
  }
  for (const auto& [id, p] : t_.peers) {
    if (p.up && p.said && p.said->leaving && (all || !t_.votes.is_member(id))) t_.post(id, farewell{true});
  }
}

CAUSEWAY_DECL std::vector<statement> leader::statements(const std::vector<net::peer_id>& heard) const {
  std::vector<statement> all;
  for (const net::peer_id id : heard) {
    const auto& accepted = t_.find(id)->said->accepted;
    all.push_back({id, accepted ? &*accepted : nullptr});
  }
  return all;
}

CAUSEWAY_DECL bool leader::adoptable(const proposal_rule& rule) const {
  const bool again = failed_adoptions_.contains(rule.value->chain());
  if (rule.is == proposal_rule::free && again && enough(participants(true))) return false;
  return !t_.voters_for(*rule.value, 1).empty();
}

CAUSEWAY_DECL void leader::begin_adoption(const commit_record& wanted) {
  const commit_record value = wanted;  // reports may change while we tell
  std::vector<net::peer_id> asked;
  for (auto& [id, p] : t_.peers) {
    if (usable(p) && concerns(id, value)) asked.push_back(id);
  }
  attempt_.begin_adoption(next_, value, asked, t_.now);
  blame_.begin_adoption(next_);
  barrier_ = next_ = next_.next();
  for (const net::peer_id id : asked) t_.entry(id).told_adoption = attempt_.at();
  t_.out->log(severity::info, "round " + std::to_string(value.round) + " is taken over from its voters");
  t_.post_all(asked, adoption_notice());
}

CAUSEWAY_DECL bool leader::concerns(net::peer_id id, const commit_record& value) const {
  return t_.votes.is_member(id) || contains(value.members, id);
}

CAUSEWAY_DECL adoption leader::adoption_notice() const {
  return {attempt_.at(), attempt_.proposal(), t_.voters_for(attempt_.proposal(), holders_told)};
}

CAUSEWAY_DECL void leader::try_go() {
  if (awaits_answers()) return say_waiting("peers ready again after a failed attempt", participants(true));
  blame_.decide(is_ready(), participants(false), [&](const auto& left) { return enough(left); });
  std::vector<net::peer_id> who = participants(false);
  if (!enough(who)) who = participants(true);  // better with a peer in disgrace than not at all
  if (!enough(who)) return say_waiting("peers ready", who);
  const bool few = !waits_.had_enough() && !are_most(who);
  if ((few || gathers_on(who)) && t_.now < waits_.pace_deadline()) {
    go_at_ = waits_.pace_deadline();
    return say_waiting(few ? "peers ready, fewer than half of those who train" : "peers ready; the others gather samples",
                       who);
  }
  waits_.enough_ready(t_.now, median(brought(t_, who)));
  go_at_ = wait_for_others(who);
  if (const net::peer_id silent = calls_.owes_answer(t_, who); silent != 0 && go_at_ < calls_.due()) {
    go_at_ = calls_.due();
    blocker_ = silent;
  }
  if (t_.now < go_at_) return say_waiting("peers ready", who);
  if (!out_of_work(t_, who)) return go_with(who);
  go_at_ = takeover_.due(t_.votes.durable().samples, who.size(), waits_, t_.now);
  if (t_.now < go_at_) return say_waiting("peers ready with nothing left to train", who);
  go_with(who);
}

CAUSEWAY_DECL bool leader::awaits_answers() {
  if (!blame_.is_open()) return false;
  const auto through = [&](net::peer_id id) { return is_ready()(id) || calls_.has_missed(t_, id); };
  blocker_ = blame_.owes_answer(through);
  if (blocker_ == 0) waits_.answered(t_.now);
  if (blocker_ == 0 || t_.now >= waits_.answer_deadline()) return false;
  go_at_ = waits_.answer_deadline();
  return true;
}

CAUSEWAY_DECL bool leader::can_take_part(net::peer_id id, const peer_entry& p) const {
  const ledger& samples = t_.votes.durable().samples;
  return !calls_.is_overdue(t_, id) && usable(p) && p.said->ready && p.said->holds &&
         (samples.quota() == 0 || p.said->samples <= samples.held_count(id));
}

CAUSEWAY_DECL std::vector<net::peer_id> leader::participants(bool paused_too) const {
  const auto fit = [&](net::peer_id id, const peer_entry& p) {
    return can_take_part(id, p) && (paused_too || p.pause == 0);
  };
  std::vector<net::peer_id> who = t_.members_that(fit);
  for (const auto& [id, p] : t_.peers) {
    if (who.size() < max_members && !t_.votes.is_member(id) && fit(id, p)) who.push_back(id);
  }
  return who;
}

CAUSEWAY_DECL bool leader::enough(const std::vector<net::peer_id>& who) const {
  return waits_.ready_count() >= first_peers() && who.size() >= least_peers() && is_quorum(t_.members(), who);
}

CAUSEWAY_DECL bool leader::are_most(const std::vector<net::peer_id>& who) const {
  std::size_t all = 0;
  std::size_t ready = 0;
  for (const auto& [id, p] : t_.peers) {
    if (p.up && p.pause == 0 && !is_newcomer(id)) ++all;
  }
  for (const net::peer_id id : who) ready += is_newcomer(id) ? 0U : 1U;
  return 2 * ready >= all;
}

CAUSEWAY_DECL bool leader::gathers_on(const std::vector<net::peer_id>& who) const {
  if (t_.settings.round_samples == 0 || enough_samples_) return false;
  return late_peers({who.begin(), who.end()}) > 0;
}

CAUSEWAY_DECL bool leader::is_newcomer(net::peer_id id) const {
  return !t_.votes.is_member(id) && t_.votes.durable().samples.held(id).empty();
}

CAUSEWAY_DECL time_point leader::wait_for_others(const std::vector<net::peer_id>& who) {
  const std::set<net::peer_id> in{who.begin(), who.end()};
  const std::size_t late = late_peers(in);
  look_again_at_ = waits_.ready_count() + (late + 1) / 2;
  const time_point grace = waits_.grace_deadline(static_cast<double>(late) / static_cast<double>(late + who.size()));
  const bool has_work = !handed_out(t_.votes.durable().samples);  // for newcomers
  time_point until = t_.now;
  for (const auto& [id, p] : t_.peers) {
    if (!p.up || p.pause > 0 || in.contains(id)) continue;
    const bool expected = !is_newcomer(id);
    const bool ends_the_last = follows_us(p) && p.said->ready && p.said->floor < barrier_;
    if (ends_the_last) until = std::max(until, waits_.answer_deadline());
    if (expected && p.unwaited == 0) until = std::max(until, grace);
    if (expected || has_work) until = std::max(until, time_for_transfer(id, who.size()));
    if (until > t_.now && blocker_ == 0) blocker_ = id;
  }
  return until;
}

CAUSEWAY_DECL std::size_t leader::late_peers(const std::set<net::peer_id>& in) const {
  std::size_t late = 0;
  for (const auto& [id, p] : t_.peers) {
    if (p.up && p.pause == 0 && p.unwaited == 0 && !in.contains(id) && !is_newcomer(id)) ++late;
  }
  return late;
}

CAUSEWAY_DECL time_point leader::time_for_transfer(net::peer_id id, std::size_t ready) {
  if (const auto given = transfers_.give(id, ready, t_.now)) {
    t_.out->log(severity::info, "round " + std::to_string(t_.votes.newest().round + 1) + " waits up to " +
                                    std::to_string(seconds(transfers_.until(id, t_.now) - t_.now)) +
                                    " s for the transfer of peer " + std::to_string(id));
    t_.out->give_time(id, *given);
  }
  return transfers_.until(id, t_.now);
}

CAUSEWAY_DECL void leader::go_with(const std::vector<net::peer_id>& who) {
  go m;
  m.who.at = next_;
  m.who.round = t_.votes.newest().round + 1;
  m.who.parent = t_.votes.newest().chain;
  for (const net::peer_id id : who) {
    const peer_entry& p = t_.entry(id);
    m.who.members.push_back({id, t_.address_of(id), p.said->samples});
  }
  m.proposal = propose(t_, m.who);
  t_.say_places(m);
  count_absent(who);
  blame_.begin_exchange(next_, who);
  attempt_.begin_exchange(next_, m.proposal, who, t_.now);
  barrier_ = next_ = next_.next();
  waits_.began(failures_);
  t_.post_all(who, m);
}

CAUSEWAY_DECL void leader::count_absent(const std::vector<net::peer_id>& who) {
  const std::set<net::peer_id> in{who.begin(), who.end()};
  for (auto& [id, p] : t_.peers) {
    const bool takes_part = in.contains(id);
    if (takes_part) transfers_.took_part(id, t_.now);
    if (takes_part && t_.votes.is_member(id)) p.wasted = p.unwaited = 0;
    if (p.pause > 0 && !takes_part) --p.pause;
    if (failures_ > 0) continue;
    if (p.unwaited > 0) {
      --p.unwaited;
    } else if (!takes_part && p.up && !is_newcomer(id)) {
      p.unwaited = 1U << std::min(p.wasted++, 6U);
    }
  }
}

CAUSEWAY_DECL void leader::judge() {
  if (attempt_.recorded()) return;  // our own record comes next
  const bool over = attempt_.all_answered() || t_.now >= waits_.attempt_deadline(attempt_);
  if (over || attempt_.adopting()) {
    if (const auto choice = attempt_.choice(t_.members())) return commit(*choice);
  }
  const bool hopeless = attempt_.somebody_gone() && !attempt_.somebody_voted();
  const bool no_holder = attempt_.adopting() && t_.voters_for(attempt_.proposal(), 1).empty() && !attempt_.somebody_voted();
  if (over || (hopeless && !attempt_.adopting()) || no_holder) give_up();
}

CAUSEWAY_DECL void leader::give_up() {
  ++failures_;
  if (attempt_.adopting()) failed_adoptions_.insert(attempt_.proposal().chain());
  blame_.failed(attempt_);
  t_.out->log(severity::warning, "attempt " + std::to_string(failures_) + " at round " +
                                     std::to_string(attempt_.proposal().round) + " failed: " + attempt_.summary());
  waits_.failed(t_.now);
  attempt_.over();
  changed_ = true;
  gather();
}

CAUSEWAY_DECL void leader::commit(std::uint64_t state) {
  commit_record record = attempt_.proposal();
  record.state = state;
  waits_.committed(attempt_);
  commit_notice with{{record.round, record.chain()}, record, attempt_.votes_for(state, t_.members()), {}};
  std::vector<net::peer_id> voters;
  std::vector<net::peer_id> others;
  for (auto& [id, p] : t_.peers) {
    if (!p.up) ++p.rounds_down;
    if (!p.up || !p.said) continue;
    blame_.committed(attempt_, id, p);
    const bool holds = attempt_.voted_for(id, state);
    (holds ? voters : others).push_back(id);
    if (attempt_.diverged(id, state)) t_.reject(reject_reason::diverged, id);
    if (p.said->newest == t_.votes.newest()) p.was_told(record.round, t_.now);
    if (!holds) continue;
    p.holds_round = record.round;
    if (with.holders.size() < holders_told) with.holders.push_back({id, p.address});
  }
  t_.post_all(others, with);
  with = {with.of, record, with.votes, {}, true};
  t_.post_all(voters, with);
  attempt_.wait_for_record();
}

CAUSEWAY_DECL heartbeat leader::make_beat() const {
  const auto reached = t_.members_that([](auto, const peer_entry& p) { return p.up; });
  const auto count = static_cast<std::uint32_t>(reached.size());
  return {term_, number_, t_.votes.newest(), count, t_.quorum_follows(), enough_samples_};
}

CAUSEWAY_DECL void leader::beat() {
  next_beat_ = t_.now + t_.settings.heartbeat;
  ++number_;
  calls_.called(t_.now);
  changed_ = true;  // who was late with its answers may be there by now
  if (number_ % 8 == 1) called_ = t_.call_the_lost(called_);
  for (auto& [id, p] : t_.peers) {
    if (p.up && p.said && p.said->newest == t_.votes.newest() && !p.said->holds) t_.post(id, holders_for(id));
  }
  t_.post_all(others_up(), make_beat());
}

CAUSEWAY_DECL std::vector<net::peer_id> leader::others_up() const {
  std::vector<net::peer_id> others;
  for (const auto& [id, p] : t_.peers) {
    if (p.up && id != t_.self) others.push_back(id);
  }
  return others;
}

CAUSEWAY_DECL void leader::drop_silent() {
  for (auto& [id, p] : t_.peers) {
    if (id == t_.self || !p.up || t_.now - p.heard <= p.beats.patience()) continue;
    const std::string why = "silent for " + std::to_string(seconds(t_.now - p.heard)) + " s";
    t_.out->log(severity::warning, "peer " + std::to_string(id) + " is " + why + "; the others go on without it");
    t_.out->drop(id, why);
    p.up = false;
    p.said.reset();
    peer_down(id);
  }
}

CAUSEWAY_DECL void leader::say_waiting(const char* what, const std::vector<net::peer_id>& have) {
  waiting_ = std::to_string(have.size()) + " " + what + ", " + std::to_string(t_.members().size()) + " members in round " +
             std::to_string(t_.votes.newest().round);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_IMPL_LEADER_IPP
