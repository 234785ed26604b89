// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_RECORDS_HPP
#define CAUSEWAY_MEMBERSHIP_RECORDS_HPP

// What the members of a run agree on, and what a quorum is. A commit record is complete when it is put to the vote: it
// holds the next membership and what becomes of the samples, so that nobody decides anything after the votes. The chain
// value of a record names it and all records before it; it is the parent of the next.

#include <causeway/core/hash.hpp>
#include <causeway/net/codec.hpp>
#include <causeway/net/fabric.hpp>

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::membership {

/// A run has at most this many members.
inline constexpr std::size_t max_members = 4096;
/// An address has at most this many bytes.
inline constexpr std::size_t max_address_bytes = 256;

/// Names one attempt at a round. Ballots of a run are never used twice and only grow, also from round to round.
struct ballot {
  std::uint32_t term = 0;     ///< won by one leader
  std::uint32_t attempt = 0;  ///< counted by that leader

  static constexpr std::uint32_t max_attempt = (1U << 10U) - 1;
  static constexpr std::uint32_t max_term = (1U << 22U) - 1;

  /// The epoch of all data messages of the attempt.
  [[nodiscard]] constexpr std::uint32_t wire() const noexcept { return (term << 10U) | attempt; }
  [[nodiscard]] constexpr ballot next() const noexcept { return {term, attempt + 1}; }

  friend constexpr auto operator<=>(const ballot&, const ballot&) = default;
};

/// Samples of one peer that a commit counts.
struct contribution {
  net::peer_id peer = 0;
  std::uint64_t samples = 0;

  friend bool operator==(const contribution&, const contribution&) = default;
};

/// A peer and where it can be dialled.
struct located_peer {
  net::peer_id peer = 0;
  std::string address;

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
  [[nodiscard]] std::uint64_t chain() const;

  /// Samples of `peer` that are in the state.
  [[nodiscard]] std::uint64_t contribution_of(net::peer_id peer) const noexcept {
    for (const contribution& c : contributions) {
      if (c.peer == peer) return c.samples;
    }
    return 0;
  }

  friend bool operator==(const commit_record&, const commit_record&) = default;
};

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

  [[nodiscard]] std::optional<net::peer_index> rank_of(net::peer_id peer) const noexcept {
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (members[i].peer == peer) return static_cast<net::peer_index>(i);
    }
    return std::nullopt;
  }

  /// Samples of all together. 0: there is nothing to exchange, and the state stays what it is.
  [[nodiscard]] std::uint64_t total() const noexcept {
    std::uint64_t sum = 0;
    for (const view_member& member : members) sum += member.samples;
    return sum;
  }

  friend bool operator==(const view&, const view&) = default;
};

/// Whether `voters` can decide for `members`: more than half of them, or exactly half with the first-named one among them.
/// Any two quorums of the same members have a peer in common. Cost: O(n log n).
[[nodiscard]] inline bool is_quorum(std::span<const net::peer_id> members, std::vector<net::peer_id> voters) {
  if (members.empty()) return false;
  std::sort(voters.begin(), voters.end());
  const auto voted = [&](net::peer_id id) { return std::binary_search(voters.begin(), voters.end(), id); };
  const auto count = static_cast<std::size_t>(std::count_if(members.begin(), members.end(), voted));
  return 2 * count > members.size() || (2 * count == members.size() && voted(members.front()));
}

[[nodiscard]] inline bool contains(std::span<const net::peer_id> peers, net::peer_id id) {
  return std::find(peers.begin(), peers.end(), id) != peers.end();
}

// ---- bytes -------------------------------------------------------------------------------------------------------------

namespace detail {

/// The count of a list whose elements take at least `least` bytes each: never more than the input can hold.
inline std::size_t read_count(net::byte_reader& in, std::size_t limit, std::size_t least) {
  const std::size_t count = in.get<std::uint32_t>();
  if (count <= limit && count <= in.remaining() / least) return count;
  in.refuse();
  return 0;
}

inline void write_peers(net::byte_writer& out, const std::vector<net::peer_id>& peers) {
  out.put(static_cast<std::uint32_t>(peers.size()));
  for (const net::peer_id id : peers) out.put(id);
}

inline std::vector<net::peer_id> read_peers(net::byte_reader& in) {
  std::vector<net::peer_id> peers(read_count(in, max_members, 8));
  for (net::peer_id& id : peers) id = in.get<std::uint64_t>();
  return peers;
}

inline void write_located(net::byte_writer& out, const std::vector<located_peer>& peers) {
  out.put(static_cast<std::uint32_t>(peers.size()));
  for (const located_peer& p : peers) out.put(p.peer).put_text(p.address);
}

inline std::vector<located_peer> read_located(net::byte_reader& in) {
  std::vector<located_peer> peers(read_count(in, max_members, 12));
  for (located_peer& p : peers) {
    p.peer = in.get<std::uint64_t>();
    p.address = in.get_text(max_address_bytes);
  }
  return peers;
}

}  // namespace detail

inline void write(net::byte_writer& out, const ballot& b) { out.put(b.term).put(b.attempt); }

inline ballot read_ballot(net::byte_reader& in) {
  ballot b;
  b.term = in.get<std::uint32_t>();
  b.attempt = in.get<std::uint32_t>();
  if (b.term > ballot::max_term || b.attempt > ballot::max_attempt) in.refuse();
  return b;
}

inline void write(net::byte_writer& out, const commit_record& r) {
  out.put(r.run).put(r.round).put(r.parent).put(r.state);
  write(out, r.at);
  detail::write_peers(out, r.members);
  out.put(static_cast<std::uint32_t>(r.contributions.size()));
  for (const contribution& c : r.contributions) out.put(c.peer).put(c.samples);
  detail::write_peers(out, r.returned);
  out.put(r.ledger);
}

/// Reads a record; the reader has failed afterwards where the bytes hold none.
inline commit_record read_commit_record(net::byte_reader& in) {
  commit_record r;
  r.run = in.get<std::uint64_t>();
  r.round = in.get<std::uint64_t>();
  r.parent = in.get<std::uint64_t>();
  r.state = in.get<std::uint64_t>();
  r.at = read_ballot(in);
  r.members = detail::read_peers(in);
  r.contributions.resize(detail::read_count(in, max_members, 16));
  for (contribution& c : r.contributions) {
    c.peer = in.get<std::uint64_t>();
    c.samples = in.get<std::uint64_t>();
  }
  r.returned = detail::read_peers(in);
  r.ledger = in.get<std::uint64_t>();
  return r;
}

inline void write(net::byte_writer& out, const view& v) {
  write(out, v.at);
  out.put(v.round).put(v.parent).put(static_cast<std::uint32_t>(v.members.size()));
  for (const view_member& m : v.members) out.put(m.peer).put_text(m.address).put(m.samples);
}

inline view read_view(net::byte_reader& in) {
  view v;
  v.at = read_ballot(in);
  v.round = in.get<std::uint64_t>();
  v.parent = in.get<std::uint64_t>();
  v.members.resize(detail::read_count(in, max_members, 20));
  for (view_member& m : v.members) {
    m.peer = in.get<std::uint64_t>();
    m.address = in.get_text(max_address_bytes);
    m.samples = in.get<std::uint64_t>();
  }
  return v;
}

inline std::uint64_t commit_record::chain() const {
  net::byte_writer out;
  write(out, *this);
  return hash_bytes(out.bytes());
}

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_RECORDS_HPP
