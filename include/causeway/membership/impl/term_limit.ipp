// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_IMPL_TERM_LIMIT_IPP
#define CAUSEWAY_MEMBERSHIP_IMPL_TERM_LIMIT_IPP

// Bodies of membership/term_limit.hpp.

#include <causeway/membership/term_limit.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

CAUSEWAY_DECL bool term_limit::allow(std::uint32_t known, std::uint32_t wanted, time_point now) {
  if (wanted <= known) return true;
  refill(now);
  const std::uint64_t growth = wanted - known;
  if (growth > saved_ && now - last_refused_ > longest_between * heartbeat_) refused_since_ = now;
  if (growth > saved_ + beats(now - refused_since_)) {
    last_refused_ = now;
    return false;
  }
  saved_ -= std::min(saved_, growth);
  refused_since_ = last_refused_ = now;
  return true;
}

CAUSEWAY_DECL std::uint64_t term_limit::beats(duration d) const {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(d / std::max(heartbeat_, duration{1}), 0));
}

CAUSEWAY_DECL void term_limit::refill(time_point now) {
  const std::uint64_t more = beats(now - filled_);
  if (more == 0) return;
  saved_ = std::min(burst, saved_ + more);
  filled_ = now;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_IMPL_TERM_LIMIT_IPP
