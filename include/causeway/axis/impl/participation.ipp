// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_IMPL_PARTICIPATION_IPP
#define CAUSEWAY_AXIS_IMPL_PARTICIPATION_IPP

#include <causeway/axis/participation.hpp>

#include <algorithm>
#include <cmath>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

CAUSEWAY_DECL result<void> sampled_peers::check() const {
  if (share > 0 && share <= 1) return {};
  return fail(errc::invalid_argument, "sampled_peers", "the share must be above 0 and at most 1");
}

CAUSEWAY_DECL bool sampled_peers::contributes(const group_question& q) const {
  const auto wanted = std::max<std::int64_t>(1, std::llround(share * q.peers));
  const auto order = detail::shuffled(q.peers, rng{q.seed, mix(stream, q.number)});
  const auto place = std::find(order.begin(), order.end(), q.self) - order.begin();
  return place < wanted;
}

CAUSEWAY_DECL result<void> dropped_rows::check() const {
  if (probability >= 0 && probability < 1) return {};
  return fail(errc::invalid_argument, "dropped_rows", "the probability must be at least 0 and below 1");
}

CAUSEWAY_DECL bool dropped_rows::contributes(const group_question& q) const {
  if (kept(q, q.self)) return true;
  if (q.self != 0) return false;
  for (net::peer_index p = 0; p < q.peers; ++p) {
    if (kept(q, p)) return false;
  }
  return true;
}

CAUSEWAY_DECL bool dropped_rows::kept(const group_question& q, net::peer_index p) const {
  return rng{q.seed, mix(stream, q.number, std::uint64_t{p})}.uniform() >= probability;
}

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#endif  // CAUSEWAY_AXIS_IMPL_PARTICIPATION_IPP
