// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_IMPL_EVIDENCE_IPP
#define CAUSEWAY_MEMBERSHIP_IMPL_EVIDENCE_IPP

#include <causeway/membership/evidence.hpp>

#include <algorithm>
#include <string>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

CAUSEWAY_DECL evidence::evidence(peer_table& t) : t_{t}, start_{static_cast<std::size_t>(mix(t.self, 0x61736bU))} {}

CAUSEWAY_DECL void evidence::told(net::peer_id from, const commit_record& record, const certificate& votes,
                                  const ledger* samples, std::vector<located_peer> holders) {
  const position& newest = t_.votes.newest();
  if (record.run != t_.settings.run || record.members.empty()) return t_.reject(reject_reason::malformed, from);
  if (newest.known() && record.round < newest.round) return;
  if (newest.known() && !t_.acquainted(from)) return t_.reject(reject_reason::not_a_member, from);
  if (samples == nullptr && (!newest.known() || record.round > newest.round + 1)) return;  // those between are missing
  const std::uint64_t chain = record.chain();
  if (newest.known() && chain == newest.chain) return;
  if (newest.known() && record.round - newest.round > max_rounds_missed) return t_.reject(reject_reason::wrong_round, from);
  if (newest.known() && !in_time(record)) return t_.reject(reject_reason::wrong_round, from);
  const bool next = newest.known() && record.parent == newest.chain;
  if (next && !is_quorum(t_.members(), voters_of(votes))) return t_.reject(reject_reason::wrong_parent, from);
  t_.entry(from).word = {record.round, chain};
  told_commit& c = entry(from, chain, record, votes);
  if (samples != nullptr) c.samples = *samples;
  if (!holders.empty() || c.holders.empty()) c.holders = std::move(holders);
  changed_ = true;
}

CAUSEWAY_DECL void evidence::heard(net::peer_id from, const position& newest) {
  position& word = t_.entry(from).word;
  if (std::exchange(word, newest) != newest) changed_ = true;
}

CAUSEWAY_DECL void evidence::heard(net::peer_id from, const confirmation& m) {
  t_.entry(from).answer = m;
  t_.entry(from).answered = true;
  changed_ = true;
}

CAUSEWAY_DECL void evidence::peer_up(net::peer_id id) {
  if (told_.empty()) return;
  if (t_.votes.is_member(id) || !t_.votes.newest().known()) t_.post(id, question());
}

CAUSEWAY_DECL std::optional<told_commit> evidence::believed() {
  forget_the_past();
  if (told_.empty() || (!changed_ && t_.now < next_)) return std::nullopt;
  changed_ = false;
  for (auto c = told_.begin(); c != told_.end(); ++c) {
    if (!convinced(*c)) continue;
    told_commit found = std::move(*c);
    told_.erase(c);
    changed_ = true;
    return found;
  }
  if (t_.now >= next_) ask();
  return std::nullopt;
}

CAUSEWAY_DECL bool evidence::in_time(const commit_record& record) const {
  const commit_record& newest = *t_.votes.durable().newest;
  const std::uint64_t before = newest.at.wire();
  return record.round == newest.round || record.at.wire() >= before + (record.round - newest.round);
}

CAUSEWAY_DECL told_commit& evidence::entry(net::peer_id from, std::uint64_t chain, const commit_record& record,
                                           const certificate& votes) {
  told_commit fresh{record, std::nullopt, votes, {}, chain, {from}, t_.now, t_.votes.newest()};
  if (told_.empty()) {  // a first doubt: the questions begin anew
    next_ = t_.now;
    asked_ = false;
  }
  for (told_commit& c : told_) {
    if (c.tellers.erase(from) > 0) fresh.since = c.since;  // of one teller alone each round would begin the wait anew
    if (c.chain == chain) c.tellers.insert(from);
  }
  std::erase_if(told_, [](const told_commit& c) { return c.tellers.empty(); });
  const auto same = std::find_if(told_.begin(), told_.end(), [&](const told_commit& c) { return c.chain == chain; });
  if (same != told_.end()) {
    same->told_in = t_.votes.newest();
    return *same;
  }
  if (told_.size() == most_told) told_.erase(told_.begin());
  told_.push_back(std::move(fresh));
  return told_.back();
}

CAUSEWAY_DECL void evidence::forget_the_past() {
  const position& newest = t_.votes.newest();
  if (newest == base_) return;
  base_ = newest;
  std::erase_if(told_, [&](const told_commit& c) { return c.record.round < newest.round || c.chain == newest.chain; });
  for (told_commit& c : told_) c.since = t_.now;
  for (auto& [id, p] : t_.peers) p.word = {}, p.answer = {};
  next_ = t_.now;
  changed_ = true;
}

CAUSEWAY_DECL bool evidence::convinced(told_commit& c) {
  if (!t_.votes.newest().known()) return from_a_root(c);
  std::vector<net::peer_id> words = voices(c);
  if (words.size() >= 2 || is_quorum(t_.members(), words)) return true;
  const net::peer_id teller = *c.tellers.begin();
  if (somebody_here(teller)) alone_with_ = 0;
  const bool stands = possible(c) && !all_took_back(c);
  if (!stands) c.since = t_.now;  // who lies waits for as long after those who know better are gone
  const bool waited = t_.now - c.since >= patience() || teller == alone_with_;
  if (!stands || !waited || !follows(c) || !said_in_this_view(c) || disputed(c)) return false;
  if (words.empty() && somebody_here(0)) return false;
  if (std::exchange(alone_with_, teller) == teller) return true;
  t_.out->log(severity::warning, "round " + std::to_string(c.record.round) + " is believed on the word of peer " +
                                     std::to_string(teller) +
                                     " alone: no other member of the last round known here answers");
  return true;
}

CAUSEWAY_DECL bool evidence::from_a_root(const told_commit& c) const {
  if (!c.samples || all_took_back(c)) return false;
  const std::vector<net::peer_id> words = newcomers_voices(c);
  const bool sent = std::any_of(words.begin(), words.end(), [&](auto id) { return t_.acquainted(id); });
  const duration waited = t_.now - c.since;
  const bool due = sent || waited >= 2 * t_.settings.heartbeat;
  if (words.size() >= 2 || t_.other_seeds().size() <= 1) return due;
  const bool denied = std::any_of(t_.peers.begin(), t_.peers.end(), [&](const auto& at) {
    const peer_entry& p = at.second;
    return p.up && (p.word.known() || p.answer.newest.known()) && !contains(words, at.first);
  });
  if (denied) return false;
  if (t_.all_seeds_answered()) return due;
  const bool founding = c.votes.empty() && c.record.members.size() == 1;  // nobody else can have heard of it
  return waited >= (founding ? 2 * t_.settings.heartbeat : patience());
}

CAUSEWAY_DECL std::vector<net::peer_id> evidence::newcomers_voices(const told_commit& c) const {
  std::vector<net::peer_id> ids;
  for (const auto& [id, p] : t_.peers) {
    if (id != t_.self && ((c.tellers.contains(id) && !took_back(id, c)) || supports(p, c))) ids.push_back(id);
  }
  return ids;
}

CAUSEWAY_DECL bool evidence::supports(const peer_entry& p, const told_commit& c) {
  return p.up && (p.word.chain == c.chain || p.answer.supports(c.chain));
}

CAUSEWAY_DECL bool evidence::took_back(net::peer_id id, const told_commit& c) const {
  const peer_entry* p = t_.find(id);
  return p != nullptr && p->up && p->word.known() && p->word.round < c.record.round;
}

CAUSEWAY_DECL bool evidence::all_took_back(const told_commit& c) const {
  return std::all_of(c.tellers.begin(), c.tellers.end(), [&](auto id) { return took_back(id, c); });
}

CAUSEWAY_DECL bool evidence::disputed(const told_commit& c) const {
  return std::any_of(told_.begin(), told_.end(), [&](const told_commit& other) {
    return other.chain != c.chain && std::any_of(other.tellers.begin(), other.tellers.end(), [&](auto id) {
             return t_.believed(id) && t_.up(id) && !took_back(id, other);
           });
  });
}

CAUSEWAY_DECL bool evidence::said_in_this_view(const told_commit& c) const {
  if (c.told_in == t_.votes.newest()) return true;
  return std::any_of(c.tellers.begin(), c.tellers.end(), [&](auto id) {
    const peer_entry* p = t_.find(id);
    return p != nullptr && supports(*p, c);
  });
}

CAUSEWAY_DECL std::vector<net::peer_id> evidence::voices(const told_commit& c) const {
  const bool told_now = c.told_in == t_.votes.newest();
  std::vector<net::peer_id> ids;
  for (const auto& [id, p] : t_.peers) {
    if (id == t_.self || !t_.believed(id)) continue;
    const bool told = told_now && c.tellers.contains(id) && !took_back(id, c);
    if (told || supports(p, c)) ids.push_back(id);
  }
  if (t_.votes.accepted_chain() == c.chain) ids.push_back(t_.self);
  return ids;
}

CAUSEWAY_DECL bool evidence::possible(const told_commit& c) const {
  std::vector<net::peer_id> perhaps;
  for (const net::peer_id id : t_.members()) {
    const peer_entry* p = t_.find(id);
    confirmation w = p != nullptr && p->up ? p->answer : confirmation{};
    if (id == t_.self) w = answer();
    const bool older = w.newest.known() && w.newest.round < c.record.round;
    const bool voter = w.voted != 0 && (w.voted == c.chain || c.record.round > w.newest.round + 1);
    if (!older || voter || (c.tellers.contains(id) && !took_back(id, c)))
      perhaps.push_back(id);  // a teller's answer may be old
  }
  return is_quorum(t_.members(), perhaps);
}

CAUSEWAY_DECL bool evidence::follows(const told_commit& c) const {
  const position& newest = t_.votes.newest();
  if (c.record.round > newest.round + 1) return c.samples.has_value();
  return c.record.round == newest.round + 1 && t_.votes.follows(c.record);
}

CAUSEWAY_DECL bool evidence::somebody_here(net::peer_id but) const {
  const auto here = [&](net::peer_id id, const peer_entry& p) { return p.up && id != t_.self && id != but; };
  return !t_.members_that(here).empty();
}

CAUSEWAY_DECL inquiry evidence::question() const {
  const told_commit& c = told_.back();
  return {{c.record.round, c.chain}};
}

CAUSEWAY_DECL void evidence::ask() {
  next_ = t_.now + t_.settings.heartbeat;
  const auto& c = t_.members();
  if (c.empty()) return ask_anybody();
  const bool again = std::exchange(asked_, true);
  if (!said_in_this_view(told_.back())) {
    for (const net::peer_id id : told_.back().tellers) t_.post(id, question());
  }
  std::size_t many = again ? std::max<std::size_t>(4, c.size() / 16) : 2;
  for (std::size_t i = 0; i < c.size() && many > 0; ++i) {
    const net::peer_id id = c[(again ? turn_++ : start_ + i) % c.size()];
    if (id == t_.self || !t_.up(id) || told_.back().tellers.contains(id)) continue;
    t_.post(id, question());
    --many;
  }
  for (std::size_t i = 0; i < c.size() && many > 0; ++i) {
    const net::peer_id id = c[dialled_++ % c.size()];
    const std::string address = t_.address_of(id);
    if (id == t_.self || t_.up(id) || address.empty()) continue;
    t_.out->dial(address);
    --many;
  }
  if (many == 0) return;
  for (const net::peer_id id : told_.back().tellers) t_.post(id, address_request{});
}

CAUSEWAY_DECL void evidence::ask_anybody() {
  std::vector<net::peer_id> others;
  bool all_answered = true;
  for (const auto& [id, p] : t_.peers) {
    if (!p.up || id == t_.self || told_.back().tellers.contains(id)) continue;
    others.push_back(id);
    if (p.answered) continue;
    all_answered = false;
    t_.post(id, question());
  }
  if (!all_answered) return;
  for (std::size_t i = 0; i < std::min(asked_by_newcomers, others.size()); ++i) {
    t_.post(others[turn_++ % others.size()], question());
  }
}

CAUSEWAY_DECL confirmation evidence::answer() const {
  const auto& newest = t_.votes.durable().newest;
  return {t_.votes.newest(), newest ? newest->parent : 0, t_.votes.accepted_chain()};
}

CAUSEWAY_DECL void evidence::reply(net::peer_id to, const inquiry& m) {
  t_.entry(to).asks = t_.votes.newest().older_than(m.about);
  t_.post(to, answer());
}

CAUSEWAY_DECL void evidence::tell_who_asked() {
  for (auto& [id, p] : t_.peers) {
    if (std::exchange(p.asks, false)) t_.post(id, answer());
  }
}

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_IMPL_EVIDENCE_IPP
