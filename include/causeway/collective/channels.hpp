// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_CHANNELS_HPP
#define CAUSEWAY_COLLECTIVE_CHANNELS_HPP

// Who talks on which channel. Every conversation owns `channel_stride` consecutive numbers, so that a collective can keep
// its phases apart by adding a small number to the channel that its caller gave it.

#include <causeway/config/config.hpp>

#include <cstddef>
#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

inline constexpr std::uint32_t channel_stride = 16;

/// Channels lie below this. The bits above number the pieces of one message, so that a piece that got lost cannot be
/// mistaken for the next one.
inline constexpr std::uint32_t channel_limit = 1U << 16U;

constexpr std::uint32_t numbered(std::uint32_t channel, std::size_t piece) noexcept {
  return channel + static_cast<std::uint32_t>(piece % channel_limit) * channel_limit;
}

/// Channels of one run. 0 to 15 belong to the transport itself (hand-shakes, heartbeats).
namespace channels {
inline constexpr std::uint32_t membership = 1 * channel_stride;   ///< joins, leaves, verdicts on a step
inline constexpr std::uint32_t metrics = 2 * channel_stride;      ///< losses, token counts
inline constexpr std::uint32_t gradients = 3 * channel_stride;    ///< all-reduce of gradients in every step
inline constexpr std::uint32_t updates = 4 * channel_stride;      ///< pseudo-gradients of an outer step
inline constexpr std::uint32_t parameters = 5 * channel_stride;   ///< initial broadcast, averages of parameters
inline constexpr std::uint32_t state = 6 * channel_stride;        ///< hashes of committed state, recovery
inline constexpr std::uint32_t activations = 7 * channel_stride;  ///< between stages of a pipeline
inline constexpr std::uint32_t site = 8 * channel_stride;         ///< among peers that sit close together
inline constexpr std::uint32_t stages = 9 * channel_stride;       ///< what all stages of a model decide alike
inline constexpr std::uint32_t links = 10 * channel_stride;       ///< probes of what each link gives
inline constexpr std::uint32_t user = 64 * channel_stride;        ///< from here on: free for custom policies
}  // namespace channels

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_CHANNELS_HPP
