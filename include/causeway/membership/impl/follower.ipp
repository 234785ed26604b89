// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_IMPL_FOLLOWER_IPP
#define CAUSEWAY_MEMBERSHIP_IMPL_FOLLOWER_IPP

#include <causeway/membership/follower.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

CAUSEWAY_DECL follower::follower(peer_table& t) : t_{t} {}

CAUSEWAY_DECL void follower::holds(std::uint64_t round, std::uint64_t state) {
  const std::pair now_held{round, state};
  // Gone back from what it voted for: a commit of that finds it without the state.
  const auto& accepted = t_.votes.durable().accepted;
  if (accepted && accepted->value.state != state) voted_chain_ = 0;
  if (held_ == now_held) return;
  held_ = now_held;
  say();
}

CAUSEWAY_DECL void follower::ready(std::uint64_t round, std::uint64_t parent, std::uint64_t samples) {
  if (round != newest().round + 1 || parent != newest().chain || !holds_newest() || waits_for_commit()) {
    return;  // the round is over, or this peer has voted in it: the situation says so
  }
  ready_ = true;
  samples_ = samples;
  say();
}

CAUSEWAY_DECL void follower::announce(std::uint64_t round, std::uint64_t parent, std::uint64_t samples) {
  const bool now = round == newest().round + 1 && parent == newest().chain && holds_newest() && !waits_for_commit();
  if (!now || ready_ || samples == samples_) return;
  samples_ = samples;
  say();
}

CAUSEWAY_DECL bool follower::completed(ballot at) {
  if (!current_ || current_->who.at != at || at < floor()) return false;
  completing_ = true;
  return true;
}

CAUSEWAY_DECL void follower::voted(ballot at, std::uint64_t round, std::uint64_t state) {
  completing_ = false;
  if (adopting_ && adopting_->at == at && round == adopting_->value.round) {
    if (state != adopting_->value.state) return failed(at, errc::diverged, {t_.self});
    if (vote_for(at, adopting_->value, true)) adopting_.reset();
  } else if (current_ && current_->who.at == at && round == current_->who.round) {
    commit_record value = current_->proposal;
    value.state = state;
    vote_for(at, value, true);
  }
}

CAUSEWAY_DECL void follower::failed(ballot at, errc why, const std::vector<net::peer_id>& suspects) {
  completing_ = false;
  const bool exchange = current_ && current_->who.at == at && !has_voted(at);
  const bool fetch = adopting_ && adopting_->at == at;
  if (exchange || fetch) return refuse(at, why, suspects);
  // Somebody else ended it first. Whose fault it was, this peer may have seen all the same.
  if (at == ended_ && !suspects.empty()) t_.post(t_.votes.durable().promised_to, failure{at, why, suspects});
}

CAUSEWAY_DECL void follower::unusable(ballot at) {
  completing_ = false;
  if (current_ && current_->who.at == at && !has_voted(at)) return refuse(at, errc::non_finite, {t_.self});
  t_.post(t_.votes.durable().promised_to, failure{at, errc::non_finite, {t_.self}});
}

CAUSEWAY_DECL void follower::leave() {
  leaving_ = true;
  say();
}

CAUSEWAY_DECL void follower::on(net::peer_id from, const heartbeat& m) {
  tell_newer(from, m.newest);
  if (!t_.may_lead(from)) {  // one that knows no view yet is told of it first
    if (!newest().known()) early_beat_ = {from, m};
    t_.reject(reject_reason::not_a_member, from);
    return t_.post(from, make_report());
  }
  if (m.term > floor().term) {
    if (leader_ != from && leader_is_well()) return refuse_term(from, reject_reason::wrong_leader);
    if (!t_.allow_term(m.term, from)) return;
  }
  if (!t_.votes.promise(m.term, from, t_.now)) {
    return refuse_term(from, m.term < floor().term ? reject_reason::stale_ballot : reject_reason::wrong_leader);
  }
  follow(from);
  peer_entry& p = t_.entry(from);
  if (p.last_beat != 0 && m.number == p.last_beat + 1) p.beats.observe(t_.now - beat_at_);
  const bool again = p.last_beat == m.number;  // with other news
  p.last_beat = m.number;
  beat_at_ = t_.now;
  beat_ = m;
  t_.post(from, make_report(again ? 0 : m.number));
}

CAUSEWAY_DECL void follower::on(net::peer_id from, const campaign& m) {
  tell_newer(from, m.newest);
  if (!t_.may_lead(from)) {
    t_.reject(reject_reason::not_a_member, from);
    return t_.post(from, make_guide());
  }
  if (leader_ != from && leader_is_well()) return t_.post(from, make_guide());
  if (m.trial) {
    report r = make_report();
    r.trial_term = m.term > floor().term ? m.term : 0;
    return t_.post(from, r);
  }
  if (m.term > floor().term && !t_.allow_term(m.term, from)) return;
  if (t_.votes.promise(m.term, from, t_.now) && leader_ != from) lose_leader();
  t_.post(from, make_report());
}

CAUSEWAY_DECL void follower::on(net::peer_id from, const go& m) {
  const ballot at = m.who.at;
  if (!authority(from, at)) return;
  if ((current_ && current_->who.at == at) || has_voted(at)) return;  // a duplicate
  const std::optional<reject_reason> wrong = check(m);
  if (wrong) {
    t_.reject(*wrong, from);
    return refuse(at, errc::wrong_parent, {t_.self});
  }
  go whole = m;
  if (from != t_.self && !fill_in(whole)) {  // some addresses are not known here
    unplaced_ = m;
    return t_.post(from, address_request{});
  }
  enter(std::move(whole));
}

CAUSEWAY_DECL void follower::on(net::peer_id from, const address_list& m) {
  if (!t_.acquainted(from)) return t_.reject(reject_reason::not_a_member, from);
  for (const located_peer& p : m.places) {
    if (p.peer == t_.self) seen_at_ = p.address;
  }
  t_.remember(m.places);
  std::optional<go> waiting = std::exchange(unplaced_, std::nullopt);
  if (!waiting || !authority(from, waiting->who.at) || check(*waiting)) return;
  (void)fill_in(*waiting);  // who still has no address cannot be dialled, and the attempt says so
  enter(std::move(*waiting));
}

CAUSEWAY_DECL void follower::on(net::peer_id from, const abort_attempt& m) {
  if (m.floor.term != floor().term || from != t_.votes.durable().promised_to) {
    return t_.reject(reject_reason::wrong_leader, from);
  }
  if (t_.votes.bar(m.floor, t_.now)) t_.post(from, make_report());
}

CAUSEWAY_DECL void follower::on(net::peer_id from, const adoption& m) {
  if (!authority(from, m.at) || (adopting_ && adopting_->at == m.at) || has_voted(m.at)) return;
  if (m.value.round <= newest().round) return t_.post(from, catch_up());
  if (m.partial || !t_.votes.follows(m.value)) {
    t_.reject(reject_reason::wrong_parent, from);
    return refuse(m.at, errc::wrong_parent, {t_.self});
  }
  if (t_.votes.durable().accepted && t_.votes.durable().accepted->value == m.value) {
    vote_for(m.at, m.value, false);  // what we voted for is on our disk already
    return;
  }
  current_.reset();
  adopting_ = m;
}

CAUSEWAY_DECL void follower::on(net::peer_id from, const holder_list& m) {
  if (m.of == newest() && t_.acquainted(from)) holders_ = m.holders;
}

CAUSEWAY_DECL void follower::on(net::peer_id from, const exclusion& m) {
  if (from == leader_) excluded_ = m.why;
}

CAUSEWAY_DECL void follower::on(net::peer_id from, const farewell& m) {
  if (m.you && t_.believed(from)) left_ = left_ || leaving_;
  if (!m.you && from == leader_) lose_leader();
}

CAUSEWAY_DECL void follower::found(std::uint64_t state) {
  commit_record first;
  first.run = t_.settings.run;
  first.state = state;
  first.members = {t_.self};
  const ledger samples{t_.settings.quota, t_.settings.budget};
  first.ledger = samples.hash();
  if (!t_.votes.learn(first, samples, t_.now)) return;
  held_ = {0, state};
}

CAUSEWAY_DECL void follower::follow(net::peer_id id) {
  if (leader_ == id) return;
  leader_ = id;
  beat_ = {};
  beat_at_ = t_.now;
  t_.entry(id).last_beat = 0;
  excluded_.clear();
  if (id != t_.self) t_.out->log(severity::info, "following peer " + std::to_string(id));
  say();
}

CAUSEWAY_DECL void follower::lose_leader() {
  if (leader_ == 0) return;
  lost_ = std::exchange(leader_, 0);
  leaderless_since_ = t_.now;
}

CAUSEWAY_DECL void follower::report_changes() {
  if (end_attempt()) say();
  if (unplaced_ && unplaced_->who.at < floor()) unplaced_.reset();
  if (adopting_ && adopting_->at < floor()) adopting_.reset();
  if (!std::exchange(report_due_, false) || leader_ == 0) return;
  t_.post(leader_, make_report());
}

CAUSEWAY_DECL bool follower::check_silence() {
  if (leader_ == 0 || leader_ == t_.self || t_.now - beat_at_ <= patience()) return false;
  t_.out->drop(leader_, "the leader was silent for " + std::to_string(seconds(t_.now - beat_at_)) + " s");
  t_.entry(leader_).up = false;
  lose_leader();
  return true;
}

CAUSEWAY_DECL bool follower::learn(const told_commit& c) {
  const bool was_known = newest().known();
  const bool learned_it =
      c.samples ? t_.votes.learn(c.record, *c.samples, t_.now, c.votes) : t_.votes.learn(c.record, t_.now, c.votes);
  if (!learned_it) return false;
  if (!was_known) {
    t_.roots.insert(c.tellers.begin(), c.tellers.end());
    t_.out->log(severity::info, "joining the run at round " + std::to_string(newest().round) + " of " +
                                    std::to_string(c.record.members.size()) + " members, as peer " +
                                    std::to_string(*c.tellers.begin()) + " tells");
  }
  learned(c.holders);
  if (const auto early = std::exchange(early_beat_, std::nullopt); early && t_.up(early->first))
    on(early->first, early->second);
  return true;
}

CAUSEWAY_DECL void follower::tell_newer(net::peer_id to, const position& known, std::vector<located_peer> holders) {
  if (!known.older_than(newest())) return;
  peer_entry& p = t_.entry(to);
  if (p.rounds_told > newest().round && t_.now - p.told_at < 8 * t_.settings.heartbeat) return;
  p.was_told(newest().round, t_.now);
  sync all = catch_up();
  if (!holders.empty()) all.holders = std::move(holders);
  t_.post(to, all);
}

CAUSEWAY_DECL guide follower::make_guide() const {
  guide g{floor().term, {leader_, t_.address_of(leader_)}, t_.some_peers(16)};
  if (leader_ == t_.self) g.leader.address = t_.settings.address;
  return g;
}

CAUSEWAY_DECL report follower::make_report(std::uint32_t beat) {
  (void)end_attempt();
  const durable_record& d = t_.votes.durable();
  report r;
  r.sequence = ++sequence_;
  r.floor = d.floor;
  r.promised_to = d.promised_to;
  r.newest = newest();
  r.accepted = d.accepted;
  r.holds = holds_newest();
  r.ready = ready_;
  r.leaving = leaving_;
  r.samples = samples_;
  r.beat = beat;
  r.address = t_.settings.address;
  return r;
}

CAUSEWAY_DECL bool follower::holds_newest() const {
  const auto& d = t_.votes.durable();
  return d.newest && held_ && held_->first == d.newest->round && held_->second == d.newest->state;
}

CAUSEWAY_DECL bool follower::waits_for_commit() const {
  if (voted_chain_ == 0 || voted_chain_ != t_.votes.accepted_chain()) return false;
  return t_.votes.is_member(t_.self) || t_.votes.durable().accepted->at >= floor();
}

CAUSEWAY_DECL sync follower::catch_up() const {
  sync all{*t_.votes.durable().newest, t_.votes.durable().votes, t_.votes.durable().samples, {}};
  if (holds_newest()) all.holders.push_back({t_.self, t_.settings.address});
  return all;
}

CAUSEWAY_DECL duration follower::patience() const {
  const peer_entry* p = t_.find(leader_);
  return p == nullptr ? t_.settings.silence.cap : p->beats.patience();
}

CAUSEWAY_DECL bool follower::has_voted(ballot at) const {
  const auto& accepted = t_.votes.durable().accepted;
  return accepted && accepted->at == at;
}

CAUSEWAY_DECL bool follower::leader_is_well() const {
  if (leader_ == 0) return false;
  if (leader_ == t_.self) return t_.quorum_follows();
  return t_.up(leader_) && beat_.quorum && t_.now - beat_at_ <= patience();
}

CAUSEWAY_DECL bool follower::authority(net::peer_id from, ballot at) {
  const bool term = at.term == floor().term && from == t_.votes.durable().promised_to;
  if (term && at >= floor()) return true;
  t_.reject(term || at.term < floor().term ? reject_reason::stale_ballot : reject_reason::wrong_leader, from);
  t_.post(from, make_report());
  return false;
}

CAUSEWAY_DECL void follower::refuse_term(net::peer_id from, reject_reason why) {
  t_.reject(why, from);
  t_.post(from, make_report());
}

CAUSEWAY_DECL std::optional<reject_reason> follower::check(const go& m) const {
  const commit_record& value = m.proposal;
  if (m.who.round != newest().round + 1) return reject_reason::wrong_round;
  if (m.partial) return reject_reason::wrong_parent;
  if (m.who.parent != newest().chain) return reject_reason::wrong_parent;
  if (value.round != m.who.round || value.at != m.who.at || !t_.votes.follows(value)) return reject_reason::wrong_ledger;
  if (!adds_up(m)) return reject_reason::wrong_ledger;
  const auto rank = m.who.rank_of(t_.self);
  if (!ready_ || !rank || m.who.members[*rank].samples != samples_) return reject_reason::not_ready;
  return std::nullopt;
}

CAUSEWAY_DECL void follower::enter(go m) {
  adopting_.reset();
  current_ = std::move(m);
  meet(current_->who);
}

CAUSEWAY_DECL bool follower::fill_in(go& m) {
  for (const located_peer& p : m.news) {
    if (p.peer == t_.self) seen_at_ = p.address;
  }
  t_.remember(m.news);
  const std::string here = seen_at_.empty() ? t_.settings.address : seen_at_;
  for (view_member& v : m.who.members) v.address = v.peer == t_.self ? here : t_.remembered_address(v.peer);
  return places_of(m.who) == m.places;
}

CAUSEWAY_DECL bool follower::vote_for(ballot at, const commit_record& value, bool fresh) {
  if (!t_.votes.accept(at, value, t_.now)) return false;
  if (fresh) {
    voted_chain_ = t_.votes.accepted_chain();
    ready_ = false;
  }
  t_.post(t_.votes.durable().promised_to, vote{at, value.round, value.state});
  return true;
}

CAUSEWAY_DECL void follower::refuse(ballot at, errc why, const std::vector<net::peer_id>& suspects) {
  if (!t_.votes.bar(at.next(), t_.now)) return;
  const net::peer_id to = t_.votes.durable().promised_to;
  t_.post(to, failure{at, why, suspects});
  t_.post(to, make_report());
}

CAUSEWAY_DECL void follower::meet(const view& who) {
  std::vector<located_peer> met;
  for (const view_member& m : who.members) met.push_back({m.peer, m.address});
  t_.remember(std::move(met));
}

CAUSEWAY_DECL bool follower::end_attempt() {
  if (!current_ || current_->who.at >= floor()) return false;
  ended_ = current_->who.at;
  current_.reset();
  return std::exchange(ready_, false);
}

CAUSEWAY_DECL void follower::learned(std::vector<located_peer> holders) {
  const commit_record& record = *t_.votes.durable().newest;
  const bool have = voted_chain_ == newest().chain ||
                    (held_ && held_->second == record.state);  // equal hash, equal bytes: an empty round
  if (have) held_ = {record.round, record.state};
  current_.reset();
  adopting_.reset();
  ready_ = false;
  samples_ = 0;
  excluded_.clear();
  holders_ = std::move(holders);
  if (!have || !record.returned.empty()) say();  // who leaves waits until enough know
}

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_IMPL_FOLLOWER_IPP
