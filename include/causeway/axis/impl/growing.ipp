// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_IMPL_GROWING_IPP
#define CAUSEWAY_AXIS_IMPL_GROWING_IPP

#include <causeway/axis/growing.hpp>

#include <cmath>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

CAUSEWAY_DECL float growing::rate_factor(std::uint32_t since) const {
  return std::pow(options_.cycle_end, static_cast<float>(since) / static_cast<float>(steps_));
}

CAUSEWAY_DECL result<void> growing::check(std::size_t) const {
  if (options_.factor >= 1 && options_.most >= options_.local_steps && options_.tolerance >= 0 && options_.cycle_end > 0 &&
      options_.cycle_end <= 1) {
    return detail::check_steps(options_.local_steps, "growing");
  }
  return fail(
      errc::invalid_argument, "growing",
      "`factor` must be at least 1, `most` at least local_steps, `tolerance` not negative, and `cycle_end` above 0 and "
      "at most 1");
}

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#endif  // CAUSEWAY_AXIS_IMPL_GROWING_IPP
