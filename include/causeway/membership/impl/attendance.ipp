// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_IMPL_ATTENDANCE_IPP
#define CAUSEWAY_MEMBERSHIP_IMPL_ATTENDANCE_IPP

#include <causeway/membership/attendance.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

CAUSEWAY_DECL transfer_time::transfer_time(time_point now, duration beat) : last_{now}, beat_{beat} {}

CAUSEWAY_DECL void transfer_time::ask(net::peer_id id, const transfer_need& needs, time_point now) {
  if (needs.takes <= duration{0}) return;
  entry& e = asked_[id];
  const duration takes = std::min(needs.takes, longest);
  if (!e.until) {
    e.needs = {takes, needs.worth};
    e.asked_at = now;
  } else {
    const duration most = needs.worth > duration{0} ? std::min(takes, needs.worth) : takes;
    e.until = std::max(*e.until, std::min(now + wait_for(most), e.latest));
  }
}

CAUSEWAY_DECL std::optional<duration> transfer_time::give(net::peer_id id, std::size_t ready, time_point now) {
  const auto at = asked_.find(id);
  if (at == asked_.end() || at->second.until || at->second.needs.takes == duration{0}) return std::nullopt;
  entry& e = at->second;
  const auto shares = static_cast<duration::rep>(2 * std::max<std::size_t>(ready, 1)) << std::min(e.in_vain, 6U);
  const duration most = (now - last_) / shares;
  const bool under_way = e.needs.worth > duration{0};
  const duration left = under_way ? std::max(e.needs.takes - (now - e.asked_at), duration{0}) : e.needs.takes;
  if (left > most || (under_way && left > e.needs.worth)) return std::nullopt;
  e.until = now + wait_for(left);
  e.latest = now + wait_for(most);
  return left;
}

CAUSEWAY_DECL time_point transfer_time::until(net::peer_id id, time_point now) {
  const auto at = asked_.find(id);
  if (at == asked_.end() || !at->second.until) return now;
  if (*at->second.until > now) return *at->second.until;
  at->second = {.in_vain = at->second.in_vain + 1};
  last_ = now;
  return now;
}

CAUSEWAY_DECL void transfer_time::took_part(net::peer_id id, time_point now) {
  const auto at = asked_.find(id);
  if (at == asked_.end()) return;
  if (at->second.until) last_ = now;
  asked_.erase(at);
}

CAUSEWAY_DECL void transfer_time::forget(net::peer_id id, time_point now) {
  const auto at = asked_.find(id);
  if (at == asked_.end()) return;
  const bool waited = at->second.until.has_value();
  if (waited) last_ = now;
  at->second = {.in_vain = at->second.in_vain + (waited ? 1U : 0U)};
  if (at->second.in_vain == 0) asked_.erase(at);
}

CAUSEWAY_DECL void roll_call::called(time_point now) {
  before_ = last_;
  last_ = now;
}

CAUSEWAY_DECL net::peer_id roll_call::owes_answer(const peer_table& t, const std::vector<net::peer_id>& who) const {
  const auto owes = [&](net::peer_id id) { return silent_since(t, id, last_); };
  const auto at = std::find_if(who.begin(), who.end(), owes);
  return at == who.end() ? 0 : *at;
}

CAUSEWAY_DECL bool roll_call::is_overdue(const peer_table& t, net::peer_id id) const {
  return silent_since(t, id, t.now >= due() ? last_ : before_);
}

CAUSEWAY_DECL bool roll_call::silent_since(const peer_table& t, net::peer_id id, time_point call) {
  const peer_entry* const p = t.find(id);
  return id != t.self && (p == nullptr || p->heard < call);
}

CAUSEWAY_DECL attendance::attendance(peer_table& t) : waits{t.settings}, calls{t.settings.heartbeat}, t_{t} {}

CAUSEWAY_DECL void attendance::begin() {
  term = t_.votes.durable().floor.term;
  transfers = transfer_time{t_.now, t_.settings.heartbeat};
  calls = roll_call{t_.settings.heartbeat};
}

CAUSEWAY_DECL void attendance::begin_round() {
  barrier = {term, 0};
  waits.begin_round(t_.now);
  for (const auto& [id, p] : t_.peers) {  // who reported ahead of us does not do so again
    if (usable(p) && p.said->ready) waits.somebody_ready(t_.now, id);
  }
  enough_samples = false;
}

CAUSEWAY_DECL bool attendance::matters(net::peer_id from) const {
  const std::size_t least = std::max({least_peers(), first_peers(), (t_.members().size() + 1) / 2});
  if (waits.ready_count() < least) return false;
  return blocker == 0 || blocker == from || waits.ready_count() >= look_again_at_;
}

CAUSEWAY_DECL bool attendance::follows_us(const peer_entry& p) const {
  return p.up && p.said && p.said->floor.term == term && p.said->promised_to == t_.self;
}

CAUSEWAY_DECL bool attendance::usable(const peer_entry& p) const {
  return follows_us(p) && !p.said->partial && p.said->floor >= barrier && p.said->newest == t_.votes.newest();
}

CAUSEWAY_DECL bool attendance::can_take_part(net::peer_id id, const peer_entry& p) const {
  const ledger& samples = t_.votes.durable().samples;
  return !calls.is_overdue(t_, id) && usable(p) && p.said->ready && p.said->holds &&
         (samples.quota() == 0 || p.said->samples <= samples.held_count(id));
}

CAUSEWAY_DECL std::vector<net::peer_id> attendance::participants(bool paused_too) const {
  const auto fit = [&](net::peer_id id, const peer_entry& p) {
    return can_take_part(id, p) && (paused_too || p.pause == 0);
  };
  std::vector<net::peer_id> who = t_.members_that(fit);
  for (const auto& [id, p] : t_.peers) {
    if (who.size() < max_members && !t_.votes.is_member(id) && fit(id, p)) who.push_back(id);
  }
  return who;
}

CAUSEWAY_DECL bool attendance::enough(const std::vector<net::peer_id>& who) const {
  return waits.ready_count() >= first_peers() && who.size() >= least_peers() && is_quorum(t_.members(), who);
}

CAUSEWAY_DECL bool attendance::are_most(const std::vector<net::peer_id>& who) const {
  std::size_t all = 0;
  std::size_t ready = 0;
  for (const auto& [id, p] : t_.peers) {
    if (p.up && p.pause == 0 && !is_newcomer(id)) ++all;
  }
  for (const net::peer_id id : who) ready += is_newcomer(id) ? 0U : 1U;
  return 2 * ready >= all;
}

CAUSEWAY_DECL bool attendance::gathers_on(const std::vector<net::peer_id>& who) const {
  if (t_.settings.round_samples == 0 || enough_samples) return false;
  return late_peers({who.begin(), who.end()}) > 0;
}

CAUSEWAY_DECL bool attendance::is_newcomer(net::peer_id id) const {
  return !t_.votes.is_member(id) && t_.votes.durable().samples.held(id).empty();
}

CAUSEWAY_DECL time_point attendance::wait_for_others(const std::vector<net::peer_id>& who) {
  const std::set<net::peer_id> in{who.begin(), who.end()};
  const std::size_t late = late_peers(in);
  look_again_at_ = waits.ready_count() + (late + 1) / 2;
  const time_point grace = waits.grace_deadline(static_cast<double>(late) / static_cast<double>(late + who.size()));
  const bool has_work = !handed_out(t_.votes.durable().samples);  // for newcomers
  time_point until = t_.now;
  for (const auto& [id, p] : t_.peers) {
    if (!p.up || p.pause > 0 || in.contains(id)) continue;
    const bool expected = !is_newcomer(id);
    const bool ends_the_last = follows_us(p) && p.said->ready && p.said->floor < barrier;
    if (ends_the_last) until = std::max(until, waits.answer_deadline());
    if (expected && p.unwaited == 0) until = std::max(until, grace);
    if (expected || has_work) until = std::max(until, time_for_transfer(id, who.size()));
    if (until > t_.now && blocker == 0) blocker = id;
  }
  return until;
}

CAUSEWAY_DECL std::size_t attendance::late_peers(const std::set<net::peer_id>& in) const {
  std::size_t late = 0;
  for (const auto& [id, p] : t_.peers) {
    if (p.up && p.pause == 0 && p.unwaited == 0 && !in.contains(id) && !is_newcomer(id)) ++late;
  }
  return late;
}

CAUSEWAY_DECL time_point attendance::time_for_transfer(net::peer_id id, std::size_t ready) {
  if (const auto given = transfers.give(id, ready, t_.now)) {
    t_.out->log(severity::info, "round " + std::to_string(t_.votes.newest().round + 1) + " waits up to " +
                                    std::to_string(seconds(transfers.until(id, t_.now) - t_.now)) +
                                    " s for the transfer of peer " + std::to_string(id));
    t_.out->give_time(id, *given);
  }
  return transfers.until(id, t_.now);
}

CAUSEWAY_DECL void attendance::began(const std::vector<net::peer_id>& who, bool again) {
  const std::set<net::peer_id> in{who.begin(), who.end()};
  for (auto& [id, p] : t_.peers) {
    const bool takes_part = in.contains(id);
    if (takes_part) transfers.took_part(id, t_.now);
    if (takes_part && t_.votes.is_member(id)) p.wasted = p.unwaited = 0;
    if (p.pause > 0 && !takes_part) --p.pause;
    if (again) continue;
    if (p.unwaited > 0) {
      --p.unwaited;
    } else if (!takes_part && p.up && !is_newcomer(id)) {
      p.unwaited = 1U << std::min(p.wasted++, 6U);
    }
  }
}

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_IMPL_ATTENDANCE_IPP
