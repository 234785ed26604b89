// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_LINK_TIMES_HPP
#define CAUSEWAY_COLLECTIVE_LINK_TIMES_HPP

// What each link takes for a byte, measured while a run goes on: by a short probe on each link, one after another at each
// peer, and then told to all, so that all peers plan alike.

#include <causeway/collective/options.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// Equal on all peers.
struct link_probe {
  std::uint32_t every = 0;          ///< exchanges from one measurement to the next; 0: links are not measured
  std::uint32_t bytes = 1U << 16U;  ///< of a probe, at least 1
};

/// The partner of `self` in turn `turn` of `peers` - 1, or of `peers` where they are an odd number: everybody meets
/// everybody once, two by two. Oneself, where one is left over.
CAUSEWAY_DECL [[nodiscard]] net::peer_index probe_partner(net::peer_index self, std::uint32_t peers, std::uint32_t turn);

/// costs[from · peers + to] ← seconds per byte, as link_costs has them, equal on all peers; where there were some, half of
/// them stays. The receiver says when it listens, and takes the time between two messages that were sent one right after
/// the other: neither a delay nor who comes late is in it. What else is on a line at that time is.
///
/// All peers call it at once. `id`: 16 channels from id.channel on are ours; a number of its own for each measurement.
/// Bytes: 2 · peers probes a peer, and 8 · peers to each; about 4 delays and 2 probes a turn. Errors name the peer.
CAUSEWAY_DECL result<void> measure_links(net::any_transport& transport, const any_clock& clock, const net::message_id& id,
                                         const collective_options& options, std::uint32_t bytes,
                                         std::vector<double>& costs);

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#ifndef CAUSEWAY_COMPILED
#include <causeway/collective/impl/link_times.ipp>
#endif

#endif  // CAUSEWAY_COLLECTIVE_LINK_TIMES_HPP
