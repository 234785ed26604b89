// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_LINK_TREES_HPP
#define CAUSEWAY_COLLECTIVE_LINK_TREES_HPP

// Trees that follow what links cost, several of them with roots of their own, which use different links where that is no
// detour (NETSTORM's multi-root trees of fastest paths, 2024). Every peer works them out from the same costs and gets the
// same ones.

#include <causeway/collective/ring_order.hpp>
#include <causeway/net/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// Trees are lists of each peer's parent; the root's is itself. In this one peers follow the root in the order of their
/// indices, level by level, at most `arity` children to a parent; with 0 all of them are the root's.
CAUSEWAY_DECL [[nodiscard]] std::vector<net::peer_index> index_tree(std::uint32_t peers, net::peer_index root,
                                                                    std::uint32_t arity);

CAUSEWAY_DECL [[nodiscard]] net::peer_index root_of(const std::vector<net::peer_index>& parents);

/// Tree `index` of those with these roots, of at most `arity` children a peer. Peers join in the order in which a row from
/// the root could reach them, the nearest first: a link counts as slow as its slower direction, a parent's lines are shared
/// by its children, and a link is as many times slower as earlier trees have it. With an arity of 0 lines are shared by
/// nobody, and peers have any number of children: each peer's way is its fastest path to the root. Of equal ones the first
/// by index, counted from the root. Time: O(trees · peers³).
CAUSEWAY_DECL [[nodiscard]] std::vector<net::peer_index> link_tree(const link_costs& links,
                                                                   const std::vector<net::peer_index>& roots,
                                                                   std::size_t index, std::uint32_t arity);

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#ifndef CAUSEWAY_COMPILED
#include <causeway/collective/impl/link_trees.ipp>
#endif

#endif  // CAUSEWAY_COLLECTIVE_LINK_TREES_HPP
