// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_IMPL_CANDIDATE_IPP
#define CAUSEWAY_MEMBERSHIP_IMPL_CANDIDATE_IPP

#include <causeway/membership/candidate.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

CAUSEWAY_DECL candidate::candidate(peer_table& t) : t_{t} {}

CAUSEWAY_DECL bool candidate::has_quorum() const { return is_quorum(t_.members(), {granted_.begin(), granted_.end()}); }

CAUSEWAY_DECL void candidate::schedule(net::peer_id lost) {
  if (next_try_ == no_deadline) next_try_ = t_.now + turn(lost) + (lost == 0 ? t_.settings.heartbeat : duration{0});
}

CAUSEWAY_DECL void candidate::renew() {
  leads_ = true;
  if (phase_ == phase::none && next_try_ == no_deadline) next_try_ = t_.now;
}

CAUSEWAY_DECL void candidate::stand_back() {
  phase_ = phase::none;
  next_try_ = no_deadline;
  tries_ = 0;
  leads_ = false;
}

CAUSEWAY_DECL void candidate::run() {
  term_ = std::max(t_.votes.durable().floor.term, seen_) + 1;
  if (!t_.votes.promise(term_, t_.self, t_.now)) return;
  begin(phase::campaign);
}

CAUSEWAY_DECL void candidate::wake() {
  if (t_.now < next_try_) return;
  if (!t_.votes.is_member(t_.self) && !leads_) return stand_back();
  ++tries_;
  term_ = std::max(t_.votes.durable().floor.term, seen_) + 1;
  begin(phase::trial);
}

CAUSEWAY_DECL void candidate::on(net::peer_id from, const report& m) {
  if (!t_.acquainted(from)) return;
  const std::uint32_t known = std::max(seen_, t_.known_term());
  if (m.floor.term > known && t_.allow_term(m.floor.term, from, known)) seen_ = m.floor.term;
  if (phase_ == phase::trial && m.trial_term == term_) granted_.insert(from);
  if (phase_ == phase::campaign && m.floor.term == term_ && m.promised_to == t_.self) granted_.insert(from);
}

CAUSEWAY_DECL void candidate::peer_up(net::peer_id id) {
  if (phase_ != phase::none && t_.votes.is_member(id)) t_.post(id, question());
}

CAUSEWAY_DECL bool candidate::won() {
  if (phase_ == phase::trial && has_quorum()) run();
  if (phase_ != phase::campaign || !has_quorum()) return false;
  const durable_record& d = t_.votes.durable();
  const bool ours = d.floor.term == term_ && d.promised_to == t_.self;  // or we promised a later one meanwhile
  stand_back();
  return ours;
}

CAUSEWAY_DECL void candidate::begin(phase p) {
  phase_ = p;
  granted_ = {t_.self};
  const std::uint32_t wait = std::min<std::uint32_t>(2 + tries_, 8);
  const auto jitter = duration{static_cast<std::int64_t>(mix(t_.self, term_, tries_) %
                                                         static_cast<std::uint64_t>(t_.settings.heartbeat.count() + 1))};
  next_try_ = t_.now + wait * t_.settings.heartbeat + jitter;
  for (const net::peer_id id : t_.members()) {
    if (id != t_.self && !t_.up(id) && !t_.address_of(id).empty()) t_.out->dial(t_.address_of(id));
  }
  std::vector<net::peer_id> others = t_.members();
  std::erase(others, t_.self);
  t_.post_all(others, question());
}

CAUSEWAY_DECL duration candidate::turn(net::peer_id lost) const {
  const auto& c = t_.members();
  const auto place = [&](net::peer_id id) { return std::find(c.begin(), c.end(), id) - c.begin(); };
  const auto n = static_cast<std::ptrdiff_t>(c.size());
  if (n == 0) return duration{0};
  const std::ptrdiff_t first = (place(lost) + 1) % (n + 1) % n;  // nobody: the first in C
  const std::ptrdiff_t k = (place(t_.self) - first + n) % n;
  return std::min<std::int64_t>(k, 8) * t_.settings.heartbeat / 2 +
         std::max<std::int64_t>(k - 8, 0) * t_.settings.heartbeat / 8;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_IMPL_CANDIDATE_IPP
