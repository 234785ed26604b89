// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_RELAY_PATHS_HPP
#define CAUSEWAY_COLLECTIVE_RELAY_PATHS_HPP

// Ways from one peer to another through third ones, which pass on what they get as it is, and how many messages go by each
// (NETSTORM's auxiliary paths, 2024). Every peer works the paths out from the same costs and gets the same ones; how much
// goes by each is its sender's to say, who alone knows what waits for its lines.

#include <causeway/collective/ring_order.hpp>
#include <causeway/net/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// The peers in between, in the order in which they pass a message on.
using relay_path = std::vector<net::peer_index>;

/// At most `most` ways from `from` to `to` besides the direct one, the fastest first: each is the fastest through peers
/// that are on none before it. What a path costs is the sum of its links, each in its own direction; without `costs` each
/// is 1. Of equal ones that with fewer peers in between, then by index counted from `from`. None costs more than `limit`,
/// or leads over a link that is not there (of infinite cost). Time: O(most · peers²).
CAUSEWAY_DECL [[nodiscard]] std::vector<relay_path> relay_paths(const link_costs& links, net::peer_index from,
                                                                net::peer_index to, std::size_t most, double limit);

/// How many of `messages` go directly, and how many by each auxiliary path, where so many are handed over to these lines
/// already and not out: to the direct one, then to the beginning of each path. On each line one is on its way; the others
/// wait. One after another goes directly, unless more than 2 · `limit` wait there: then by the first path with fewer than
/// `limit` waiting at its beginning, if there is one. The first of all goes directly in any case. Each counts where it
/// went: they are handed over faster than any line takes them. So a path gets at most `limit` + 1; with a limit of 0, none.
CAUSEWAY_DECL [[nodiscard]] std::vector<std::size_t> messages_by_path(std::size_t messages, std::size_t limit,
                                                                      std::vector<std::size_t> handed_over);

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#ifndef CAUSEWAY_COMPILED
#include <causeway/collective/impl/relay_paths.ipp>
#endif

#endif  // CAUSEWAY_COLLECTIVE_RELAY_PATHS_HPP
