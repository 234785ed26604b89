// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_PAIRS_HPP
#define CAUSEWAY_COLLECTIVE_PAIRS_HPP

// Peers two by two: who meets whom, and the mean of what the two hold.

#include <causeway/core/clock.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/net/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// The partner of `self` when `peers` are paired at random; none for the one left over of an odd number. Peers that `draw`
/// alike get the same pairs. Cost: O(peers).
CAUSEWAY_DECL [[nodiscard]] std::optional<net::peer_index> partner_of(net::peer_index self, std::uint32_t peers, rng draw);

/// Both peers: data ← (theirs + ours) / 2; both must call it with the same `id`. `received` has the length of `data` and is
/// overwritten. Bytes: 4 per value each way. errc::protocol where the other sends another number of values.
CAUSEWAY_DECL result<void> average_pair(net::any_transport& transport, net::peer_index other, const net::message_id& id,
                                        std::span<float> data, std::span<float> received, time_point deadline);

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#ifndef CAUSEWAY_COMPILED
#include <causeway/collective/impl/pairs.ipp>
#endif

#endif  // CAUSEWAY_COLLECTIVE_PAIRS_HPP
