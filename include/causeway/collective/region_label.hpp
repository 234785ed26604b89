// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_REGION_LABEL_HPP
#define CAUSEWAY_COLLECTIVE_REGION_LABEL_HPP

// Regions of peers that are near each other: listed by the peers' numbers, or as the peers say.

#include <causeway/config/config.hpp>
#include <causeway/net/transport.hpp>

#include <cstdint>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// The peers of each region, every peer once; the first one is the hub. Equal on all peers.
using region_list = std::vector<std::vector<net::peer_index>>;

/// Where the peers change, so do their numbers: then each says at the beginning of an exchange in which region it is.
struct region_label {
  static constexpr std::uint32_t any = UINT32_MAX;  ///< of a peer that does not know: the smallest then

  std::uint32_t own = any;   ///< this peer's; peers that say the same are near each other
  std::uint32_t fewest = 2;  ///< regions there are, if so many peers are: more only where peers say so
};

/// The regions of peers that said `own[peer]`: in the order of their numbers, each with its peers in theirs. Peers that do
/// not know go where the fewest are, one after another; where nobody says anything that are `fewest` regions of equal size.
CAUSEWAY_DECL region_list regions_by_label(const std::vector<std::uint32_t>& own, std::uint32_t fewest);

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#ifndef CAUSEWAY_COMPILED
#include <causeway/collective/impl/region_label.ipp>
#endif

#endif  // CAUSEWAY_COLLECTIVE_REGION_LABEL_HPP
