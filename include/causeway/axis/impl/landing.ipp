// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_IMPL_LANDING_IPP
#define CAUSEWAY_AXIS_IMPL_LANDING_IPP

// Bodies of axis/landing.hpp.

#include <causeway/axis/landing.hpp>

namespace causeway::inline CAUSEWAY_ABI::axis {

CAUSEWAY_DECL kernels::compensation compensated::coefficients() const noexcept {
  return {.steps = static_cast<float>(steps), .lambda = lambda};
}

}  // namespace causeway::inline CAUSEWAY_ABI::axis

#endif  // CAUSEWAY_AXIS_IMPL_LANDING_IPP
