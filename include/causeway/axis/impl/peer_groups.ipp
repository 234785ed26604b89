// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_IMPL_PEER_GROUPS_IPP
#define CAUSEWAY_AXIS_IMPL_PEER_GROUPS_IPP

// Bodies of axis/peer_groups.hpp.

#include <causeway/axis/peer_groups.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

CAUSEWAY_DECL peer_group hubs_of(const std::vector<peer_group>& groups) {
  peer_group hubs;
  for (const peer_group& group : groups) hubs.push_back(group.front());
  return hubs;
}

CAUSEWAY_DECL peer_group group_of(const std::vector<peer_group>& groups, net::peer_index peer) {
  for (const peer_group& group : groups) {
    if (std::find(group.begin(), group.end(), peer) != group.end()) return group;
  }
  return {};
}

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#endif  // CAUSEWAY_AXIS_IMPL_PEER_GROUPS_IPP
