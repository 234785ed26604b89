// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_IMPL_PROTOCOL_IPP
#define CAUSEWAY_MEMBERSHIP_IMPL_PROTOCOL_IPP

#include <causeway/membership/protocol.hpp>

#include <algorithm>
#include <optional>
#include <variant>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

CAUSEWAY_DECL protocol::protocol(options o, durable_record record, effects& fx)
    : t_{std::move(o), std::move(record), fx},
      follower_{t_},
      evidence_{t_},
      candidate_{t_},
      finder_{t_, follower_},
      leader_{t_, follower_},
      outlook_{t_, follower_, candidate_, finder_, leader_} {}

CAUSEWAY_DECL void protocol::found(std::uint64_t state_hash, time_point now) {
  begin(now);
  follower_.found(state_hash);
  start({});
  finish();
}

CAUSEWAY_DECL void protocol::join(const std::vector<std::string>& addresses, time_point now) {
  begin(now);
  start(addresses);
  finish();
}

CAUSEWAY_DECL void protocol::peer_up(net::peer_id peer, const std::string& address, time_point now) {
  begin(now);
  if (stopped() || peer == t_.self || peer == 0) return;
  detail::peer_entry& p = t_.entry(peer);
  if (p.up) down(peer);  // another connection: what was said on the last one is lost
  p = fresh_connection(p);
  if (!address.empty()) p.address = address;
  p.up = true;
  p.heard = now;
  leader_.touch();
  leader_.peer_up(peer);
  candidate_.peer_up(peer);
  finder_.peer_up(peer);
  evidence_.peer_up(peer);
  finish();
}

CAUSEWAY_DECL void protocol::peer_down(net::peer_id peer, const std::string& why, time_point now) {
  begin(now);
  if (stopped() || !t_.up(peer) || peer == t_.self) return;
  t_.out->log(severity::debug, "peer " + std::to_string(peer) + " is down: " + why);
  down(peer);
  finish();
}

CAUSEWAY_DECL void protocol::unreachable(const std::string& address, const std::string& why, time_point now) {
  begin(now);
  t_.out->log(severity::debug, address + " cannot be reached: " + why);
}

CAUSEWAY_DECL void protocol::message(net::peer_id from, std::span<const std::byte> bytes, time_point now) {
  begin(now);
  if (stopped() || from == t_.self) return;
  if (!t_.up(from)) return t_.reject(reject_reason::unknown_peer, from);
  result<detail::message> m = detail::decode_message(t_.settings.run, bytes, t_.votes.base());
  if (!m) {
    turn_away(from, m.error().code == errc::wrong_run ? reject_reason::wrong_run : reject_reason::malformed,
              m.error().text());
    return finish();
  }
  t_.entry(from).heard = now;
  dispatch(from, *m);
  finish();
}

CAUSEWAY_DECL void protocol::malformed(net::peer_id from, const std::string& why, time_point now) {
  begin(now);
  if (stopped() || !t_.up(from) || from == t_.self) return;
  turn_away(from, reject_reason::malformed, why);
  finish();
}

CAUSEWAY_DECL void protocol::asks_for_time(net::peer_id from, const transfer_need& needs, time_point now) {
  begin(now);
  if (!stopped() && t_.up(from)) leader_.asked_for_time(from, needs);
  finish();
}

CAUSEWAY_DECL void protocol::wake(time_point now) {
  begin(now);
  finish();
}

CAUSEWAY_DECL void protocol::resign(time_point now) {
  begin(now);
  if (!stopped() && leader_.active()) {
    leader_.stand_down();
    follower_.lose_leader();
  }
  finish();
}

CAUSEWAY_DECL void protocol::disk_failed(time_point now) {
  begin(now);
  if (stopped()) return;
  t_.votes.lose_disk();
  say_goodbye();
  finish();
}

CAUSEWAY_DECL void protocol::holds(std::uint64_t round, std::uint64_t state_hash, time_point now) {
  begin(now);
  if (!stopped()) follower_.holds(round, state_hash);
  finish();
}

CAUSEWAY_DECL void protocol::ready(std::uint64_t round, std::uint64_t parent, std::uint64_t samples, time_point now) {
  begin(now);
  if (!stopped()) follower_.ready(round, parent, samples);
  finish();
}

CAUSEWAY_DECL void protocol::announce(std::uint64_t round, std::uint64_t parent, std::uint64_t samples, time_point now) {
  begin(now);
  if (!stopped()) follower_.announce(round, parent, samples);
  finish();
}

CAUSEWAY_DECL bool protocol::completed(ballot at, time_point now) {
  begin(now);
  const bool in_time = !stopped() && follower_.completed(at);
  finish();
  return in_time;
}

CAUSEWAY_DECL void protocol::voted(ballot at, std::uint64_t round, std::uint64_t state_hash, time_point now) {
  begin(now);
  if (!stopped()) follower_.voted(at, round, state_hash);
  take_deferred();
  finish();
}

CAUSEWAY_DECL void protocol::failed(ballot at, errc why, const std::vector<net::peer_id>& suspects, time_point now) {
  begin(now);
  if (!stopped()) follower_.failed(at, why, suspects);
  take_deferred();
  finish();
}

CAUSEWAY_DECL void protocol::unusable(ballot at, time_point now) {
  begin(now);
  if (!stopped()) follower_.unusable(at);
  take_deferred();
  finish();
}

CAUSEWAY_DECL void protocol::leave(time_point now) {
  begin(now);
  if (!stopped()) follower_.leave();
  finish();
}

CAUSEWAY_DECL detail::peer_entry protocol::fresh_connection(const detail::peer_entry& old) {
  detail::peer_entry p = old;
  p.said.reset();
  p.rounds_told = 0;
  p.told_floor = p.told_adoption = {};
  p.word = {};
  p.answer = {};
  p.answered = false;
  p.asks = false;
  p.last_beat = 0;
  return p;
}

CAUSEWAY_DECL void protocol::begin(time_point now) {
  t_.now = now;
  if (asked_wake_ != no_deadline && now - asked_wake_ > t_.settings.silence.floor / 2) {
    for (auto& [id, p] : t_.peers) p.heard = now;
    follower_.forgive();
  }
  if (asked_wake_ <= now) asked_wake_ = no_deadline;  // that one is used up
}

CAUSEWAY_DECL void protocol::start(const std::vector<std::string>& addresses) {
  if (!std::exchange(started_, true)) t_.votes.note_boot(t_.now);
  finder_.seek(addresses);
  const bool alone = t_.members().size() == 1 && t_.votes.is_member(t_.self);
  if (alone) candidate_.renew();
  if (follower_.leader() == 0) candidate_.schedule(0);
}

CAUSEWAY_DECL void protocol::down(net::peer_id peer) {
  detail::peer_entry& p = t_.entry(peer);
  p.up = false;
  p.said.reset();
  leader_.touch();
  leader_.peer_down(peer);
  finder_.peer_down(peer);
  if (follower_.leader() == peer) follower_.lose_leader();
}

CAUSEWAY_DECL void protocol::turn_away(net::peer_id peer, reject_reason reason, const std::string& why) {
  t_.reject(reason, peer);
  t_.out->drop(peer, why);
  down(peer);
}

CAUSEWAY_DECL void protocol::dispatch(net::peer_id from, const detail::message& m) {
  if (t_.may_lead(from) && std::visit([&](const auto& body) { return follower_.must_wait(body); }, m)) {
    if (deferred_.size() < most_deferred) deferred_.emplace_back(from, m);
    return;
  }
  std::visit([&](const auto& body) { take(from, body); }, m);
}

CAUSEWAY_DECL void protocol::take_deferred() {
  for (const auto& [from, m] : std::exchange(deferred_, {})) {
    if (!stopped() && (from == t_.self || t_.up(from))) dispatch(from, m);
  }
}

CAUSEWAY_DECL void protocol::take_notice(net::peer_id from, const detail::commit_notice& m) {
  if (from == t_.self) {  // the votes were counted here
    if (follower_.learn({m.record, std::nullopt, m.votes, m.holders, 0, {from}})) learned();
    return;
  }
  evidence_.heard(from, m.of);
  const auto& vote = t_.votes.durable().accepted;
  const bool voted = vote && t_.votes.accepted_chain() == m.of.chain;
  if (m.partial || (m.brief && !voted)) {
    if (t_.votes.newest().older_than(m.of)) t_.post(from, follower_.make_report());  // to be told the whole
  } else {
    evidence_.told(from, m.brief ? vote->value : m.record, m.votes, nullptr, m.holders);
  }
}

CAUSEWAY_DECL void protocol::take_report(net::peer_id from, const detail::report& m) {
  detail::peer_entry& p = t_.entry(from);
  if (p.said && m.sequence <= p.said->sequence) return;  // overtaken by a newer one
  if (m.samples > max_round_samples) return t_.reject(reject_reason::wrong_ledger, from);
  evidence_.heard(from, m.newest);
  if (!m.address.empty()) p.address = m.address;
  if (m.beat != 0 && m.beat == p.last_beat + 1) p.beats.observe(t_.now - p.beat_at);
  if (m.beat != 0) {
    p.last_beat = m.beat;
    p.beat_at = t_.now;
  }
  const bool news = !p.said || !p.said->repeats(m);
  p.said = m;
  const std::uint32_t seen = candidate_.highest_seen();
  candidate_.on(from, m);
  if (candidate_.highest_seen() != seen) leader_.touch();  // it may have to lead a later term
  if (from != t_.self) {
    const bool leads = leader_.active() && m.newest.older_than(t_.votes.newest());
    follower_.tell_newer(from, m.newest, leads ? leader_.holders_for(from).holders : std::vector<located_peer>{});
  }
  leader_.on(from, news);
  if (!leader_.active() && !candidate_.active() && from != t_.self) t_.post(from, follower_.make_guide());
}

CAUSEWAY_DECL void protocol::learned() {
  leader_.touch();
  if (leader_.active()) leader_.begin_round();
  evidence_.tell_who_asked();
}

CAUSEWAY_DECL void protocol::finish() {
  if (started_ && !stopped()) {
    leader_.wake();
    if (follower_.check_silence()) leader_.touch();
    after_event();
  }
  outlook_.refresh();
  const time_point next = stopped() || !started_ ? no_deadline : std::max(next_wake(), t_.now + shortest_wait);
  if (std::exchange(asked_wake_, next) != next) t_.out->wake_at(next);
}

CAUSEWAY_DECL void protocol::after_event() {
  for (int turn = 0; turn < 64 && !stopped(); ++turn) {
    follower_.report_changes();
    while (!t_.to_self.empty()) {
      const detail::message m = std::move(t_.to_self.front());
      t_.to_self.pop_front();
      dispatch(t_.self, m);
    }
    while (const auto commit = evidence_.believed()) {
      if (follower_.learn(*commit)) learned();
    }
    follower_.report_changes();  // what we told ourselves may have ended an attempt
    elect();
    if (leader_.decide()) candidate_.renew();
    finder_.wake();
    if (t_.to_self.empty()) break;
  }
  if (stopped()) say_goodbye();
}

CAUSEWAY_DECL void protocol::elect() {
  const bool led = leader_.active() || (follower_.leader() != 0 && follower_.leader() != t_.self);
  if (led && !leader_.active()) candidate_.stand_back();
  if (!led) candidate_.schedule(follower_.lost_leader());
  candidate_.wake();
  if (candidate_.won()) {
    leader_.begin();
  }
}

CAUSEWAY_DECL void protocol::say_goodbye() {
  t_.to_self.clear();
  for (auto& [id, p] : t_.peers) {
    if (id == t_.self || !p.up) continue;
    if (t_.votes.broken().empty()) {
      t_.post(id, detail::farewell{false});
    } else {
      t_.out->drop(id, t_.votes.broken());
    }
  }
  event e;
  e.what = event::left;
  e.at_time = t_.now;
  e.peer = t_.self;
  t_.out->note(e);
}

CAUSEWAY_DECL time_point protocol::next_wake() const {
  time_point next = std::min({candidate_.next_wake(), finder_.next_wake(), leader_.next_wake(), evidence_.next_wake()});
  if (!leader_.active() && follower_.leader() != 0) next = std::min(next, t_.now + t_.settings.heartbeat);
  if (follower_.leader() == 0) next = std::min(next, t_.now + t_.settings.heartbeat);
  return next;
}

CAUSEWAY_DECL std::vector<std::byte> protocol::record_of(std::uint64_t round, std::uint64_t state) const {
  const durable_record& known = t_.votes.durable();
  durable_record r = fresh_record(known.run, known.self);
  r.samples = known.samples;
  r.newest = known.newest;
  if (!r.newest || r.newest->round != round || r.newest->state != state) {
    r.newest.reset();
    if (follower_.current() && follower_.current()->who.round == round) r.newest = follower_.current()->proposal;
    if (follower_.adopting() && follower_.adopting()->value.round == round) r.newest = follower_.adopting()->value;
    if (!r.newest) return {};
    r.newest->state = state;
    r.samples.apply(*r.newest);
  }
  return encode(r);
}

}}}  // namespace causeway::CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_IMPL_PROTOCOL_IPP
