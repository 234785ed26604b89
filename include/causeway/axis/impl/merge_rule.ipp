// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_IMPL_MERGE_RULE_IPP
#define CAUSEWAY_AXIS_IMPL_MERGE_RULE_IPP

#include <causeway/axis/merge_rule.hpp>

#include <cmath>
#include <limits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

CAUSEWAY_DECL float compensated::scale(std::span<const float> local, std::span<const float> shared,
                                       std::span<const float> at_send) const {
  double walked = 0, correction = 0;
  for (std::size_t i = 0; i < local.size(); ++i) {
    const double g = double{at_send[i]} - double{local[i]};
    const double c = g * g * (double{shared[i]} - double{at_send[i]});
    walked += g * g;
    correction += c * c;
  }
  const double ratio = correction > 0 ? std::sqrt(walked / correction) : 0.0;
  const auto most = double{std::numeric_limits<float>::max()};
  return ratio <= most ? lambda * static_cast<float>(ratio) : 0.0F;
}

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#endif  // CAUSEWAY_AXIS_IMPL_MERGE_RULE_IPP
