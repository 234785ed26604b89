// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_FLOAT_PACKING_HPP
#define CAUSEWAY_NET_FLOAT_PACKING_HPP

// Lossless packing of f32 values: parameters and optimizer moments in 80 to 84 % of their bytes. Their mantissas are noise,
// but of the 256 values that the top byte (sign and seven bits of the exponent) can have a tensor uses few, most of them
// seldom. So the top bytes get a Huffman code of their own in every block, and the other three travel as they are. A
// general compressor finds the same and not more, at a tenth of the speed.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

/// Packs `in`, little-endian f32 values and what does not fill one behind them, into `out`, which is as long. Gives the
/// packed bytes' number; 0, and nothing of use in `out`, where that saves less than a thirty-second: of other data.
/// Cost: two passes over `in`, 2.6 GB/s on one core, 1.5 GB/s back. No memory.
CAUSEWAY_DECL [[nodiscard]] std::size_t pack_floats(std::span<const std::byte> in, std::span<std::byte> out);

/// The inverse: fills `out`. Any bytes may come: errc::corrupt where these are not the packed form of so many.
CAUSEWAY_DECL [[nodiscard]] result<void> unpack_floats(std::span<const std::byte> packed, std::span<std::byte> out);

namespace detail {

inline constexpr unsigned longest_code = 12;  ///< bits: a table of 4096 entries decodes
using code_lengths = std::array<std::uint8_t, 256>;

/// Of a Huffman code for symbols that occur so often; none longer than `longest_code`. 0: the symbol has no code.
CAUSEWAY_DECL [[nodiscard]] code_lengths huffman_lengths(std::array<std::uint32_t, 256> counts);

}  // namespace detail

}}}  // namespace causeway::CAUSEWAY_ABI::net

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/float_packing.ipp>
#endif

#endif  // CAUSEWAY_NET_FLOAT_PACKING_HPP
