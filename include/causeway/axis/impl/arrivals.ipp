// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_IMPL_ARRIVALS_IPP
#define CAUSEWAY_AXIS_IMPL_ARRIVALS_IPP

#include <causeway/axis/arrivals.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

CAUSEWAY_DECL result<void> one_by_one::check(std::uint32_t) const {
  if (grace_seconds >= 0 && most_ahead >= 1) return {};
  return fail(errc::invalid_argument, "one_by_one",
              "the grace period must not be negative (0 is none), and `most_ahead` at least 1");
}

CAUSEWAY_DECL result<void> quorum::check(std::uint32_t peers) const {
  if (least >= 1 && least <= peers && gamma >= 0 && cap_seconds >= 0 && most_ahead >= 1) return {};
  return fail(errc::invalid_argument, "quorum",
              "`least` must be between 1 and the number of peers, `gamma` and `cap_seconds` not negative, and "
              "`most_ahead` at least 1");
}

CAUSEWAY_DECL double quorum::closes_after(const waiting_pushes& g) const noexcept {
  const std::size_t enough = std::clamp<std::size_t>(g.expected, 1, least);
  if (g.arrived.size() < enough) return std::numeric_limits<double>::infinity();
  const double quorum_after = g.arrived[enough - 1];
  return quorum_after + std::clamp(gamma * (g.slack - quorum_after), 0.0, cap_seconds);
}

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#endif  // CAUSEWAY_AXIS_IMPL_ARRIVALS_IPP
