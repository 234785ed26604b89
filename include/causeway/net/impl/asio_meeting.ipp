// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_ASIO_MEETING_IPP
#define CAUSEWAY_NET_IMPL_ASIO_MEETING_IPP

#include <causeway/net/asio_meeting.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL std::vector<std::byte> introduction::encode() const { return encode_fields(*this); }

CAUSEWAY_DECL result<introduction> introduction::decode(std::span<const std::byte> bytes) {
  CAUSEWAY_ASSIGN(introduction who, decode_fields<introduction>(bytes, "introduction"));
  const bool fits = who.chunk >= min_chunk_bytes && who.chunk <= max_chunk_bytes && who.streams != 0 &&
                    who.streams <= most_data_streams && who.port != 0;
  if (who.id == 0 || !fits) return fail(errc::protocol, "introduction", "it makes no sense");
  return who;
}

CAUSEWAY_DECL std::vector<std::byte> wish::encode() const { return encode_fields(*this); }
CAUSEWAY_DECL result<wish> wish::decode(std::span<const std::byte> bytes) { return decode_fields<wish>(bytes, "wish"); }

CAUSEWAY_DECL std::vector<std::byte> decision::encode() const { return encode_fields(*this); }
CAUSEWAY_DECL result<decision> decision::decode(std::span<const std::byte> bytes) {
  return decode_fields<decision>(bytes, "decision");
}

CAUSEWAY_DECL std::vector<std::byte> stream_request::encode() const { return encode_fields(*this); }
CAUSEWAY_DECL result<stream_request> stream_request::decode(std::span<const std::byte> bytes) {
  return decode_fields<stream_request>(bytes, "stream request");
}

CAUSEWAY_DECL bool may_replace(const standing& ours, std::uint64_t their_incarnation, const wish& theirs) noexcept {
  if (!ours.alive || ours.incarnation != their_incarnation) return true;
  return theirs.last == ours.serial && theirs.alive == 0;
}

CAUSEWAY_DECL roster::roster(peer_id self, std::uint64_t incarnation, std::size_t most_peers)
    : self_{self}, incarnation_{incarnation}, most_peers_{most_peers} {}

CAUSEWAY_DECL std::optional<peer_index> roster::find(peer_id id) const {
  const auto found = numbers_.find(id);
  return found == numbers_.end() ? std::nullopt : std::optional{found->second};
}

CAUSEWAY_DECL wish roster::wish_for(const introduction& them, bool alive) const {
  const auto peer = find(them.id);
  if (!peer || places_[*peer].incarnation != them.incarnation) return {};
  return {.last = places_[*peer].serial, .alive = alive ? std::uint8_t{1} : std::uint8_t{0}};
}

CAUSEWAY_DECL std::uint64_t roster::choose(const introduction& them, const wish& theirs, bool alive) {
  standing ours;
  if (const auto made = choices_.find(them.id); made != choices_.end()) {
    ours = made->second;
  } else if (const auto peer = find(them.id)) {
    ours = {alive, places_[*peer].incarnation, places_[*peer].serial};
  }
  if (!may_replace(ours, them.incarnation, theirs)) return 0;
  choices_[them.id] = {true, them.incarnation, ++last_serial_};
  return last_serial_;
}

CAUSEWAY_DECL void roster::give_back(peer_id id, std::uint64_t serial) {
  const auto made = choices_.find(id);
  if (made != choices_.end() && made->second.serial == serial) choices_.erase(made);
}

CAUSEWAY_DECL bool roster::claim(peer_id id, std::uint64_t serial) {
  if (id < self_) return true;
  const auto made = choices_.find(id);
  if (made == choices_.end() || made->second.serial != serial) return false;
  choices_.erase(made);
  return true;
}

CAUSEWAY_DECL void roster::connected(peer_index peer, const introduction& us, const introduction& them,
                                     std::uint64_t serial, const std::string& dialled) {
  place& p = places_[peer];
  if (p.incarnation != them.incarnation) p.aliases.clear();
  if (!dialled.empty() && p.aliases.size() < most_aliases) p.aliases.insert(dialled);
  p.incarnation = them.incarnation;
  p.connected_at = ++connections_;
  p.serial = serial;
  p.address = endpoint{them.host, them.port}.text();
  p.streams = std::min(us.streams, them.streams);
  p.streams_seen = 0;
}

CAUSEWAY_DECL std::optional<peer_index> roster::lacking(const stream_request& which) const {
  const auto peer = find(which.key.id);
  if (!peer) return std::nullopt;
  const place& p = places_[*peer];
  const bool fits = which.key == link_key{p.id, p.incarnation, p.serial} && which.index < p.streams;
  return fits && (p.streams_seen >> which.index & 1U) == 0 ? peer : std::nullopt;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_ASIO_MEETING_IPP
