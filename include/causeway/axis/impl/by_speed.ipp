// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_IMPL_BY_SPEED_IPP
#define CAUSEWAY_AXIS_IMPL_BY_SPEED_IPP

#include <causeway/axis/by_speed.hpp>

#include <algorithm>
#include <iterator>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

CAUSEWAY_DECL result<void> by_speed::check(std::size_t) const {
  CAUSEWAY_TRY(detail::check_steps(options_.local_steps, "by_speed"));
  if (options_.percentile > 0 && options_.percentile <= 1) return {};
  return fail(errc::invalid_argument, "by_speed", "`percentile` must be above 0 and at most 1");
}

CAUSEWAY_DECL std::uint32_t by_speed::steps_for(double speed, std::span<const double> speeds) const {
  std::vector<double> known;
  std::copy_if(speeds.begin(), speeds.end(), std::back_inserter(known), is_known);
  if (known.empty() || !is_known(speed)) return options_.local_steps;
  std::sort(known.begin(), known.end());
  const double rank = std::ceil(options_.percentile * static_cast<double>(known.size()));
  const double pace = known[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
  constexpr double slack = 1 + 1e-9;  // half the speed is half the steps, however it was rounded
  const double steps = std::floor(std::min(speed / pace * slack, 1.0) * options_.local_steps);
  return static_cast<std::uint32_t>(std::max(steps, 1.0));
}

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#endif  // CAUSEWAY_AXIS_IMPL_BY_SPEED_IPP
