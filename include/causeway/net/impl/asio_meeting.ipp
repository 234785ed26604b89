// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_ASIO_MEETING_IPP
#define CAUSEWAY_NET_IMPL_ASIO_MEETING_IPP

// Bodies of net/asio_meeting.hpp.

#include <causeway/net/asio_meeting.hpp>

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

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_ASIO_MEETING_IPP
