// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_IMPL_EVERY_SECONDS_IPP
#define CAUSEWAY_AXIS_IMPL_EVERY_SECONDS_IPP

#include <causeway/axis/every_seconds.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

CAUSEWAY_DECL result<void> every_seconds::check(std::size_t) const {
  if (options_.seconds >= 0 && options_.fewest_steps >= 1) return {};
  return fail(errc::invalid_argument, "every_seconds", "needs 0 seconds or more, and `fewest_steps` of 1 or more");
}

CAUSEWAY_DECL void every_seconds::decide(const std::vector<std::uint64_t>& all) {
  std::uint64_t steps = 0;
  all_ended_ = true;
  for (std::size_t i = 0; i + 1 < all.size(); i += 2) {
    steps += std::min(all[i], std::uint64_t{1} << 48U);
    all_ended_ = all_ended_ && all[i + 1] != 0;
  }
  if (steps >= options_.fewest_steps || (all_ended_ && steps > 0)) ++exchanges_;
  ++meetings_;
  passed_ = duration{0};
  met_ = true;
}

CAUSEWAY_DECL std::uint64_t every_seconds::mean_of(const std::vector<std::uint64_t>& steps) {
  std::uint64_t sum = 0, peers = 0;
  for (const std::uint64_t s : steps) {
    sum += std::min(s, std::uint64_t{1} << 48U);
    peers += s > 0 ? 1 : 0;
  }
  return peers == 0 ? 1 : std::max<std::uint64_t>(1, sum / peers);
}

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#endif  // CAUSEWAY_AXIS_IMPL_EVERY_SECONDS_IPP
