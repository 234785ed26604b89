// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_IMPL_RECORDS_IPP
#define CAUSEWAY_MEMBERSHIP_IMPL_RECORDS_IPP

#include <causeway/membership/records.hpp>

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

CAUSEWAY_DECL void put_wide(net::byte_writer& out, std::uint64_t value) {
  out.put(value).put(std::uint64_t{0}).put(std::uint64_t{0}).put(std::uint64_t{0});
}

CAUSEWAY_DECL std::uint64_t get_wide(net::byte_reader& in) {
  const auto value = in.get<std::uint64_t>();
  std::uint64_t rest = 0;
  for (int i = 0; i < 3; ++i) rest |= in.get<std::uint64_t>();
  if (rest != 0) in.refuse();
  return rest == 0 ? value : 0;
}

CAUSEWAY_DECL void put_trimmed(net::byte_writer& out, std::uint64_t value) {
  const auto bytes = static_cast<unsigned>((std::bit_width(value) + 7) / 8);
  out.put(static_cast<std::uint8_t>(bytes));
  for (unsigned i = 0; i < bytes; ++i) out.put(static_cast<std::uint8_t>(value >> (8 * i)));
}

CAUSEWAY_DECL std::uint64_t get_trimmed(net::byte_reader& in) {
  const unsigned bytes = in.get<std::uint8_t>();
  if (bytes > sizeof(std::uint64_t)) in.refuse();
  std::uint64_t value = 0;
  for (unsigned i = 0; in.ok() && i < bytes; ++i) value |= std::uint64_t{in.get<std::uint8_t>()} << (8 * i);
  if (static_cast<unsigned>((std::bit_width(value) + 7) / 8) != bytes) in.refuse();
  return value;
}

CAUSEWAY_DECL void put_varint(net::byte_writer& out, std::uint64_t value) {
  for (; value >= 0x80U; value >>= 7U) out.put(static_cast<std::uint8_t>(value | 0x80U));
  out.put(static_cast<std::uint8_t>(value));
}

CAUSEWAY_DECL std::uint64_t get_varint(net::byte_reader& in) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const auto byte = in.get<std::uint8_t>();
    const std::uint64_t bits = byte & 0x7FU;
    if (shift == 63 && bits > 1) break;
    value |= bits << shift;
    if ((byte & 0x80U) == 0) return value;
  }
  in.refuse();
  return 0;
}

CAUSEWAY_DECL void put_list(net::byte_writer& out, std::span<const net::peer_id> list, std::span<const net::peer_id> base) {
  std::map<net::peer_id, std::size_t> places;
  for (std::size_t i = 0; i < base.size(); ++i) places.emplace(base[i], i);
  put_varint(out, list.size());
  for (std::size_t i = 0; i < list.size();) {
    const auto at = places.find(list[i]);
    const std::size_t from = at == places.end() ? 0 : at->second;
    std::size_t n = 1;
    if (at != places.end()) {
      while (i + n < list.size() && from + n < base.size() && list[i + n] == base[from + n]) ++n;
      put_varint(out, 2 * n);
      put_varint(out, from);
    } else {
      while (i + n < list.size() && !places.contains(list[i + n])) ++n;
      put_varint(out, 2 * n + 1);
      for (std::size_t k = i; k < i + n; ++k) put_trimmed(out, list[k]);
    }
    i += n;
  }
}

CAUSEWAY_DECL std::vector<net::peer_id> get_list(net::byte_reader& in, std::span<const net::peer_id> base,
                                                 std::size_t most) {
  std::vector<net::peer_id> list;
  const std::uint64_t size = get_varint(in);
  if (size > most) in.refuse();
  while (in.ok() && list.size() < size) {
    const std::uint64_t part = get_varint(in);
    const std::uint64_t n = part / 2;
    const bool spelled = part % 2 == 1;
    const std::uint64_t from = spelled ? 0 : get_varint(in);
    const bool fits = n > 0 && n <= size - list.size() &&
                      (spelled ? n <= in.remaining() : from <= base.size() && n <= base.size() - from);
    if (!fits) in.refuse();
    for (std::uint64_t i = 0; fits && i < n; ++i) list.push_back(spelled ? get_trimmed(in) : base[from + i]);
  }
  return list;
}

CAUSEWAY_DECL void put_counts(net::byte_writer& out, std::span<const std::uint64_t> values) {
  net::byte_writer runs;
  for (std::size_t i = 0; i < values.size();) {
    std::size_t n = 1;
    while (i + n < values.size() && values[i + n] == values[i]) ++n;
    put_varint(runs, n);
    put_varint(runs, values[i]);
    i += n;
  }
  const std::uint64_t least = values.empty() ? 0 : *std::min_element(values.begin(), values.end());
  const std::uint64_t most = values.empty() ? 0 : *std::max_element(values.begin(), values.end());
  const auto width = static_cast<unsigned>(std::bit_width(most - least));
  const bool packed = width < 57 && (values.size() * width + 7) / 8 + 10 < runs.bytes().size();
  out.put(static_cast<std::uint8_t>(packed ? width + 1 : 0));
  if (!packed) {
    for (const std::byte b : runs.bytes()) out.put(static_cast<std::uint8_t>(b));
    return;
  }
  put_varint(out, least);
  std::uint64_t held = 0;
  unsigned bits = 0;
  for (const std::uint64_t v : values) {
    held |= (v - least) << bits;
    for (bits += width; bits >= 8; bits -= 8, held >>= 8U) out.put(static_cast<std::uint8_t>(held));
  }
  if (bits > 0) out.put(static_cast<std::uint8_t>(held));
}

CAUSEWAY_DECL std::vector<std::uint64_t> get_counts(net::byte_reader& in, std::size_t n) {
  std::vector<std::uint64_t> values;
  values.reserve(n);
  const unsigned mode = in.get<std::uint8_t>();
  if (mode > 57) in.refuse();
  while (mode == 0 && in.ok() && values.size() < n) {
    const std::uint64_t run = get_varint(in);
    if (run == 0 || run > n - values.size()) in.refuse();
    const std::uint64_t value = get_varint(in);
    if (in.ok()) values.insert(values.end(), run, value);
  }
  const std::uint64_t least = mode > 0 ? get_varint(in) : 0;
  std::uint64_t held = 0;
  unsigned bits = 0;
  while (mode > 0 && in.ok() && values.size() < n) {
    const unsigned width = mode - 1;
    for (; bits < width; bits += 8) held |= std::uint64_t{in.get<std::uint8_t>()} << bits;
    values.push_back(least + (held & ((std::uint64_t{1} << width) - 1)));
    held >>= width;
    bits -= width;
  }
  values.resize(n);
  return values;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

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
