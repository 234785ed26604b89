// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_IMPL_SUSPECTS_IPP
#define CAUSEWAY_MEMBERSHIP_IMPL_SUSPECTS_IPP

// Bodies of membership/suspects.hpp.

#include <causeway/membership/suspects.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

CAUSEWAY_DECL std::vector<net::peer_id> explain(const std::vector<complaint>& complaints,
                                                const std::vector<net::peer_id>& order, net::peer_id spared,
                                                const dispute_counts& disputes) {
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

}}}  // namespace causeway::CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_IMPL_SUSPECTS_IPP
