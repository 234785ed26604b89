// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_MEMBERSHIP_CLUSTER_TRAINERS_HPP
#define CAUSEWAY_TESTS_MEMBERSHIP_CLUSTER_TRAINERS_HPP

// What the trainers of a test's cluster do: train, offer what they trained, exchange, fetch the state.

#include "membership/cluster.hpp"

namespace causeway::test {

inline void cluster::later(host& h, double s, std::function<void()> what) {
  after(s, [&h, life = h.life, what = std::move(what)] {
    if (h.life == life && h.process) what();
  });
}

inline void cluster::poll(host& h) {
  const situation& s = h.process->now_what();
  if (s.is == situation::left) {
    h.gone = true;
    later(h, 0.1, [this, &h] { crash(h); });
    if (peace) after(1, [this, &h] { come_back(h); });
    return;
  }
  if (s.is == situation::failed) {  // somebody mends the disk and starts it again
    later(h, uniform(0.5, 3), [this, &h] {
      crash(h);
      if (restart_after > 0) after(uniform(0.1, restart_after), [this, &h] { boot(h); });
    });
    return;
  }
  rebase(h);
  if (s.is == situation::fetch) fetch(h, s.newest.round, s.hash, s.holders);
  if (s.is == situation::adopt) adopt(h, s);
  if (s.is == situation::exchange && h.busy_with != s.current.at) enter(h, s.current);
  if (s.is == situation::idle || s.is == situation::no_quorum) train(h);
  if (h.offered && s.is == situation::idle && h.holding && h.held_round == s.newest.round) offer(h);
}

inline void cluster::rebase(host& h) {
  const std::uint64_t chain = h.process->newest_chain();
  if (h.base == chain) return;
  h.base = chain;
  h.offered = false;
  const auto mine = h.process->samples().take(h.id, 0, h.numbers.size());
  if (mine != h.numbers) h.numbers.clear();
  const auto& newest_record = *h.process->durable().newest;
  if (h.states.contains(newest_record.state)) hold(h);
}

inline void cluster::hold(host& h) {
  const auto& record = *h.process->durable().newest;
  h.holding = true;
  h.held_round = record.round;
  h.held_state = record.state;
  event e;
  e.what = event::held;
  e.at_time = now;
  e.peer = h.id;
  e.round = record.round;
  e.hash = record.state;
  note(e);
  later(h, 0, [this, &h, round = record.round, state = record.state] {
    call(h, [&](protocol& p) { p.holds(round, state, now); });
  });
}

inline void cluster::fetch(host& h, std::uint64_t round, std::uint64_t state, const std::vector<located_peer>& holders) {
  if (h.fetching == round + 1 || holders.empty()) return;
  h.fetching = round + 1;
  const net::peer_id donor = holders[below(holders.size())].peer;
  later(h, transfer_time * uniform(0.5, 2), [this, &h, state, donor] {
    h.fetching = 0;
    host* d = find(donor);
    const bool ok = d != nullptr && d->process && !between(d->index, h.index).cut && d->states.contains(state);
    if (ok) h.states.insert(state);
    const auto& record = h.process->durable().newest;
    host* const leader = find(h.process->leader());
    const bool failed = h.process->now_what().is == situation::failed;  // its record is ahead of its disk
    if (ok && !failed && record && record->state == state) {
      hold(h);
    } else if (leader != nullptr && leader->process) {  // in vain, as its driver would
      call(*leader, [&](protocol& p) { p.asks_for_time(h.id, {for_seconds(2 * transfer_time)}, now); });
    }
    later(h, 0.3, [this, &h] { poll_again(h); });
  });
}

inline void cluster::adopt(host& h, const situation& s) {
  const ballot at = s.current.at;
  if (h.adopting == at.wire() + 1ULL) return;
  h.adopting = at.wire() + 1ULL;
  const std::uint64_t state = s.hash;
  const net::peer_id donor = s.holders.empty() ? 0 : s.holders[below(s.holders.size())].peer;
  later(h, transfer_time * uniform(0.5, 2), [this, &h, at, round = s.current.round, state, donor] {
    host* d = find(donor);
    const bool ok = h.states.contains(state) ||
                    (d != nullptr && d->process && !between(d->index, h.index).cut && d->states.contains(state));
    if (ok) h.states.insert(state);
    call(h, [&](protocol& p) {
      if (ok) p.voted(at, round, state, now);
      if (!ok) p.failed(at, errc::peer_lost, {donor}, now);
    });
  });
}

inline void cluster::poll_again(host& h) {
  call(h, [&](protocol& p) { p.wake(now); });
}

inline double cluster::unhurried() { return uniform(0.7, 1.3) * (chance(mischief.slow) ? 10 : 1); }

inline void cluster::train(host& h) {
  if (h.training || h.offered || h.hung || !h.holding || !keep_training) return;
  const auto& record = h.process->durable().newest;
  if (!record || h.held_round != record->round) return;
  h.training = true;
  const double took = (h.wants_out ? 0.01 : training_time * h.slowness) * unhurried();
  later(h, took, [this, &h] {
    h.training = false;
    const std::uint64_t skip = h.numbers.size() + (mischief.bug == planted::off_by_one ? 1 : 0);
    const auto more = h.process->samples().take(h.id, skip, h.wants_out ? 0 : brings > 0 ? brings : 1 + below(8));
    if (h.base == h.process->newest_chain()) h.numbers.insert(h.numbers.end(), more.begin(), more.end());
    const auto& now_at = h.process->durable().newest;
    if (now_at && h.held_round == now_at->round && h.holding) {
      h.offered = true;
      offer(h);
    } else {
      poll_again(h);
    }
  });
}

inline void cluster::offer(host& h) {
  event e;
  e.what = event::trained;
  e.at_time = now;
  e.peer = h.id;
  e.round = h.held_round + 1;
  e.parent = h.process->newest_chain();
  for (const std::uint64_t n : h.numbers) e.ranges.push_back({n, 1});
  note(e);
  later(h, 0, [this, &h, e] {
    call(h, [&](protocol& p) {
      p.ready(e.round, e.parent, h.numbers.size(), now);
      if (h.wants_out) p.leave(now);
    });
  });
}

inline void cluster::enter(host& h, const view& v) {
  h.busy_with = v.at;
  exchange& x = exchanges_[{v.at, v.parent}];
  if (!x.who) x.who = std::make_shared<const view>(v);
  x.entered.insert(h.id);
  for (const std::size_t other : neighbours(h, v)) connect(h.index, find(v.members[other].peer)->index);
  if (v.total() == 0) return later(h, uniform(0, 0.05), [this, &h, who = x.who] { finish(h, *who); });
  later(h, 5, [this, &h, &x] { time_out(h, x); });
  if (x.running || x.entered.size() < v.members.size()) return;
  x.running = true;
  for (const view_member& m : v.members) {
    host* other = find(m.peer);
    later(*other, uniform(0.1, 0.6), [this, other, who = x.who] { finish(*other, *who); });
  }
}

inline void cluster::time_out(host& h, const exchange& x) {
  if (x.running) return;
  std::vector<net::peer_id> missing;
  for (const view_member& m : x.who->members) {
    if (!x.entered.contains(m.peer)) missing.push_back(m.peer);
  }
  call(h, [&](protocol& p) { p.failed(x.who->at, errc::timeout, missing, now); });
}

inline void cluster::finish(host& h, const view& v) {
  auto bad = v.total() > 0 ? bad_links(h, v) : std::vector<net::peer_id>{};
  if (chance(h.refuses)) bad.push_back(v.members[below(v.members.size())].peer);
  if (!bad.empty() || chance(mischief.exchange_fails)) {
    return call(h, [&](protocol& p) { p.failed(v.at, errc::peer_lost, bad, now); });
  }
  if (v.total() > 0 && v.members.size() > 1) note_update(h, v);
  std::uint64_t state = v.total() == 0 ? h.held_state : next_state(h.held_state, v);
  if (v.total() > 0 && chance(mischief.diverge)) ++state;
  if (cheat && v.total() > 0) cheat(h, v, state);
  h.states.insert(state);  // durable before the vote
  call(h, [&](protocol& p) { p.voted(v.at, v.round, state, now); });
}

inline std::vector<std::size_t> cluster::neighbours(const host& h, const view& v) {
  const std::size_t n = v.members.size();
  const std::size_t me = *v.rank_of(h.id);
  std::vector<std::size_t> ranks;
  for (const std::size_t other : {(me + 1) % n, (me + n - 1) % n}) {
    if (other != me) ranks.push_back(other);
  }
  return ranks;
}

inline std::vector<net::peer_id> cluster::bad_links(host& h, const view& v) {
  std::vector<net::peer_id> bad;
  for (const std::size_t other : neighbours(h, v)) {
    host* o = find(v.members[other].peer);
    if (o->process && !between(h.index, o->index).cut && between(h.index, o->index).up) continue;
    bad.push_back(o->id);
  }
  return bad;
}

inline void cluster::note_update(host& h, const view& v) {
  const auto& d = h.process->durable();
  const bool current = v.at >= d.floor && v.at.term == d.floor.term && h.process->newest_chain() == v.parent;
  if (!current && mischief.bug != planted::stale_updates) return;
  event e;
  e.what = event::update_accepted;
  e.at_time = now;
  e.peer = h.id;
  e.from = v.members[(*v.rank_of(h.id) + 1) % v.members.size()].peer;
  e.at = v.at;
  e.round = v.round;
  e.parent = v.parent;
  note(e);
}

inline std::uint64_t cluster::next_state(std::uint64_t parent, const view& v) {
  hasher h{parent};
  for (const view_member& m : v.members) {
    h.add_value(m.peer);
    h.add_value(m.samples);
  }
  return h.finish();
}

}  // namespace causeway::test

#endif  // CAUSEWAY_TESTS_MEMBERSHIP_CLUSTER_TRAINERS_HPP
