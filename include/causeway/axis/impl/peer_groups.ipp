// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_IMPL_PEER_GROUPS_IPP
#define CAUSEWAY_AXIS_IMPL_PEER_GROUPS_IPP

// Bodies of axis/peer_groups.hpp.

#include <causeway/axis/peer_groups.hpp>

#include <algorithm>
#include <cstddef>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

CAUSEWAY_DECL bool has_each_once(const std::vector<peer_group>& groups, std::uint32_t peers) {
  peer_group all;
  for (const peer_group& group : groups) {
    if (group.empty()) return false;
    all.insert(all.end(), group.begin(), group.end());
  }
  std::sort(all.begin(), all.end());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] != i) return false;
  }
  return all.size() == peers;
}

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
