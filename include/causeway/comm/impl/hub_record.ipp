// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_IMPL_HUB_RECORD_IPP
#define CAUSEWAY_COMM_IMPL_HUB_RECORD_IPP

// Bodies of comm/hub_record.hpp.

#include <causeway/comm/hub_record.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

CAUSEWAY_DECL chosen_hub choose_hub(std::span<const hub_claim> claims, std::uint64_t fresh) {
  std::uint64_t newest = 0;
  for (const hub_claim& c : claims) newest = c.follows <= fresh ? std::max(newest, c.follows) : newest;
  for (net::peer_index p = 0; p < claims.size(); ++p) {
    if (newest != 0 && claims[p].serves == newest) return {p, newest};
  }
  return {0, fresh};
}

CAUSEWAY_DECL std::uint64_t common_steps(std::span<const hub_claim> claims, std::uint64_t before) {
  std::vector<std::uint64_t> steps;
  for (const hub_claim& c : claims) steps.push_back(c.steps);
  if (steps.empty()) return before;
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>((steps.size() - 1) / 2);
  std::nth_element(steps.begin(), middle, steps.end());
  return std::max(before, *middle);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_IMPL_HUB_RECORD_IPP
