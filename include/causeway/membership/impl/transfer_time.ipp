// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_IMPL_TRANSFER_TIME_IPP
#define CAUSEWAY_MEMBERSHIP_IMPL_TRANSFER_TIME_IPP

// Bodies of membership/transfer_time.hpp.

#include <causeway/membership/transfer_time.hpp>

namespace causeway::inline CAUSEWAY_ABI::membership::detail {

CAUSEWAY_DECL void transfer_time::ask(net::peer_id id, duration needs, time_point now) {
  if (needs <= duration{0}) return;
  entry& e = asked_[id];
  needs = std::min(needs, longest);
  if (!e.until) {
    e.needs = needs;
  } else {
    e.until = std::max(*e.until, std::min(now + wait_for(needs), e.latest));
  }
}

CAUSEWAY_DECL std::optional<duration> transfer_time::give(net::peer_id id, std::size_t ready, time_point now) {
  const auto at = asked_.find(id);
  if (at == asked_.end() || at->second.until || at->second.needs == duration{0}) return std::nullopt;
  entry& e = at->second;
  const auto shares = static_cast<duration::rep>(2 * std::max<std::size_t>(ready, 1)) << std::min(e.in_vain, 6U);
  const duration most = (now - last_) / shares;
  if (e.needs > most) return std::nullopt;
  e.until = now + wait_for(e.needs);
  e.latest = now + wait_for(most);
  return e.needs;
}

CAUSEWAY_DECL time_point transfer_time::until(net::peer_id id, time_point now) {
  const auto at = asked_.find(id);
  if (at == asked_.end() || !at->second.until) return now;
  if (*at->second.until > now) return *at->second.until;
  at->second = {duration{0}, std::nullopt, {}, at->second.in_vain + 1};
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
  at->second = {duration{0}, std::nullopt, {}, at->second.in_vain + (waited ? 1U : 0U)};
  if (at->second.in_vain == 0) asked_.erase(at);
}

}  // namespace causeway::inline CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_IMPL_TRANSFER_TIME_IPP
