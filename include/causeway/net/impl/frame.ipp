// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_FRAME_IPP
#define CAUSEWAY_NET_IMPL_FRAME_IPP

#include <causeway/net/frame.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL std::uint64_t header_checksum(const std::byte* header) noexcept {
  return hash_bytes({header, checksum_offset}, frame_magic);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

CAUSEWAY_DECL void encode_header(const frame_header& h, std::byte* to) noexcept {
  std::byte* at = to;
  at = detail::store_little(at, frame_magic);
  at = detail::store_little(at, protocol_version);
  at = detail::store_little(at, static_cast<std::uint8_t>(h.kind));
  at = detail::store_little(at, h.flags);
  at = detail::store_little(at, h.run_id);
  at = detail::store_little(at, h.id.epoch);
  at = detail::store_little(at, h.sender);
  at = detail::store_little(at, h.id.channel);
  at = detail::store_little(at, h.chunk_length);
  at = detail::store_little(at, h.id.step);
  at = detail::store_little(at, h.id.parent);
  at = detail::store_little(at, h.sequence);
  at = detail::store_little(at, h.message_length);
  at = detail::store_little(at, h.chunk_offset);
  detail::store_little(at, detail::header_checksum(to));
}

CAUSEWAY_DECL header_block encode_header(const frame_header& h) noexcept {
  header_block block;
  encode_header(h, block.data());
  return block;
}

}}}  // namespace causeway::CAUSEWAY_ABI::net

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL frame_header read_header_fields(byte_reader& in) noexcept {
  frame_header h;
  h.kind = static_cast<frame_kind>(in.get<std::uint8_t>());
  h.flags = in.get<std::uint8_t>();
  h.run_id = in.get<std::uint64_t>();
  h.id.epoch = in.get<std::uint32_t>();
  h.sender = in.get<std::uint32_t>();
  h.id.channel = in.get<std::uint32_t>();
  h.chunk_length = in.get<std::uint32_t>();
  h.id.step = in.get<std::uint64_t>();
  h.id.parent = in.get<std::uint64_t>();
  h.sequence = in.get<std::uint64_t>();
  h.message_length = in.get<std::uint64_t>();
  h.chunk_offset = in.get<std::uint64_t>();
  return h;
}

CAUSEWAY_DECL const char* broken_control_rule(const frame_header& h) noexcept {
  if (h.flags != has_digest) return "a control message without a digest";
  if (h.chunk_length > max_control_bytes) return "a control message above 512 KiB";
  if (h.chunk_offset != 0 || h.message_length != h.chunk_length) return "a control message in pieces";
  return nullptr;
}

CAUSEWAY_DECL const char* broken_rule(const frame_header& h) noexcept {
  if (h.kind < frame_kind::data || h.kind > frame_kind::memory_declined) return "an unknown kind of frame";
  const bool may_have_digest = h.kind == frame_kind::data || h.kind == frame_kind::control;
  if (h.flags != 0 && (h.flags != has_digest || !may_have_digest)) return "flags that this version does not know";
  if (h.message_length > max_message_bytes) return "a message of more than 64 GiB";
  if (h.chunk_offset > h.message_length) return "a chunk that starts behind the end of its message";
  if (is_handshake(h.kind)) return h.chunk_length > max_handshake_bytes ? "a handshake frame above 64 KiB" : nullptr;
  if (h.kind == frame_kind::control) return broken_control_rule(h);
  if (h.kind != frame_kind::data) return h.chunk_length != 0 ? "content where none belongs" : nullptr;
  if (h.chunk_length > max_chunk_bytes) return "a chunk above 4 MiB";
  if (h.chunk_length > h.message_length - h.chunk_offset) return "a chunk that reaches past the end of its message";
  if (h.chunk_length == 0 && h.message_length != 0) return "an empty chunk";
  return nullptr;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

CAUSEWAY_DECL result<frame_header> decode_header(std::span<const std::byte> bytes) {
  if (bytes.size() < header_bytes) return fail(errc::corrupt, "frame", "it is shorter than its header");
  byte_reader in{bytes.first(header_bytes)};
  if (in.get<std::uint32_t>() != frame_magic) {
    return fail(errc::protocol, "frame", "the other side does not speak Causeway's protocol");
  }
  if (const auto version = in.get<std::uint16_t>(); version != protocol_version) {
    return fail(errc::version_mismatch, "frame",
                "the other side speaks protocol version " + std::to_string(version) + ", we speak " +
                    std::to_string(protocol_version) + "; use the same release on all machines");
  }
  const frame_header h = detail::read_header_fields(in);
  if (in.get<std::uint64_t>() != detail::header_checksum(bytes.data())) {
    return fail(errc::corrupt, "frame", "the header fails its checksum");
  }
  if (const char* rule = detail::broken_rule(h)) return fail(errc::protocol, "frame", std::string{"it has "} + rule);
  return h;
}

}}}  // namespace causeway::CAUSEWAY_ABI::net

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL std::vector<std::byte> encode_refusal(const error& why) {
  byte_writer body;
  body.put(static_cast<std::uint16_t>(why.code)).put_text(std::string_view{why.message}.substr(0, max_refusal_text));
  return std::move(body).take();
}

CAUSEWAY_DECL error read_refusal(std::string where, std::span<const std::byte> body) {
  byte_reader in{body};
  const auto code = static_cast<errc>(in.get<std::uint16_t>());
  std::string text = in.get_text(max_refusal_text);
  if (!in.ok() || to_string(code) == "unknown") return fail(errc::protocol, std::move(where), "its refusal makes no sense");
  return fail(code, std::move(where), std::move(text));
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_FRAME_IPP
