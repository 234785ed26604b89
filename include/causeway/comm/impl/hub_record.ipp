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

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_IMPL_HUB_RECORD_IPP
