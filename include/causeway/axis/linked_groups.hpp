// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_LINKED_GROUPS_HPP
#define CAUSEWAY_AXIS_LINKED_GROUPS_HPP

// Groups of peers whose links to each other are good, most of the time: BACombo's choice (Jiang et al. 2020), which is
// greedy by measured bandwidth but for a share of random ones, so that everybody meets everybody in the end. There each
// peer chooses whom it pulls from; here groups are mutual, so that the choice is made for all peers at once, and by all
// alike.

#include <causeway/axis/groups.hpp>
#include <causeway/collective/link_times.hpp>
#include <causeway/collective/ring_order.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/net/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

/// As random_groups, but of those that are left a group takes the peer whose worst link to it, in either direction, is the
/// cheapest; with the probability `explore` for each place, any peer. All links alike, or no costs: random_groups. With
/// `links.every` peers of a fixed set measure what links cost, after so many exchanges again, in place of `costs`.
struct linked_groups {
  static constexpr part decides = part::group;
  static constexpr bool everybody = false;

  std::uint32_t size = 2;
  std::vector<double> costs{};  ///< as collective::link_costs has them: seconds of a row, say. Equal on all peers
  double explore = 0.1;         ///< ε: above 0, for peers of good links would never meet the others
  collective::link_probe links{};

  CAUSEWAY_DECL [[nodiscard]] result<void> check(std::uint32_t peers) const;

  CAUSEWAY_DECL [[nodiscard]] std::vector<net::peer_index> members(const group_question& q) const;
  void formed(const group_question&) {}
  void serialize(auto&) {}

 private:
  /// Takes `count` peers out of those that are left.
  CAUSEWAY_DECL [[nodiscard]] std::vector<net::peer_index> take_group(std::vector<net::peer_index>& left, std::size_t count,
                                                                      const collective::link_costs& all, rng& draw) const;

  CAUSEWAY_DECL [[nodiscard]] static double worst(const std::vector<net::peer_index>& group, net::peer_index p,
                                                  const collective::link_costs& all);
};

static_assert(Group<linked_groups>);

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#ifndef CAUSEWAY_COMPILED
#include <causeway/axis/impl/linked_groups.ipp>
#endif

#endif  // CAUSEWAY_AXIS_LINKED_GROUPS_HPP
