// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_EXCHANGE_MESSAGE_HPP
#define CAUSEWAY_COLLECTIVE_EXCHANGE_MESSAGE_HPP

// The messages of exchanges: sixteen bytes that say how much the content counts, how many values it is about, and whether
// there is content at all; then what the codec wrote. A peer with nothing to say, or whose sums cannot be used, sends the
// sixteen bytes alone, so that nobody ever waits for a message that does not come.

#include <causeway/collective/exchange.hpp>
#include <causeway/collective/refusal.hpp>
#include <causeway/core/error.hpp>
#include <causeway/net/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// Bytes in front of the codec's.
inline constexpr std::size_t message_header_bytes = 16;

/// A message as its receiver sees it. Where `bad` has a value, the rest must not be used.
struct peer_message {
  net::peer_index peer = 0;            ///< who sent it
  float weight = 0;                    ///< finite, >= 0; 0: no content
  std::span<const std::byte> bytes{};  ///< what the codec wrote
  std::optional<refusal> bad{};
};

namespace detail {

struct message_header {
  float weight = 0;
  std::uint32_t values = 0;   // of the row or part, modulo 2^32: a check that both sides mean the same
  std::uint32_t refused = 0;  // see refusal; used where code is not 0
  std::uint32_t code = 0;
};
static_assert(sizeof(message_header) == message_header_bytes);

constexpr std::size_t message_slot(std::size_t codec_bytes) { return (message_header_bytes + codec_bytes + 63) / 64 * 64; }

inline constexpr refusal no_refusal{0, errc{}};

CAUSEWAY_DECL void write_header(std::span<std::byte> room, float weight, std::size_t values,
                                const refusal& bad = no_refusal);

/// The header of a peer's own contribution; true when content follows.
CAUSEWAY_DECL bool write_own_header(std::span<std::byte> room, const exchange_row& row, std::size_t values,
                                    net::peer_index self);

/// Reads bytes that anybody may have sent, about `values` values.
CAUSEWAY_DECL peer_message read_message(net::peer_index from, std::span<const std::byte> bytes, std::size_t values,
                                        std::uint32_t peers);

/// Of a contribution: whatever its sender says, it is the one whose values cannot be used. What only sums can be is
/// nonsense.
CAUSEWAY_DECL refusal refused_contribution(net::peer_index from, const refusal& said);

/// 1 / total weight in f32; 0 where that is no number to multiply with.
CAUSEWAY_DECL float mean_factor(double total_weight);

}  // namespace detail

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#ifndef CAUSEWAY_COMPILED
#include <causeway/collective/impl/exchange_message.ipp>
#endif

#endif  // CAUSEWAY_COLLECTIVE_EXCHANGE_MESSAGE_HPP
