// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_TRANSFER_IMPL_TRANSFER_HOLDERS_IPP
#define CAUSEWAY_MEMBERSHIP_TRANSFER_IMPL_TRANSFER_HOLDERS_IPP

// Bodies of membership/transfer/transfer_holders.hpp.

#include <causeway/membership/transfer/transfer_holders.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

CAUSEWAY_DECL transfer_holders::transfer_holders(const transfer_options& options)
    : options_{options}, gaps_{options.arrival} {}

CAUSEWAY_DECL transfer_holder& transfer_holders::known(net::peer_id peer) {
  return all_.try_emplace(peer, peer, options_).first->second;
}

CAUSEWAY_DECL void transfer_holders::erase(net::peer_id peer) { all_.erase(peer); }

CAUSEWAY_DECL transfer_holder* transfer_holders::find(net::peer_id peer) {
  const auto at = all_.find(peer);
  return at == all_.end() ? nullptr : &at->second;
}

CAUSEWAY_DECL void transfer_holders::begin_anew() {
  for (auto& [id, h] : all_) {
    const bool up = h.up;
    h = transfer_holder{id, options_};
    h.up = up;
  }
}

CAUSEWAY_DECL auto transfer_holders::outlook() const -> prospects {
  prospects p;
  for (const auto& [id, h] : all_) {
    p.eligible |= h.eligible();
    p.within_reach |= h.eligible() && h.up;
    p.answers |= h.eligible() && h.up && h.overdue < options_.max_overdue;
  }
  return p;
}

CAUSEWAY_DECL error transfer_holders::none_left(std::uint64_t round, std::uint64_t newest_seen) const {
  const std::string name = "round " + std::to_string(round);
  if (any_listed(&transfer_holder::gone)) {
    return fail(errc::not_found, "state transfer",
                "the state of " + name + " is gone; the newest round heard of is " + std::to_string(newest_seen));
  }
  if (any_listed(&transfer_holder::banned)) {
    return fail(errc::corrupt, "state transfer", "all holders of " + name + " sent bytes that do not fit its hash");
  }
  return fail(errc::peer_lost, "state transfer", "no holder of " + name + " is within reach");
}

CAUSEWAY_DECL transfer_holder* transfer_holders::best(time_point now) {
  const auto rank = [](const transfer_holder& h) { return std::pair{h.overdue, h.bad}; };
  transfer_holder* found = nullptr;
  for (auto& [id, h] : all_) {
    if (h.usable(now) && (found == nullptr || rank(h) < rank(*found))) found = &h;
  }
  return found;
}

CAUSEWAY_DECL time_point transfer_holders::next_deadline(time_point now) const {
  time_point next = no_deadline;
  for (const auto& [id, h] : all_) {
    if (!h.eligible() || !h.up) continue;
    if (h.waited_for()) next = std::min(next, deadline(h));
    if (h.not_before > now) next = std::min(next, h.not_before);
  }
  return next;
}

CAUSEWAY_DECL std::optional<std::uint64_t> transfer_holders::worth_asking_twice(const transfer_holder& h,
                                                                                const transfer_plan& plan,
                                                                                time_point now) const {
  if (!h.pace.known() || h.overdue > 0) return std::nullopt;
  std::optional<std::uint64_t> last;
  time_point latest = now + h.pace.answer_in(h.active) * 5 / 4;  // a quarter more: it costs bytes
  for (const auto& [id, other] : all_) {
    if (id == h.id || other.active == 0) continue;
    for (const auto& [key, r] : other.asked) {
      if (r.at != transfer_holder::standing::active || (key & transfer_holder::manifest_bit) != 0) continue;
      if (plan.askers(key) > 1 || h.expects(key) || h.gave_bad(key)) continue;
      const time_point comes = comes_at(other, r);
      if (comes <= latest) continue;
      latest = comes;
      last = key;
    }
  }
  return last;
}

CAUSEWAY_DECL bool transfer_holders::any_listed(bool transfer_holder::*what) const {
  return std::any_of(all_.begin(), all_.end(),
                     [&](const auto& entry) { return entry.second.listed && entry.second.*what; });
}

CAUSEWAY_DECL duration transfer_holders::patience(const transfer_holder& h) const {
  if (h.pace.known()) return h.pace.patience();
  if (gaps_.count() == 0) return options_.first_answer;
  return std::min(gaps_.patience() * 2, options_.first_answer);
}

CAUSEWAY_DECL time_point transfer_holders::comes_at(const transfer_holder& h, const transfer_holder::request& r) const {
  return h.pace.known() ? h.waiting_since + h.pace.gap() * h.place_of(r) : deadline(h);
}

}}}  // namespace causeway::CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_TRANSFER_IMPL_TRANSFER_HOLDERS_IPP
