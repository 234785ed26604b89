// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_GROUP_VIEW_HPP
#define CAUSEWAY_COLLECTIVE_GROUP_VIEW_HPP

// Some peers of a transport as a Transport of their own, ranked in the order in which they are listed: pairs, regions, the
// axis of a grid; or all of them in another order, where an algorithm sends to the next rank and the order is what costs.

#include <causeway/core/clock.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

using peer_group = std::vector<net::peer_index>;

/// Whether each of `peers` peers is in one group, and no group is empty.
CAUSEWAY_DECL [[nodiscard]] bool has_each_once(const std::vector<peer_group>& groups, std::uint32_t peers);

/// The first of each group.
CAUSEWAY_DECL [[nodiscard]] peer_group hubs_of(const std::vector<peer_group>& groups);

/// The group of a peer: an empty one if it is in none.
CAUSEWAY_DECL [[nodiscard]] peer_group group_of(const std::vector<peer_group>& groups, net::peer_index peer);

/// The peers of each region, every peer once; the first one is the hub. Equal on all peers.
using region_list = std::vector<peer_group>;

/// Where the peers change, so do their numbers: then each says at the beginning of an exchange in which region it is.
struct region_label {
  static constexpr std::uint32_t any = UINT32_MAX;  ///< of a peer that does not know: the smallest then

  std::uint32_t own = any;   ///< this peer's; peers that say the same are near each other
  std::uint32_t fewest = 2;  ///< regions there are, if so many peers are: more only where peers say so
};

/// The regions of peers that said `own[peer]`: in the order of their numbers, each with its peers in theirs. Peers that do
/// not know go where the fewest are, one after another; where nobody says anything that are `fewest` regions of equal size.
CAUSEWAY_DECL region_list regions_by_label(const std::vector<std::uint32_t>& own, std::uint32_t fewest);

/// Models Transport. Nothing is sent to anybody who is not listed. Threading: as the transport below, which must stay where
/// it is while the view is used. Groups that share no peer may use the same message ids; a peer that talks in two groups at
/// once needs different ones. Errors of the transport name its peers, not ranks.
class group_view {
 public:
  /// `members[r]` is the peer of rank r: distinct peers of `over`, its own self among them, in the same order on all of
  /// them.
  CAUSEWAY_DECL group_view(net::any_transport& over, std::vector<net::peer_index> members);

  [[nodiscard]] net::peer_index self() const noexcept { return self_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(members_.size()); }
  [[nodiscard]] net::peer_index peer_of(net::peer_index rank) const noexcept { return members_[rank]; }

  CAUSEWAY_DECL net::operation send(net::peer_index to, const net::message_id& id, std::span<const std::byte> bytes);
  CAUSEWAY_DECL net::operation receive(net::peer_index from, const net::message_id& id, std::span<std::byte> buffer);
  CAUSEWAY_DECL result<std::size_t> wait(net::operation op, time_point deadline);
  [[nodiscard]] bool done(net::operation op) const { return op == no_operation || over_->done(op); }
  CAUSEWAY_DECL bool wait_any(std::span<const net::operation> ops, time_point deadline);

  /// Of the whole transport.
  [[nodiscard]] traffic stats() const { return over_->stats(); }

 private:
  static constexpr net::operation no_operation = 0;

  [[nodiscard]] bool is_other(net::peer_index rank) const noexcept { return rank < members_.size() && rank != self_; }

  CAUSEWAY_DECL [[nodiscard]] net::peer_index rank_of(net::peer_index peer) const;
  CAUSEWAY_DECL [[nodiscard]] bool are_distinct() const;

  net::any_transport* over_;
  std::vector<net::peer_index> members_;
  net::peer_index self_;
};
static_assert(net::Transport<group_view>);

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#ifndef CAUSEWAY_COMPILED
#include <causeway/collective/impl/group_view.ipp>
#endif

#endif  // CAUSEWAY_COLLECTIVE_GROUP_VIEW_HPP
