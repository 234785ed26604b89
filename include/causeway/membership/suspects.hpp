// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_SUSPECTS_HPP
#define CAUSEWAY_MEMBERSHIP_SUSPECTS_HPP

// Who has to sit out so that the next attempt does not fail as the last one did. A report "my link to s failed" is an edge
// between two peers, one of which has to go; a peer that failed by itself is an edge to itself. The peers to leave out are
// a small vertex cover of these edges.

#include <causeway/core/error.hpp>
#include <causeway/membership/records.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

/// One complaint: `by` could not exchange with `about`. by == about: it failed by itself.
struct complaint {
  net::peer_id by = 0;
  net::peer_id about = 0;

  friend auto operator<=>(const complaint&, const complaint&) = default;
};

/// How often each peer was one of two of whom one had to be at fault.
using dispute_counts = std::map<net::peer_id, std::uint32_t>;
/// A complaint, and what its peer saw.
struct failed_link {
  complaint link;
  errc why = errc::peer_lost;
};

/// Peers out of `order` that explain all complaints, taken greedily: who fails by itself, then who is in most of what is
/// left; of equals the one with more `disputes`, then the one later in `order`; `spared` (the leader) only against peers in
/// fewer. Greedy is smallest for the patterns that links make (stars and single pairs) and at most a factor ln n off. Who
/// complains of others without reason, each time of somebody else, is found the second time. Cost: O(n · complaints).
CAUSEWAY_DECL [[nodiscard]] std::vector<net::peer_id> explain(const std::vector<complaint>& complaints,
                                                              const std::vector<net::peer_id>& order, net::peer_id spared,
                                                              const dispute_counts& disputes = {});

}}}  // namespace causeway::CAUSEWAY_ABI::membership

#ifndef CAUSEWAY_COMPILED
#include <causeway/membership/impl/suspects.ipp>
#endif

#endif  // CAUSEWAY_MEMBERSHIP_SUSPECTS_HPP
