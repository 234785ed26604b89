// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_IMPL_ATTENDANCE_IPP
#define CAUSEWAY_MEMBERSHIP_IMPL_ATTENDANCE_IPP

// Bodies of membership/attendance.hpp.

#include <causeway/membership/attendance.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

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
