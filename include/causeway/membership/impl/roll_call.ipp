// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_IMPL_ROLL_CALL_IPP
#define CAUSEWAY_MEMBERSHIP_IMPL_ROLL_CALL_IPP

// Bodies of membership/roll_call.hpp.

#include <causeway/membership/roll_call.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

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

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_IMPL_ROLL_CALL_IPP
