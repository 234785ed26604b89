// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_REFUSAL_HPP
#define CAUSEWAY_COLLECTIVE_REFUSAL_HPP

// "The values of peer p cannot be used", as eight bytes. A peer whose values are refused must not make the others wait: a
// collective goes on to its end, tells everybody whose values were refused, and then fails on all peers alike.

#include <causeway/core/error.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// Whose values were refused and why. `peer` equal to the number of peers: nobody's; the sum itself is too large for f32
/// (errc::non_finite), there are no weights to divide by (errc::invalid_argument), or the aggregator cannot look at rows on
/// a device (errc::unsupported). Other codes are of this peer's device.
struct refusal {
  std::uint32_t peer = 0;
  errc code = errc::non_finite;
  bool told = false;  ///< by another peer: this one has not seen the values
};

using refusal_bytes = std::array<std::byte, 8>;

CAUSEWAY_DECL refusal_bytes to_bytes(const refusal& r) noexcept;

/// Reads what a peer claims; nullopt when it makes no sense.
CAUSEWAY_DECL std::optional<refusal> from_bytes(std::span<const std::byte> bytes, std::uint32_t peers) noexcept;

/// Keeps one of several refusals: the lowest peer's, so that all peers report the same one. What this peer saw itself
/// counts for more than what it was told of the same peer.
CAUSEWAY_DECL void note(std::optional<refusal>& kept, const refusal& r) noexcept;

/// error::culprit is the refused peer, unless this one was only told.
CAUSEWAY_DECL error to_error(const refusal& r, std::uint32_t peers);

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#ifndef CAUSEWAY_COMPILED
#include <causeway/collective/impl/refusal.ipp>
#endif

#endif  // CAUSEWAY_COLLECTIVE_REFUSAL_HPP
