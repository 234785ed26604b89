// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_SQUARE_CUBE_IPP
#define CAUSEWAY_PLAN_IMPL_SQUARE_CUBE_IPP

#include <causeway/plan/square_cube.hpp>

#include <limits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL double square_cube::ratio() const noexcept {
  const double sent = transfer + latency;
  return sent > 0 ? compute / sent : std::numeric_limits<double>::infinity();
}

CAUSEWAY_DECL square_cube check_square_cube(double compute, double bytes, const link_cost& link, std::size_t under_way) {
  CAUSEWAY_EXPECT(under_way > 0);
  return {compute, 8 * bytes / link.bandwidth, link.delay / static_cast<double>(under_way)};
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_SQUARE_CUBE_IPP
