// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_RECORDS_HPP
#define CAUSEWAY_MEMBERSHIP_RECORDS_HPP

// What the members of a run agree on, and what a quorum is. A commit record is complete when it is put to the vote: it
// holds the next membership and what becomes of the samples, so that nobody decides anything after the votes. The chain
// value of a record names it and all records before it; it is the parent of the next.

#include <causeway/core/hash.hpp>
#include <causeway/net/codec.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/net/fields.hpp>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

// Bytes for long lists that hardly change: ids of peers as differences to a list that both sides have, and counts that are
// mostly alike. A thousand members that stay are four bytes. Ids and hashes have 256 bits on the wire and on disk, so that
// keys and longer hashes find room; in memory they have 64 for now, and a reader refuses others.

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

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

/// A run has at most this many members.
inline constexpr std::size_t max_members = 4096;
/// An address has at most this many bytes.
inline constexpr std::size_t max_address_bytes = 256;

/// A round has at most this number, and a commit is believed only so many rounds above the newest that is known.
inline constexpr std::uint64_t max_round = std::uint64_t{1} << 48U;
inline constexpr std::uint64_t max_rounds_missed = std::uint64_t{1} << 24U;
/// One peer contributes at most so many samples to one round.
inline constexpr std::uint64_t max_round_samples = std::uint64_t{1} << 32U;

/// Names one attempt at a round. Ballots of a run are never used twice and only grow, also from round to round.
struct ballot {
  std::uint32_t term = 0;     ///< won by one leader
  std::uint32_t attempt = 0;  ///< counted by that leader

  static constexpr std::uint32_t max_attempt = (1U << 10U) - 1;
  static constexpr std::uint32_t max_term = (1U << 22U) - 1;

  /// The epoch of all data messages of the attempt.
  [[nodiscard]] constexpr std::uint32_t wire() const noexcept { return (term << 10U) | attempt; }
  [[nodiscard]] constexpr ballot next() const noexcept { return {term, attempt + 1}; }

  void fields(auto& wire) { wire(net::below{term, max_term + 1}, net::below{attempt, max_attempt + 1}); }
  friend constexpr auto operator<=>(const ballot&, const ballot&) = default;
};

/// Samples of one peer that a commit counts.
struct contribution {
  net::peer_id peer = 0;
  std::uint64_t samples = 0;

  void fields(auto& wire) { wire(detail::wide{peer}, samples); }
  friend bool operator==(const contribution&, const contribution&) = default;
};

/// A peer and where it can be dialled.
struct located_peer {
  net::peer_id peer = 0;
  std::string address;

  void fields(auto& wire) { wire(detail::wide{peer}, net::text{address, max_address_bytes}); }
  friend bool operator==(const located_peer&, const located_peer&) = default;
};

/// One committed round.
struct commit_record {
  std::uint64_t run = 0;
  std::uint64_t round = 0;
  std::uint64_t parent = 0;                 ///< chain() of the record before
  std::uint64_t state = 0;                  ///< hash of the shared state
  ballot at;                                ///< the attempt that made it; later ballots may have carried it through
  std::vector<net::peer_id> members;        ///< C_round: a quorum of these decides the next round
  std::vector<contribution> contributions;  ///< whose samples are in the state; only those with any
  std::vector<net::peer_id> returned;       ///< whose other samples go back to the pool
  std::uint64_t ledger = 0;                 ///< hash of the sample ledger after this round

  /// Names this record and, through `parent`, all before it. Cost: one hash of the record.
  CAUSEWAY_DECL [[nodiscard]] std::uint64_t chain() const;

  /// Samples of `peer` that are in the state.
  CAUSEWAY_DECL [[nodiscard]] std::uint64_t contribution_of(net::peer_id peer) const noexcept;

  /// What its chain value names.
  void fields(auto& wire) {
    wire(run, round, detail::wide{parent}, detail::wide{state}, at, detail::wide_list(members, max_members),
         net::list{contributions, max_members}, detail::wide_list(returned, max_members), detail::wide{ledger});
  }
  friend bool operator==(const commit_record&, const commit_record&) = default;
};

/// The vote of one member. No signature yet: then it is the word of whoever passes it on.
struct endorsement {
  net::peer_id peer = 0;
  std::vector<std::byte> signature;  ///< at most max_signature_bytes

  friend bool operator==(const endorsement&, const endorsement&) = default;
};
inline constexpr std::size_t max_signature_bytes = 64;

/// Who voted for a record: a quorum of the members before it. No part of the chain, because leaders may have heard others.
using certificate = std::vector<endorsement>;

CAUSEWAY_DECL [[nodiscard]] std::vector<net::peer_id> voters_of(const certificate& votes);

struct view_member {
  net::peer_id peer = 0;
  std::string address;
  std::uint64_t samples = 0;  ///< its weight: samples since its last committed contribution

  friend bool operator==(const view_member&, const view_member&) = default;
};

/// Who takes part in one attempt, in the order of their ranks.
struct view {
  ballot at;
  std::uint64_t round = 0;   ///< the one being made
  std::uint64_t parent = 0;  ///< chain of the committed record before it
  std::vector<view_member> members;

  CAUSEWAY_DECL [[nodiscard]] std::optional<net::peer_index> rank_of(net::peer_id peer) const noexcept;

  /// Samples of all together. 0: there is nothing to exchange, and the state stays what it is.
  CAUSEWAY_DECL [[nodiscard]] std::uint64_t total() const noexcept;

  friend bool operator==(const view&, const view&) = default;
};

/// Whether `voters` can decide for `members`: more than half of them, or exactly half with the first-named one among them.
/// Any two quorums of the same members have a peer in common. Cost: O(n log n).
CAUSEWAY_DECL [[nodiscard]] bool is_quorum(std::span<const net::peer_id> members, std::vector<net::peer_id> voters);

CAUSEWAY_DECL [[nodiscard]] bool contains(std::span<const net::peer_id> peers, net::peer_id id);

// ---- bytes -------------------------------------------------------------------------------------------------------------

namespace detail {

/// A record that both sides know, to write the next one as a difference to it. None: the next one is spelled out.
struct base_record {
  const commit_record* record = nullptr;
  std::uint64_t chain = 0;

  [[nodiscard]] bool precedes(std::uint64_t parent) const noexcept { return record != nullptr && parent == chain; }
  /// Members of the record before one with this parent; nobody where it is not known.
  CAUSEWAY_DECL [[nodiscard]] std::span<const net::peer_id> members(std::uint64_t parent) const noexcept;
};

/// A record and who voted for it, if that is known.
struct endorsed_record {
  commit_record record;
  certificate votes;
};

CAUSEWAY_DECL void put_certificate(net::byte_writer& out, const certificate& votes, std::span<const net::peer_id> base);

CAUSEWAY_DECL certificate get_certificate(net::byte_reader& in, std::span<const net::peer_id> base);

/// Lists as differences to `base` where it is the record before. A thousand members that stay take about 150 bytes.
CAUSEWAY_DECL void put_record(net::byte_writer& out, const commit_record& r, const certificate& votes,
                              const base_record& base);

/// Nothing where it is a difference to a record that `base` is not: then the whole has to be asked for. The reader has
/// failed afterwards where the bytes hold no record.
CAUSEWAY_DECL std::optional<endorsed_record> get_record(net::byte_reader& in, const base_record& base);

/// A record as a field of a message. `missing`: it was a difference to another one than `base`, and is not there.
struct record_field {
  commit_record& record;
  certificate* votes;  ///< null: they are not told
  bool& missing;
  const base_record& base;

  CAUSEWAY_DECL void put(net::byte_writer& out) const;
  CAUSEWAY_DECL void get(net::byte_reader& in) const;
};

}  // namespace detail

}}}  // namespace causeway::CAUSEWAY_ABI::membership

#ifndef CAUSEWAY_COMPILED
#include <causeway/membership/impl/records.ipp>
#endif

#endif  // CAUSEWAY_MEMBERSHIP_RECORDS_HPP
