// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_IMPL_HUBS_IPP
#define CAUSEWAY_AXIS_IMPL_HUBS_IPP

// Bodies of axis/hubs.hpp.

#include <causeway/axis/hubs.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

CAUSEWAY_DECL std::tuple<> star::outers() { return {}; }

CAUSEWAY_DECL result<void> star::check(std::uint32_t peers) const {
  if (hub < peers) return {};
  return fail(errc::invalid_argument, "star", "the hub is not one of the peers");
}

CAUSEWAY_DECL std::vector<hub_level> star::levels(std::uint32_t peers) const {
  std::vector<net::peer_index> all{hub};
  for (net::peer_index p = 0; p < peers; ++p) {
    if (p != hub) all.push_back(p);
  }
  return {{.groups = {std::move(all)}}};
}

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#endif  // CAUSEWAY_AXIS_IMPL_HUBS_IPP
