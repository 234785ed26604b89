// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_IMPL_MESSAGES_IPP
#define CAUSEWAY_MEMBERSHIP_IMPL_MESSAGES_IPP

#include <causeway/membership/messages.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

CAUSEWAY_DECL bool position::older_than(const position& other) const noexcept {
  return other.known() && (!known() || round < other.round);
}

CAUSEWAY_DECL bool report::repeats(const report& r) const {
  return floor == r.floor && promised_to == r.promised_to && newest == r.newest && accepted == r.accepted &&
         partial == r.partial && holds == r.holds && ready == r.ready && leaving == r.leaving && samples == r.samples;
}

CAUSEWAY_DECL std::uint64_t places_of(const view& who) {
  net::byte_writer out;
  for (const view_member& m : who.members) out.put(m.peer).put_text(m.address);
  return hash_bytes(out.bytes());
}

CAUSEWAY_DECL bool confirmation::supports(std::uint64_t chain) const noexcept {
  return chain != 0 && (newest.chain == chain || before == chain || voted == chain);
}

CAUSEWAY_DECL void go::packed::put(net::byte_writer& out) const {
  std::vector<net::peer_id> ids;
  std::vector<std::uint64_t> samples;
  for (const view_member& v : m.who.members) {
    ids.push_back(v.peer);
    samples.push_back(v.samples);
  }
  net::byte_writer body;
  put_list(body, ids, base.members(m.who.parent));
  put_counts(body, samples);
  net::list{m.news, max_members}.put(body);
  body.put(m.places);
  put_list(body, m.proposal.members, ids);
  put_list(body, m.proposal.returned, base.members(m.who.parent));
  put_wide(body, m.proposal.ledger);
  net::field_writer wire{out};
  bool differs = base.precedes(m.who.parent);
  wire(m.who.at, differs, m.proposal.run, m.who.round, wide{m.who.parent});
  out.put_bytes(body.bytes());
}

CAUSEWAY_DECL void go::packed::get(net::byte_reader& in) const {
  bool differs = false;
  net::field_reader wire{in};
  wire(m.who.at, differs, m.proposal.run, m.who.round, wide{m.who.parent});
  m.proposal.at = m.who.at, m.proposal.round = m.who.round, m.proposal.parent = m.who.parent;
  net::byte_reader body{in.get_bytes(net::max_post_bytes)};
  m.partial = differs && !base.precedes(m.who.parent);
  if (!in.ok() || m.partial) return;
  const auto before = differs ? base.members(m.who.parent) : std::span<const net::peer_id>{};
  const std::vector<net::peer_id> ids = get_list(body, before, max_members);
  const std::vector<std::uint64_t> samples = get_counts(body, ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    m.who.members.push_back({ids[i], {}, samples[i]});
    if (samples[i] > 0) m.proposal.contributions.push_back({ids[i], samples[i]});
  }
  net::list{m.news, max_members}.get(body);
  m.places = body.get<std::uint64_t>();
  m.proposal.members = get_list(body, ids, max_members);
  m.proposal.returned = get_list(body, before, max_members);
  m.proposal.ledger = get_wide(body);
  if (m.who.round > max_round || !body.finish("go")) in.refuse();
}

CAUSEWAY_DECL void commit_notice::brief_votes::put(net::byte_writer& out) const {
  net::byte_writer body;
  put_certificate(body, notice.votes, base.record != nullptr ? base.record->members : notice.record.members);
  out.put_bytes(body.bytes());
}

CAUSEWAY_DECL void commit_notice::brief_votes::get(net::byte_reader& in) const {
  net::byte_reader body{in.get_bytes(net::max_post_bytes)};
  notice.partial = base.record == nullptr || notice.of.round != base.record->round + 1;
  if (notice.partial) return;
  notice.votes = get_certificate(body, base.record->members);
  if (!body.finish("votes")) in.refuse();
}

CAUSEWAY_DECL std::size_t kind_of(std::span<const std::byte> bytes) {
  net::byte_reader in{bytes};
  (void)in.get<std::uint8_t>();
  (void)in.get<std::uint64_t>();
  const std::size_t which = in.get<std::uint8_t>();
  return in.ok() ? which : std::variant_size_v<message>;
}

CAUSEWAY_DECL std::vector<std::byte> encode(std::uint64_t run, const message& m, const base_record& base) {
  return net::envelope::seal(messages, run, m, base);
}

CAUSEWAY_DECL result<message> decode_message(std::uint64_t run, std::span<const std::byte> bytes, const base_record& base) {
  return net::envelope::open<message>(messages, run, bytes, base);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_IMPL_MESSAGES_IPP
