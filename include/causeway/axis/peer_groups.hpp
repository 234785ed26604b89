// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_PEER_GROUPS_HPP
#define CAUSEWAY_AXIS_PEER_GROUPS_HPP

// Peers of a fixed set in groups, by their numbers, the hub of each group first.

#include <causeway/collective/group_view.hpp>
#include <causeway/net/transport.hpp>

#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

using peer_group = std::vector<net::peer_index>;

using collective::has_each_once;

/// The first of each group.
CAUSEWAY_DECL [[nodiscard]] peer_group hubs_of(const std::vector<peer_group>& groups);

/// The group of a peer: an empty one if it is in none.
CAUSEWAY_DECL [[nodiscard]] peer_group group_of(const std::vector<peer_group>& groups, net::peer_index peer);

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#ifndef CAUSEWAY_COMPILED
#include <causeway/axis/impl/peer_groups.ipp>
#endif

#endif  // CAUSEWAY_AXIS_PEER_GROUPS_HPP
