// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_RECORDS_HPP
#define CAUSEWAY_MEMBERSHIP_RECORDS_HPP

// What the members of a run agree on, and what a quorum is. A commit record is complete when it is put to the vote: it
// holds the next membership and what becomes of the samples, so that nobody decides anything after the votes. The chain
// value of a record names it and all records before it; it is the parent of the next.

#include <causeway/core/hash.hpp>
#include <causeway/membership/packing.hpp>
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

/// The vote of one member. No signature yet: then it is the word of whoever passes it on.
struct endorsement {
  net::peer_id peer = 0;
  std::vector<std::byte> signature;  ///< at most max_signature_bytes

  friend bool operator==(const endorsement&, const endorsement&) = default;
};
inline constexpr std::size_t max_signature_bytes = 64;

/// Who voted for a record: a quorum of the members before it. No part of the chain, because leaders may have heard others.
using certificate = std::vector<endorsement>;

[[nodiscard]] inline std::vector<net::peer_id> voters_of(const certificate& votes) {
  std::vector<net::peer_id> ids;
  for (const endorsement& e : votes) ids.push_back(e.peer);
  return ids;
}

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
  for (const net::peer_id id : peers) put_wide(out, id);
}

inline std::vector<net::peer_id> read_peers(net::byte_reader& in) {
  std::vector<net::peer_id> peers(read_count(in, max_members, wide_bytes));
  for (net::peer_id& id : peers) id = get_wide(in);
  return peers;
}

inline void write_located(net::byte_writer& out, const std::vector<located_peer>& peers) {
  out.put(static_cast<std::uint32_t>(peers.size()));
  for (const located_peer& p : peers) {
    put_wide(out, p.peer);
    out.put_text(p.address);
  }
}

inline std::vector<located_peer> read_located(net::byte_reader& in) {
  std::vector<located_peer> peers(read_count(in, max_members, wide_bytes + 4));
  for (located_peer& p : peers) {
    p.peer = get_wide(in);
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

/// The bytes that a record's chain value names.
inline void write(net::byte_writer& out, const commit_record& r) {
  out.put(r.run).put(r.round);
  detail::put_wide(out, r.parent);
  detail::put_wide(out, r.state);
  write(out, r.at);
  detail::write_peers(out, r.members);
  out.put(static_cast<std::uint32_t>(r.contributions.size()));
  for (const contribution& c : r.contributions) {
    detail::put_wide(out, c.peer);
    out.put(c.samples);
  }
  detail::write_peers(out, r.returned);
  detail::put_wide(out, r.ledger);
}

namespace detail {

/// A record that both sides know, to write the next one as a difference to it. None: the next one is spelled out.
struct base_record {
  const commit_record* record = nullptr;
  std::uint64_t chain = 0;

  [[nodiscard]] bool precedes(std::uint64_t parent) const noexcept { return record != nullptr && parent == chain; }
  /// Members of the record before one with this parent; nobody where it is not known.
  [[nodiscard]] std::span<const net::peer_id> members(std::uint64_t parent) const noexcept {
    return precedes(parent) ? std::span<const net::peer_id>{record->members} : std::span<const net::peer_id>{};
  }
};

/// A record and who voted for it, if that is known.
struct endorsed_record {
  commit_record record;
  certificate votes;
};

inline void put_certificate(net::byte_writer& out, const certificate& votes, std::span<const net::peer_id> base) {
  std::vector<std::uint64_t> lengths;
  for (const endorsement& e : votes) lengths.push_back(e.signature.size());
  put_list(out, voters_of(votes), base);
  put_counts(out, lengths);
  for (const endorsement& e : votes) {
    for (const std::byte b : e.signature) out.put(static_cast<std::uint8_t>(b));
  }
}

inline certificate get_certificate(net::byte_reader& in, std::span<const net::peer_id> base) {
  const std::vector<net::peer_id> peers = get_list(in, base, max_members);
  const std::vector<std::uint64_t> lengths = get_counts(in, peers.size());
  certificate votes;
  for (std::size_t i = 0; i < peers.size() && in.ok(); ++i) {
    if (lengths[i] > std::min<std::size_t>(max_signature_bytes, in.remaining())) in.refuse();
    votes.push_back({peers[i], {}});
    for (std::uint64_t k = 0; in.ok() && k < lengths[i]; ++k) {
      votes.back().signature.push_back(static_cast<std::byte>(in.get<std::uint8_t>()));
    }
  }
  return votes;
}

/// Lists as differences to `base` where it is the record before. A thousand members that stay take about 150 bytes.
inline void put_record(net::byte_writer& out, const commit_record& r, const certificate& votes, const base_record& base) {
  const auto before = base.members(r.parent);
  std::vector<net::peer_id> contributors;
  std::vector<std::uint64_t> samples;
  for (const contribution& c : r.contributions) {
    contributors.push_back(c.peer);
    samples.push_back(c.samples);
  }
  net::byte_writer body;
  put_wide(body, r.state);
  write(body, r.at);
  put_list(body, r.members, before);
  put_list(body, contributors, r.members);
  put_counts(body, samples);
  put_list(body, r.returned, before);
  put_wide(body, r.ledger);
  put_certificate(body, votes, before.empty() ? std::span<const net::peer_id>{r.members} : before);
  out.put(static_cast<std::uint8_t>(base.precedes(r.parent))).put(r.run).put(r.round);
  put_wide(out, r.parent);
  out.put_bytes(body.bytes());
}

/// Nothing where it is a difference to a record that `base` is not: then the whole has to be asked for. The reader has
/// failed afterwards where the bytes hold no record.
inline std::optional<endorsed_record> get_record(net::byte_reader& in, const base_record& base) {
  endorsed_record e;
  commit_record& r = e.record;
  const bool differs = in.get<std::uint8_t>() != 0;
  r.run = in.get<std::uint64_t>();
  r.round = in.get<std::uint64_t>();
  r.parent = get_wide(in);
  if (r.round > max_round) in.refuse();
  net::byte_reader body{in.get_bytes(net::max_post_bytes)};
  if (!in.ok() || (differs && !base.precedes(r.parent))) return std::nullopt;
  const auto before = differs ? base.members(r.parent) : std::span<const net::peer_id>{};
  r.state = get_wide(body);
  r.at = read_ballot(body);
  r.members = get_list(body, before, max_members);
  const std::vector<net::peer_id> contributors = get_list(body, r.members, max_members);
  const std::vector<std::uint64_t> samples = get_counts(body, contributors.size());
  for (std::size_t i = 0; i < contributors.size(); ++i) r.contributions.push_back({contributors[i], samples[i]});
  r.returned = get_list(body, before, max_members);
  r.ledger = get_wide(body);
  e.votes = get_certificate(body, before.empty() ? std::span<const net::peer_id>{r.members} : before);
  if (!body.finish("record")) in.refuse();
  return e;
}

}  // namespace detail

inline std::uint64_t commit_record::chain() const {
  net::byte_writer out;
  write(out, *this);
  return hash_bytes(out.bytes());
}

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_RECORDS_HPP
