// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_PACKING_HPP
#define CAUSEWAY_MEMBERSHIP_PACKING_HPP

// Bytes for long lists that hardly change: ids of peers as differences to a list that both sides have, and counts that are
// mostly alike. A thousand members that stay are four bytes. Ids and hashes have 256 bits on the wire and on disk, so that
// keys and longer hashes find room; in memory they have 64 for now, and a reader refuses others.

#include <causeway/net/codec.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/net/fields.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

/// An id or a hash: its 64 bits, low byte first, then 24 zero bytes.
CAUSEWAY_DECL void put_wide(net::byte_writer& out, std::uint64_t value);
CAUSEWAY_DECL std::uint64_t get_wide(net::byte_reader& in);

/// As a field (net/fields.hpp).
struct wide {
  std::uint64_t& value;

  void put(net::byte_writer& out) const { put_wide(out, value); }
  void get(net::byte_reader& in) const { value = get_wide(in); }
};

/// Ids, spelled out.
[[nodiscard]] inline auto wide_list(std::vector<net::peer_id>& ids, std::size_t most) {
  return net::list{ids, most, [](auto& wire, net::peer_id& id) { wire(wide{id}); }};
}

/// The same without the zero bytes at its end: how many are left, then those.
CAUSEWAY_DECL void put_trimmed(net::byte_writer& out, std::uint64_t value);
CAUSEWAY_DECL std::uint64_t get_trimmed(net::byte_reader& in);

/// Seven bits a byte, low ones first; the top bit says that more follow.
CAUSEWAY_DECL void put_varint(net::byte_writer& out, std::uint64_t value);
CAUSEWAY_DECL std::uint64_t get_varint(net::byte_reader& in);

/// `list` as parts of `base` and ids that are spelled out. Cost: O(n log n).
CAUSEWAY_DECL void put_list(net::byte_writer& out, std::span<const net::peer_id> list, std::span<const net::peer_id> base);

/// Refuses more than `most` ids, and parts outside of `base`.
CAUSEWAY_DECL std::vector<net::peer_id> get_list(net::byte_reader& in, std::span<const net::peer_id> base,
                                                 std::size_t most);

/// As runs of equal values or as differences to the smallest, whichever is shorter. Their number is known to the reader.
CAUSEWAY_DECL void put_counts(net::byte_writer& out, std::span<const std::uint64_t> values);

/// Allocates no more than the `n` that the caller vouches for.
CAUSEWAY_DECL std::vector<std::uint64_t> get_counts(net::byte_reader& in, std::size_t n);

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/membership/impl/packing.ipp>
#endif

#endif  // CAUSEWAY_MEMBERSHIP_PACKING_HPP
