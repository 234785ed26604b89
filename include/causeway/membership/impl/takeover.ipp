// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_IMPL_TAKEOVER_IPP
#define CAUSEWAY_MEMBERSHIP_IMPL_TAKEOVER_IPP

// Bodies of membership/takeover.hpp.

#include <causeway/membership/takeover.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

CAUSEWAY_DECL void takeover::begin_round(const ledger& samples, const std::vector<net::peer_id>& members) {
  const auto holds = [&](net::peer_id id) { return !samples.held(id).empty(); };
  if (std::any_of(members.begin(), members.end(), holds)) idle_since_.reset();
}

CAUSEWAY_DECL time_point takeover::due(const ledger& samples, std::size_t peers, const wait_times& waits, time_point now) {
  if (samples.complete()) return no_deadline;
  if (!idle_since_) idle_since_ = now;
  const std::uint64_t missing = samples.budget() - samples.done();
  return *idle_since_ + waits.training_time((missing + peers - 1) / peers);
}

CAUSEWAY_DECL std::uint64_t median(std::vector<std::uint64_t> brought) {
  if (brought.empty()) return 0;
  const auto middle = brought.begin() + static_cast<std::ptrdiff_t>(brought.size() / 2);
  std::nth_element(brought.begin(), middle, brought.end());
  return *middle;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_IMPL_TAKEOVER_IPP
