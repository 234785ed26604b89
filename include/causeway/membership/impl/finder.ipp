// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_IMPL_FINDER_IPP
#define CAUSEWAY_MEMBERSHIP_IMPL_FINDER_IPP

#include <causeway/membership/finder.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

CAUSEWAY_DECL finder::finder(peer_table& t, follower& f) : t_{t}, follower_{f} {}

CAUSEWAY_DECL void finder::seek(const std::vector<std::string>& addresses) {
  for (const std::string& a : addresses) hear_of(a);
  t_.seeds.insert(addresses.begin(), addresses.end());
  tries_ = 0;
  next_ = reached_ = t_.now;
}

CAUSEWAY_DECL void finder::hear_of(const std::string& address) {
  if (!address.empty() && address != t_.settings.address && heard_.size() < max_members) heard_.insert(address);
}

CAUSEWAY_DECL void finder::on(net::peer_id from, const guide& m) {
  if (t_.votes.newest().known() && !t_.acquainted(from)) return t_.reject(reject_reason::not_a_member, from);
  if (t_.acquainted(from)) t_.vouched = m.leader.peer;
  hear_of(m.leader.address);
  for (const located_peer& p : m.others) hear_of(p.address);
  if (m.leader.peer == 0 || m.leader.peer == t_.self || m.term < t_.votes.durable().floor.term) return;
  if (t_.up(m.leader.peer)) {
    t_.post(m.leader.peer, follower_.make_report());
  } else if (!m.leader.address.empty()) {
    t_.out->dial(m.leader.address);
  }
}

CAUSEWAY_DECL void finder::peer_up(net::peer_id id) {
  if (follower_.leader() == 0) t_.post(id, follower_.make_report());
}

CAUSEWAY_DECL void finder::peer_down(net::peer_id id) {
  if (t_.votes.is_member(id)) reached_ = t_.now;
}

CAUSEWAY_DECL void finder::wake() {
  if (follower_.leader() != 0) {
    next_ = no_deadline;
    tries_ = 0;
    return;
  }
  if (next_ == no_deadline) next_ = reached_ = t_.now;
  if (t_.now < next_) return;
  dial_some();
  ask_some();
  ++tries_;
  next_ = t_.now + std::min<std::int64_t>(std::int64_t{1} << std::min(tries_ / 4, 4U), 8) * t_.settings.heartbeat;
}

CAUSEWAY_DECL duration finder::alone_for(time_point now) const {
  const bool found = follower_.leader() != 0 || next_ == no_deadline || somebody_there();
  return found ? duration{0} : now - reached_;
}

CAUSEWAY_DECL bool finder::somebody_there() const {
  return !t_.members_that([&](net::peer_id id, const peer_entry& p) { return p.up && id != t_.self; }).empty();
}

CAUSEWAY_DECL void finder::dial_some() {
  std::set<std::string> known = heard_;
  for (const located_peer& p : t_.votes.durable().others) known.insert(p.address);
  for (const auto& [id, p] : t_.peers) {
    if (!p.up && !p.address.empty()) known.insert(p.address);
  }
  known.erase(t_.settings.address);
  for (const auto& [id, p] : t_.peers) {
    if (p.up) known.erase(p.address);
  }
  const std::vector<std::string> targets{known.begin(), known.end()};
  for (std::size_t i = 0; i < std::min(at_once, targets.size()); ++i) t_.out->dial(targets[dialled_++ % targets.size()]);
}

CAUSEWAY_DECL void finder::ask_some() {
  std::vector<net::peer_id> there;
  for (const auto& [id, p] : t_.peers) {
    if (p.up && id != t_.self) there.push_back(id);
  }
  for (std::size_t i = 0; i < std::min(at_once, there.size()); ++i) {
    t_.post(there[asked_++ % there.size()], follower_.make_report());
  }
}

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_IMPL_FINDER_IPP
