// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_IMPL_PEER_TABLE_IPP
#define CAUSEWAY_MEMBERSHIP_IMPL_PEER_TABLE_IPP

#include <causeway/membership/peer_table.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

CAUSEWAY_DECL bool term_limit::allow(std::uint32_t known, std::uint32_t wanted, time_point now) {
  if (wanted <= known) return true;
  refill(now);
  const std::uint64_t growth = wanted - known;
  if (growth > saved_ && now - last_refused_ > longest_between * heartbeat_) refused_since_ = now;
  if (growth > saved_ + beats(now - refused_since_)) {
    last_refused_ = now;
    return false;
  }
  saved_ -= std::min(saved_, growth);
  refused_since_ = last_refused_ = now;
  return true;
}

CAUSEWAY_DECL std::uint64_t term_limit::beats(duration d) const {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(d / std::max(heartbeat_, duration{1}), 0));
}

CAUSEWAY_DECL void term_limit::refill(time_point now) {
  const std::uint64_t more = beats(now - filled_);
  if (more == 0) return;
  saved_ = std::min(burst, saved_ + more);
  filled_ = now;
}

CAUSEWAY_DECL peer_table::peer_table(options o, durable_record record, effects& fx)
    : settings{std::move(o)},
      votes{std::move(record), fx},
      out{&fx},
      self{votes.durable().self},
      terms_{settings.heartbeat} {
  entry(self).up = true;
  entry(self).address = settings.address;
}

CAUSEWAY_DECL bool peer_table::believed(net::peer_id id) const {
  return votes.is_member(id) || (id != 0 && id == votes.durable().promised_to);
}

CAUSEWAY_DECL bool peer_table::acquainted(net::peer_id id) const {
  const auto& book = votes.durable().others;
  const auto at = std::lower_bound(book.begin(), book.end(), id, by_peer);
  if (believed(id) || roots.contains(id) || (at != book.end() && at->peer == id)) return true;
  const peer_entry* p = find(id);
  return p != nullptr && seeds.contains(p->address);
}

CAUSEWAY_DECL std::set<std::string> peer_table::other_seeds() const {
  std::set<std::string> others = seeds;
  others.erase(settings.address);
  return others;
}

CAUSEWAY_DECL bool peer_table::all_seeds_answered() const {
  std::set<std::string> missing = other_seeds();
  for (const auto& [id, p] : peers) {
    if (p.up && (p.answered || p.word.known())) missing.erase(p.address);
  }
  return missing.empty();
}

CAUSEWAY_DECL std::uint32_t peer_table::known_term() const {
  const auto& newest = votes.durable().newest;
  return std::max(votes.durable().floor.term, newest ? newest->at.term : 0);
}

CAUSEWAY_DECL bool peer_table::allow_term(std::uint32_t term, net::peer_id from, std::uint32_t known) {
  if (terms_.allow(known, term, now)) {
    highest_allowed_ = std::max(highest_allowed_, term);
    return true;
  }
  reject(reject_reason::term_jump, from);
  return false;
}

CAUSEWAY_DECL bool peer_table::near(std::uint32_t term) const {
  return term <= highest_allowed_ || term <= known_term() + term_limit::burst;
}

CAUSEWAY_DECL peer_entry& peer_table::entry(net::peer_id id) {
  const auto [at, added] = peers.try_emplace(id);
  if (added) at->second.beats = net::arrival_statistics{settings.silence};
  return at->second;
}

CAUSEWAY_DECL const peer_entry* peer_table::find(net::peer_id id) const {
  const auto at = peers.find(id);
  return at == peers.end() ? nullptr : &at->second;
}

CAUSEWAY_DECL bool peer_table::up(net::peer_id id) const {
  const peer_entry* p = find(id);
  return p != nullptr && p->up;
}

CAUSEWAY_DECL std::string peer_table::address_of(net::peer_id id) const {
  const peer_entry* p = find(id);
  if (p != nullptr && !p->address.empty()) return p->address;
  const auto& book = votes.durable().others;
  const auto at = std::lower_bound(book.begin(), book.end(), id, by_peer);
  return at == book.end() || at->peer != id ? std::string{} : at->address;
}

CAUSEWAY_DECL std::vector<located_peer> peer_table::places_of(const std::vector<net::peer_id>& who) const {
  std::vector<located_peer> list;
  for (const net::peer_id id : who) {
    located_peer p{id, id == self ? settings.address : address_of(id)};
    if (!p.address.empty()) list.push_back(std::move(p));
  }
  return list;
}

CAUSEWAY_DECL std::string peer_table::remembered_address(net::peer_id id) const {
  const auto& book = votes.durable().others;
  const auto at = std::lower_bound(book.begin(), book.end(), id, by_peer);
  return at == book.end() || at->peer != id ? std::string{} : at->address;
}

CAUSEWAY_DECL void peer_table::say_places(go& m) const {
  for (const view_member& v : m.who.members) {
    if (!v.address.empty() && v.address != remembered_address(v.peer)) m.news.push_back({v.peer, v.address});
  }
  m.places = detail::places_of(m.who);
}

CAUSEWAY_DECL void peer_table::remember(std::vector<located_peer> met) {
  std::erase_if(met, [&](const located_peer& p) { return p.peer == self || p.address.empty(); });
  std::sort(met.begin(), met.end(), [](const auto& x, const auto& y) { return x.peer < y.peer; });
  met.erase(std::unique(met.begin(), met.end(), [](const auto& x, const auto& y) { return x.peer == y.peer; }), met.end());
  const auto& book = votes.durable().others;
  const auto known = [&](const located_peer& p) {
    const auto at = std::lower_bound(book.begin(), book.end(), p.peer, by_peer);
    return at != book.end() && *at == p;
  };
  if (std::all_of(met.begin(), met.end(), known)) return;
  std::vector<located_peer> all = met;
  for (const located_peer& p : book) {
    const auto at = std::lower_bound(met.begin(), met.end(), p.peer, by_peer);
    if (all.size() < max_members && (at == met.end() || at->peer != p.peer)) all.push_back(p);
  }
  std::sort(all.begin(), all.end(), [](const auto& x, const auto& y) { return x.peer < y.peer; });
  votes.remember(std::move(all));
}

CAUSEWAY_DECL const std::vector<net::peer_id>& peer_table::members() const {
  static const std::vector<net::peer_id> none;
  const auto& newest = votes.durable().newest;
  return newest ? newest->members : none;
}

CAUSEWAY_DECL std::vector<located_peer> peer_table::voters_for(const commit_record& value, std::size_t most) const {
  std::vector<located_peer> list;
  for (const auto& [id, p] : peers) {
    if (list.size() == most) break;
    if (p.up && p.said && p.said->accepted && p.said->accepted->value == value) list.push_back({id, p.address});
  }
  return list;
}

CAUSEWAY_DECL std::vector<net::peer_id> peer_table::others_up() const {
  std::vector<net::peer_id> others;
  for (const auto& [id, p] : peers) {
    if (p.up && id != self) others.push_back(id);
  }
  return others;
}

CAUSEWAY_DECL bool peer_table::quorum_up() const {
  return is_quorum(members(), members_that([](net::peer_id, const peer_entry& p) { return p.up; }));
}

CAUSEWAY_DECL bool peer_table::promised_elsewhere(const peer_entry& p) const {
  if (!p.up || !p.said) return false;
  const std::uint32_t term = votes.durable().floor.term;
  return p.said->floor.term > term || (p.said->floor.term == term && p.said->promised_to != self);
}

CAUSEWAY_DECL bool peer_table::quorum_follows() const {
  const auto may_follow = [&](net::peer_id, const peer_entry& p) { return p.up && !promised_elsewhere(p); };
  return is_quorum(members(), members_that(may_follow));
}

CAUSEWAY_DECL void peer_table::post(net::peer_id to, const message& m) {
  if (!votes.broken().empty()) return;
  if (to == self) {
    to_self.push_back(m);
  } else if (up(to)) {
    out->send(to, encode(settings.run, m, votes.base()));
  }
}

CAUSEWAY_DECL void peer_table::post_all(const std::vector<net::peer_id>& to, const message& m) {
  if (!votes.broken().empty()) return;
  const std::vector<std::byte> bytes = encode(settings.run, m, votes.base());
  for (const net::peer_id id : to) {
    if (id == self) {
      to_self.push_back(m);
    } else if (up(id)) {
      out->send(id, bytes);
    }
  }
}

CAUSEWAY_DECL void peer_table::reject(reject_reason why, net::peer_id from) {
  ++rejected_[static_cast<std::size_t>(why)];
  event e;
  e.what = event::reject;
  e.at_time = now;
  e.peer = self;
  e.from = from;
  e.text = to_string(why);
  out->note(e);
}

CAUSEWAY_DECL std::vector<located_peer> peer_table::some_peers(std::size_t limit) const {
  std::vector<located_peer> list;
  for (const auto& [id, p] : peers) {
    if (list.size() < limit && id != self && p.up && !p.address.empty()) list.push_back({id, p.address});
  }
  for (const located_peer& p : votes.durable().others) {
    if (list.size() < limit && !up(p.peer)) list.push_back(p);
  }
  return list;
}

CAUSEWAY_DECL void peer_table::note_leads(std::uint32_t term) {
  event e;
  e.what = event::lead;
  e.at_time = now;
  e.peer = self;
  e.at = {term, 0};
  e.round = votes.newest().round + 1;
  out->note(e);
}

CAUSEWAY_DECL std::size_t peer_table::call_the_lost(std::size_t called) {
  std::vector<std::string> lost;
  for (const located_peer& p : votes.durable().others) {
    if (!up(p.peer)) lost.push_back(address_of(p.peer));
  }
  for (std::size_t i = 0; i < std::min(called_at_once, lost.size()); ++i) out->dial(lost[called++ % lost.size()]);
  return called;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_IMPL_PEER_TABLE_IPP
