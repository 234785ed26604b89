// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_SUSPECTS_HPP
#define CAUSEWAY_MEMBERSHIP_SUSPECTS_HPP

// Who has to sit out so that the next attempt does not fail as the last one did. A report "my link to s failed" is an edge
// between two peers, one of which has to go; a peer that failed by itself is an edge to itself. The peers to leave out are
// a small vertex cover of these edges.

#include <causeway/core/error.hpp>
#include <causeway/membership/records.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::membership {

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
[[nodiscard]] inline std::vector<net::peer_id> explain(const std::vector<complaint>& complaints,
                                                       const std::vector<net::peer_id>& order, net::peer_id spared,
                                                       const dispute_counts& disputes = {}) {
  const auto disputed = [&](net::peer_id id) { return disputes.contains(id) ? disputes.at(id) : 0U; };
  std::vector<complaint> edges;
  for (const complaint& c : complaints) {  // a link is one edge, whoever complains of it
    if (contains(order, c.by) && contains(order, c.about)) {
      edges.push_back({std::min(c.by, c.about), std::max(c.by, c.about)});
    }
  }
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());

  std::vector<net::peer_id> out;
  while (!edges.empty()) {
    std::map<net::peer_id, std::size_t> weight;
    for (const complaint& e : edges) {
      weight[e.by] += e.by == e.about ? edges.size() + 1 : 1;
      if (e.by != e.about) ++weight[e.about];
    }
    net::peer_id worst = 0;
    for (const net::peer_id id : order) {
      const std::size_t w = weight.contains(id) ? weight[id] : 0;
      if (w == 0) continue;
      const bool more = worst == 0 || w > weight[worst];
      const bool equal = worst != 0 && w == weight[worst];
      const bool as_often = disputed(id) == disputed(worst) && id != spared;
      if (more || (equal && (disputed(id) > disputed(worst) || as_often))) worst = id;
    }
    std::erase_if(edges, [&](const complaint& e) { return e.by == worst || e.about == worst; });
    out.push_back(worst);
  }
  return out;
}

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_SUSPECTS_HPP
