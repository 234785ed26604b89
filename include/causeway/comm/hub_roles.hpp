// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_HUB_ROLES_HPP
#define CAUSEWAY_COMM_HUB_ROLES_HPP

// Who is whose hub, for comm::async_parameter_server among peers that come and go: in the exchange of a record each peer
// says which region it is in, what it serves and whom it has pushed to, and from that all find the same hubs. A star is one
// region. docs/design/asynchronous.md

#include <causeway/net/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// What a peer says of itself when a record's exchange begins.
struct hub_claim {
  std::uint64_t serves = 0;   ///< names the time as a hub that it has pushes of; 0: it is none
  std::uint64_t follows = 0;  ///< names that of the hub that it pushed to last; 0: it has not pushed since the last record
  std::uint64_t steps = 0;    ///< inner steps that it has taken
  std::uint64_t region = UINT64_MAX;  ///< that it is in; one that there is not: it does not know
  std::uint64_t serves_hubs = 0;      ///< the same as the first two, of the hub of hubs
  std::uint64_t follows_hubs = 0;
  std::uint64_t hubs = 0;     ///< names the hubs that may have pushed to that
  std::uint64_t clients = 0;  ///< in all regions, where a lost one's pushes must not count; else 0
};

/// Who is the hub in a record's exchange, and which time of its it is.
struct chosen_hub {
  net::peer_index peer = 0;
  std::uint64_t time = 0;  ///< 0: there is none
};

/// The hub that somebody has pushed to last, if it is there; else the first peer begins a new time, `fresh`. Times are
/// named by attempts at rounds, which only grow: so no peer goes back to a hub that it has left, which has some of its
/// pushes. Nobody can have pushed to one of a later attempt than this, `fresh`.
CAUSEWAY_DECL chosen_hub choose_hub(std::span<const hub_claim> claims, std::uint64_t fresh);

/// The region of each peer, of `count`: what it says, else where the fewest are, one after another.
CAUSEWAY_DECL std::vector<std::size_t> place_in_regions(std::span<const hub_claim> claims, std::size_t count);

/// At one level: the peers that push to a hub, that one among them, by number and by name.
struct hub_group {
  net::peer_index hub = 0;
  std::vector<net::peer_index> peers;
  std::vector<std::uint64_t> names;
};

/// Alike on all peers of an exchange.
struct hub_roles {
  std::vector<std::size_t> region_of;  ///< each peer
  std::vector<chosen_hub> regions;     ///< the hub of each region that somebody is in
  /// The hub of hubs: one of them. It goes on only where all hubs are there that may have pushed to it. A lost one's pushes
  /// are in what it serves, and would be in the pushes of the lost one's heir again: so it begins anew, from the last
  /// record, and is pushed all that the others have pushed to it.
  chosen_hub top;
  std::uint64_t hubs = 0;  ///< names those that may push to it from now on, with their times

  /// Where a hub's claim has `clients`, and one of these is missing or has begun anew, all hubs begin with the last record:
  /// what it pushed is in what its region pushed to the hub of hubs, and in the answers of that.
  CAUSEWAY_DECL static hub_roles of(std::span<const hub_claim> claims, std::span<const std::uint64_t> names,
                                    std::size_t regions, std::uint64_t attempt);

  /// A record was made: all begin the time that has its name.
  CAUSEWAY_DECL void begin(std::uint64_t time, std::span<const std::uint64_t> names);
  /// Whom a peer talks to: in its region, and, as far as it is a hub, above.
  CAUSEWAY_DECL [[nodiscard]] std::vector<hub_group> groups_of(net::peer_index peer,
                                                               std::span<const std::uint64_t> names) const;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/comm/impl/hub_roles.ipp>
#endif

#endif  // CAUSEWAY_COMM_HUB_ROLES_HPP
