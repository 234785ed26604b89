// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_IMPL_GROWING_IPP
#define CAUSEWAY_AXIS_IMPL_GROWING_IPP

// Bodies of axis/growing.hpp.

#include <causeway/axis/growing.hpp>

namespace causeway::inline CAUSEWAY_ABI::axis {

CAUSEWAY_DECL result<void> growing::check(std::size_t) const {
  if (options_.factor >= 1 && options_.most >= options_.local_steps && options_.tolerance >= 0) {
    return detail::check_steps(options_.local_steps, "growing");
  }
  return fail(errc::invalid_argument, "growing",
              "`factor` must be at least 1, `most` at least local_steps, and `tolerance` not negative");
}

}  // namespace causeway::inline CAUSEWAY_ABI::axis

#endif  // CAUSEWAY_AXIS_IMPL_GROWING_IPP
