// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_TRANSFER_IMPL_TRANSFER_TIME_IPP
#define CAUSEWAY_MEMBERSHIP_TRANSFER_IMPL_TRANSFER_TIME_IPP

// Bodies of membership/transfer/transfer_time.hpp.

#include <causeway/membership/transfer/transfer_time.hpp>

#include <algorithm>

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

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_TRANSFER_IMPL_TRANSFER_TIME_IPP
