// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_IMPL_GATHER_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_GATHER_IPP

// Bodies of collective/gather.hpp.

#include <causeway/collective/gather.hpp>

namespace causeway::inline CAUSEWAY_ABI::collective::detail {

CAUSEWAY_DECL error too_long(net::peer_index peer, std::size_t offered, std::size_t limit) {
  return fail(errc::too_large, peer_name(peer),
              std::to_string(offered) + " bytes to gather, where the caller allows " + std::to_string(limit));
}

}  // namespace causeway::inline CAUSEWAY_ABI::collective::detail

#endif  // CAUSEWAY_COLLECTIVE_IMPL_GATHER_IPP
