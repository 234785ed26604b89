// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_IMPL_LINKED_GROUPS_IPP
#define CAUSEWAY_AXIS_IMPL_LINKED_GROUPS_IPP

#include <causeway/axis/linked_groups.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

CAUSEWAY_DECL result<void> linked_groups::check(std::uint32_t peers) const {
  if (size < 2 && peers > 1) {
    return fail(errc::invalid_argument, "linked_groups", "groups of fewer than 2 peers never mix; set size to 2 or more");
  }
  CAUSEWAY_TRY(refuse_numbers("costs or links", peers == 0 && (!costs.empty() || links.every > 0)));
  const bool costly = std::all_of(costs.begin(), costs.end(), [](double c) { return c >= 0; });
  if (!costs.empty() && (costs.size() != std::size_t{peers} * peers || !costly)) {
    return fail(errc::invalid_argument, "linked_groups",
                "`costs` must have one number for each two peers, not negative, or none at all");
  }
  if (explore > 0 && explore <= 1) return {};
  return fail(errc::invalid_argument, "linked_groups", "`explore` must be above 0 and at most 1, else groups never mix");
}

CAUSEWAY_DECL std::vector<net::peer_index> linked_groups::members(const group_question& q) const {
  std::vector<net::peer_index> left = detail::shuffled(q.peers, rng{q.seed, mix(detail::group_stream, q.number)});
  rng draw{q.seed, mix(detail::group_stream, q.number, 1)};
  const collective::link_costs all{q.link_costs.empty() ? std::span<const double>{costs} : q.link_costs, q.peers};
  std::vector<net::peer_index> group;
  do {
    const bool last = left.size() < 2 * std::size_t{size};
    group = take_group(left, last ? left.size() : size, all, draw);
  } while (std::find(group.begin(), group.end(), q.self) == group.end());
  std::sort(group.begin(), group.end());
  return group;
}

CAUSEWAY_DECL std::vector<net::peer_index> linked_groups::take_group(std::vector<net::peer_index>& left, std::size_t count,
                                                                     const collective::link_costs& all, rng& draw) const {
  std::vector<net::peer_index> group;
  while (group.size() < count) {
    auto next = left.begin();  // they are in a random order
    if (!all.costs.empty() && !group.empty() && draw.uniform() >= explore) {
      next = std::min_element(left.begin(), left.end(), [&](net::peer_index a, net::peer_index b) {
        return worst(group, a, all) < worst(group, b, all);
      });
    }
    group.push_back(*next);
    left.erase(next);
  }
  return group;
}

CAUSEWAY_DECL double linked_groups::worst(const std::vector<net::peer_index>& group, net::peer_index p,
                                          const collective::link_costs& all) {
  double most = 0;
  for (const net::peer_index m : group) most = std::max({most, all(m, p), all(p, m)});
  return most;
}

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#endif  // CAUSEWAY_AXIS_IMPL_LINKED_GROUPS_IPP
