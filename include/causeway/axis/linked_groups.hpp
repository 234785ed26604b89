// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_LINKED_GROUPS_HPP
#define CAUSEWAY_AXIS_LINKED_GROUPS_HPP

// Groups of peers whose links to each other are good, most of the time: BACombo's choice (Jiang et al. 2020), which is
// greedy by measured bandwidth but for a share of random ones, so that everybody meets everybody in the end. There each
// peer chooses whom it pulls from; here groups are mutual, so that the choice is made for all peers at once, and by all
// alike.

#include <causeway/axis/groups.hpp>
#include <causeway/collective/ring_order.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/net/transport.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::axis {

/// As random_groups, but of those that are left a group takes the peer whose worst link to it, in either direction, is the
/// cheapest; with the probability `explore` for each place, any peer. All links alike, or no costs: random_groups.
struct linked_groups {
  static constexpr part decides = part::group;
  static constexpr bool everybody = false;

  std::uint32_t size = 2;
  std::vector<double> costs{};  ///< as collective::link_costs has them: seconds of a row, say. Equal on all peers
  double explore = 0.1;         ///< ε: above 0, for peers of good links would never meet the others

  [[nodiscard]] result<void> check(std::uint32_t peers) const {
    if (size < 2 && peers > 1) {
      return fail(errc::invalid_argument, "linked_groups", "groups of fewer than 2 peers never mix; set size to 2 or more");
    }
    const bool costly = std::all_of(costs.begin(), costs.end(), [](double c) { return c >= 0; });
    if (!costs.empty() && (costs.size() != std::size_t{peers} * peers || !costly)) {
      return fail(errc::invalid_argument, "linked_groups",
                  "`costs` must have one number for each two peers, not negative, or none at all");
    }
    if (explore > 0 && explore <= 1) return {};
    return fail(errc::invalid_argument, "linked_groups", "`explore` must be above 0 and at most 1, else groups never mix");
  }

  [[nodiscard]] std::vector<net::peer_index> members(const group_question& q) const {
    std::vector<net::peer_index> left = detail::shuffled(q.peers, rng{q.seed, mix(detail::group_stream, q.number)});
    rng draw{q.seed, mix(detail::group_stream, q.number, 1)};
    std::vector<net::peer_index> group;
    do {
      const bool last = left.size() < 2 * std::size_t{size};
      group = take_group(left, last ? left.size() : size, q.peers, draw);
    } while (std::find(group.begin(), group.end(), q.self) == group.end());
    std::sort(group.begin(), group.end());
    return group;
  }
  void formed(const group_question&) {}
  void serialize(auto&) {}

 private:
  /// Takes `count` peers out of those that are left.
  [[nodiscard]] std::vector<net::peer_index> take_group(std::vector<net::peer_index>& left, std::size_t count,
                                                        std::uint32_t peers, rng& draw) const {
    std::vector<net::peer_index> group;
    while (group.size() < count) {
      auto next = left.begin();  // they are in a random order
      if (!costs.empty() && !group.empty() && draw.uniform() >= explore) {
        next = std::min_element(left.begin(), left.end(), [&](net::peer_index a, net::peer_index b) {
          return worst(group, a, peers) < worst(group, b, peers);
        });
      }
      group.push_back(*next);
      left.erase(next);
    }
    return group;
  }

  [[nodiscard]] double worst(const std::vector<net::peer_index>& group, net::peer_index p, std::uint32_t peers) const {
    const collective::link_costs links{costs, peers};
    double most = 0;
    for (const net::peer_index m : group) most = std::max({most, links(m, p), links(p, m)});
    return most;
  }
};

static_assert(Group<linked_groups>);

}  // namespace causeway::inline CAUSEWAY_ABI::axis

#endif  // CAUSEWAY_AXIS_LINKED_GROUPS_HPP
