// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_IMPL_LEADER_IPP
#define CAUSEWAY_MEMBERSHIP_IMPL_LEADER_IPP

#include <causeway/membership/leader.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

CAUSEWAY_DECL leader::leader(peer_table& t, follower& f) : t_{t}, follower_{f}, blame_{t}, there_{t} {}

CAUSEWAY_DECL void leader::begin() {
  there_.begin();
  active_ = true;
  next_ = {there_.term, 0};
  attempt_ = {};
  begin_round();
  for (auto& [id, p] : t_.peers) p.rounds_down = 0;  // what we counted as an earlier leader is old
  for (const net::peer_id id : t_.votes.durable().samples.holders()) (void)t_.entry(id);
  t_.note_leads(there_.term);
  t_.out->log(severity::info, "leading the run, term " + std::to_string(there_.term));
  follower_.follow(t_.self);
  follower_.say();  // our own report is of the term before
  beat();
}

CAUSEWAY_DECL void leader::begin_round() {
  there_.begin_round();
  attempt_.over();
  failures_ = 0;
  blame_.begin_round();
  failed_adoptions_.clear();
  values_seen_ = undecided_ = false;
  for (const auto& [id, p] : t_.peers) values_seen_ = values_seen_ || (p.said && p.said->accepted);
  for (const net::peer_id id : t_.members()) (void)t_.entry(id);
  takeover_.begin_round(t_.votes.durable().samples, t_.members());
  count_samples();
}

CAUSEWAY_DECL void leader::on(net::peer_id from, bool news) {
  if (!active_) return;
  peer_entry& p = t_.entry(from);
  const report& m = *p.said;
  values_seen_ = values_seen_ || m.accepted.has_value();
  if (m.ready && there_.usable(p)) there_.waits.somebody_ready(t_.now, from);
  if (news) count_samples();
  if (m.beat == number_) there_.calls.answered(t_.now);
  if ((news || from == there_.blocker) && matters(from, p)) changed_ = true;
  if (news && m.floor.term < there_.term) t_.post(from, make_beat());  // it does not know that we lead, or refuses: once
  if (m.newest == t_.votes.newest() && m.holds) p.holds_round = m.newest.round;
  if (m.accepted && attempt_.running() && m.accepted->at == attempt_.at()) {
    attempt_.voted(from, m.accepted->value.state, t_.now);
  }
  if (attempt_.running() && (m.floor > attempt_.at() || m.promised_to != t_.self)) attempt_.failed(from);  // it never will
  const bool may_vote = there_.follows_us(p) && m.newest == t_.votes.newest() && m.floor <= attempt_.at();
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
  if (m.at.term != there_.term) return;
  blame_.on(from, m);
  if (attempt_.running() && m.at == attempt_.at()) attempt_.failed(from);
}

CAUSEWAY_DECL void leader::asked_for_time(net::peer_id from, const transfer_need& needs) {
  if (!active_) return;
  if (!t_.votes.is_member(from) && !there_.follows_us(t_.entry(from))) return t_.reject(reject_reason::not_a_member, from);
  there_.transfers.ask(from, needs, t_.now);
  changed_ = true;
}

CAUSEWAY_DECL void leader::peer_up(net::peer_id id) {
  if (active_) t_.entry(id).rounds_down = 0;
  if (active_) t_.post(id, make_beat());
}

CAUSEWAY_DECL void leader::peer_down(net::peer_id id) {
  changed_ = true;
  there_.transfers.forget(id, t_.now);
  if (active_ && attempt_.running()) attempt_.lost(id);
}

CAUSEWAY_DECL void leader::wake() {
  if (!active_ || t_.now < next_beat_) return;
  drop_silent();
  beat();
}

CAUSEWAY_DECL time_point leader::next_wake() const {
  if (!active_) return no_deadline;
  return std::min(next_beat_, attempt_.running() ? there_.waits.attempt_deadline(attempt_) : go_at_);
}

CAUSEWAY_DECL bool leader::decide() {
  if (!active_) return false;
  if (t_.votes.durable().promised_to != t_.self || t_.votes.durable().floor.term != there_.term) {
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

CAUSEWAY_DECL bool leader::matters(net::peer_id from, const peer_entry& p) const {
  if (attempt_.running() || values_seen_ || !there_.usable(p) || p.said->leaving) return true;
  return there_.matters(from);
}

CAUSEWAY_DECL void leader::count_samples() {
  if (t_.settings.round_samples == 0 || there_.enough_samples) return;
  std::uint64_t together = 0;
  for (const auto& [id, p] : t_.peers) together += there_.usable(p) ? p.said->samples : 0;
  if (together < t_.settings.round_samples) return;
  there_.enough_samples = changed_ = true;
  t_.post_all(t_.others_up(), make_beat());
}

CAUSEWAY_DECL bool leader::gather() {
  std::uint32_t above = 0;
  for (auto& [id, p] : t_.peers) {
    if (!p.up || !p.said) continue;
    if (needs_new_term(id, p)) above = std::max(above, p.said->floor.term);
    if (there_.follows_us(p)) next_ = std::max(next_, p.said->floor);  // called off by somebody else in our name
    if (there_.follows_us(p) && p.said->floor < there_.barrier && p.told_floor < there_.barrier) {
      p.told_floor = there_.barrier;
      t_.post(id, abort_attempt{there_.barrier});
    }
  }
  let_go();
  const std::vector<net::peer_id> heard = t_.members_that([&](auto, const peer_entry& p) { return there_.usable(p); });
  go_at_ = no_deadline;
  there_.blocker = 0;
  stuck_ = !t_.quorum_up();
  if (stuck_) {
    if (above > 0) active_ = false;  // somebody else may lead: ask as everybody does
    if (above > 0) follower_.lose_leader();
    return say_waiting("members within reach", heard), false;
  }
  if (above > 0 || next_.attempt >= ballot::max_attempt - 1) return take_new_term(), true;
  if (t_.now < there_.waits.pause_until(failures_)) {
    go_at_ = there_.waits.pause_until(failures_);
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
  const auto fit = [&](auto, const peer_entry& q) { return there_.usable(q); };
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
  if (rule.is == proposal_rule::free && again && there_.enough(there_.participants(true))) return false;
  return !t_.voters_for(*rule.value, 1).empty();
}

CAUSEWAY_DECL void leader::begin_adoption(const commit_record& wanted) {
  const commit_record value = wanted;  // reports may change while we tell
  std::vector<net::peer_id> asked;
  for (auto& [id, p] : t_.peers) {
    if (there_.usable(p) && concerns(id, value)) asked.push_back(id);
  }
  attempt_.begin_adoption(next_, value, asked, t_.now);
  blame_.begin_adoption(next_);
  there_.barrier = next_ = next_.next();
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
  if (awaits_answers()) return say_waiting("peers ready again after a failed attempt", there_.participants(true));
  blame_.decide(there_.is_ready(), there_.participants(false), [&](const auto& left) { return there_.enough(left); });
  std::vector<net::peer_id> who = there_.participants(false);
  if (!there_.enough(who)) who = there_.participants(true);  // better with a peer in disgrace than not at all
  if (!there_.enough(who)) return say_waiting("peers ready", who);
  const bool few = !there_.waits.had_enough() && !there_.are_most(who);
  if ((few || there_.gathers_on(who)) && t_.now < there_.waits.pace_deadline()) {
    go_at_ = there_.waits.pace_deadline();
    return say_waiting(few ? "peers ready, fewer than half of those who train" : "peers ready; the others gather samples",
                       who);
  }
  there_.waits.enough_ready(t_.now, median(brought(t_, who)));
  go_at_ = there_.wait_for_others(who);
  if (const net::peer_id silent = there_.calls.owes_answer(t_, who); silent != 0 && go_at_ < there_.calls.due()) {
    go_at_ = there_.calls.due();
    there_.blocker = silent;
  }
  if (t_.now < go_at_) return say_waiting("peers ready", who);
  if (!out_of_work(t_, who)) return go_with(who);
  go_at_ = takeover_.due(t_.votes.durable().samples, who.size(), there_.waits, t_.now);
  if (t_.now < go_at_) return say_waiting("peers ready with nothing left to train", who);
  go_with(who);
}

CAUSEWAY_DECL bool leader::awaits_answers() {
  if (!blame_.is_open()) return false;
  const auto through = [&](net::peer_id id) { return there_.is_ready()(id) || there_.calls.has_missed(t_, id); };
  there_.blocker = blame_.owes_answer(through);
  if (there_.blocker == 0) there_.waits.answered(t_.now);
  if (there_.blocker == 0 || t_.now >= there_.waits.answer_deadline()) return false;
  go_at_ = there_.waits.answer_deadline();
  return true;
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
  there_.began(who, failures_ > 0);
  blame_.begin_exchange(next_, who);
  attempt_.begin_exchange(next_, m.proposal, who, t_.now);
  there_.barrier = next_ = next_.next();
  there_.waits.began(failures_);
  t_.post_all(who, m);
}

CAUSEWAY_DECL void leader::judge() {
  if (attempt_.recorded()) return;  // our own record comes next
  const bool over = attempt_.all_answered() || t_.now >= there_.waits.attempt_deadline(attempt_);
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
  there_.waits.failed(t_.now);
  attempt_.over();
  changed_ = true;
  gather();
}

CAUSEWAY_DECL void leader::commit(std::uint64_t state) {
  commit_record record = attempt_.proposal();
  record.state = state;
  there_.waits.committed(attempt_);
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
  return {there_.term, number_, t_.votes.newest(), count, t_.quorum_follows(), there_.enough_samples};
}

CAUSEWAY_DECL void leader::beat() {
  next_beat_ = t_.now + t_.settings.heartbeat;
  ++number_;
  there_.calls.called(t_.now);
  changed_ = true;  // who was late with its answers may be there by now
  if (number_ % 8 == 1) called_ = t_.call_the_lost(called_);
  for (auto& [id, p] : t_.peers) {
    if (p.up && p.said && p.said->newest == t_.votes.newest() && !p.said->holds) t_.post(id, holders_for(id));
  }
  t_.post_all(t_.others_up(), make_beat());
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
