// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_IMPL_RECORDS_IPP
#define CAUSEWAY_MEMBERSHIP_IMPL_RECORDS_IPP

// Bodies of membership/records.hpp.

#include <causeway/membership/records.hpp>

#include <algorithm>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

CAUSEWAY_DECL std::uint64_t commit_record::contribution_of(net::peer_id peer) const noexcept {
  for (const contribution& c : contributions) {
    if (c.peer == peer) return c.samples;
  }
  return 0;
}

CAUSEWAY_DECL std::vector<net::peer_id> voters_of(const certificate& votes) {
  std::vector<net::peer_id> ids;
  for (const endorsement& e : votes) ids.push_back(e.peer);
  return ids;
}

CAUSEWAY_DECL std::optional<net::peer_index> view::rank_of(net::peer_id peer) const noexcept {
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (members[i].peer == peer) return static_cast<net::peer_index>(i);
  }
  return std::nullopt;
}

CAUSEWAY_DECL std::uint64_t view::total() const noexcept {
  std::uint64_t sum = 0;
  for (const view_member& member : members) sum += member.samples;
  return sum;
}

CAUSEWAY_DECL bool is_quorum(std::span<const net::peer_id> members, std::vector<net::peer_id> voters) {
  if (members.empty()) return false;
  std::sort(voters.begin(), voters.end());
  const auto voted = [&](net::peer_id id) { return std::binary_search(voters.begin(), voters.end(), id); };
  const auto count = static_cast<std::size_t>(std::count_if(members.begin(), members.end(), voted));
  return 2 * count > members.size() || (2 * count == members.size() && voted(members.front()));
}

CAUSEWAY_DECL bool contains(std::span<const net::peer_id> peers, net::peer_id id) {
  return std::find(peers.begin(), peers.end(), id) != peers.end();
}

CAUSEWAY_DECL std::uint64_t commit_record::chain() const { return hash_bytes(net::encode_fields(*this)); }

}}}  // namespace causeway::CAUSEWAY_ABI::membership

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

CAUSEWAY_DECL std::span<const net::peer_id> base_record::members(std::uint64_t parent) const noexcept {
  return precedes(parent) ? std::span<const net::peer_id>{record->members} : std::span<const net::peer_id>{};
}

CAUSEWAY_DECL void put_certificate(net::byte_writer& out, const certificate& votes, std::span<const net::peer_id> base) {
  std::vector<std::uint64_t> lengths;
  for (const endorsement& e : votes) lengths.push_back(e.signature.size());
  put_list(out, voters_of(votes), base);
  put_counts(out, lengths);
  for (const endorsement& e : votes) {
    for (const std::byte b : e.signature) out.put(static_cast<std::uint8_t>(b));
  }
}

CAUSEWAY_DECL certificate get_certificate(net::byte_reader& in, std::span<const net::peer_id> base) {
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

CAUSEWAY_DECL void put_record(net::byte_writer& out, const commit_record& r, const certificate& votes,
                              const base_record& base) {
  const auto before = base.members(r.parent);
  std::vector<net::peer_id> contributors;
  std::vector<std::uint64_t> samples;
  for (const contribution& c : r.contributions) {
    contributors.push_back(c.peer);
    samples.push_back(c.samples);
  }
  net::byte_writer body;
  put_wide(body, r.state);
  net::put_fields(body, r.at);
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

CAUSEWAY_DECL std::optional<endorsed_record> get_record(net::byte_reader& in, const base_record& base) {
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
  net::get_fields(body, r.at);
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

CAUSEWAY_DECL void record_field::put(net::byte_writer& out) const {
  put_record(out, record, votes != nullptr ? *votes : certificate{}, base);
}

CAUSEWAY_DECL void record_field::get(net::byte_reader& in) const {
  auto told = get_record(in, base);
  missing = !told;
  if (told) record = std::move(told->record);
  if (told && votes != nullptr) *votes = std::move(told->votes);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_IMPL_RECORDS_IPP
