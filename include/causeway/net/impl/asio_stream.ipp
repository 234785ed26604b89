// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_ASIO_STREAM_IPP
#define CAUSEWAY_NET_IMPL_ASIO_STREAM_IPP

#include <causeway/net/asio_stream.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL stream::stream(tcp::socket s) : socket{std::move(s)}, staging(staging_bytes) {}

CAUSEWAY_DECL std::size_t stream::send(std::error_code& failure) {
  return writes_memory ? memory->send(out.buffers(), failure) : socket.send(out.buffers(), 0, failure);
}

CAUSEWAY_DECL std::size_t stream::receive(const std::array<asio::mutable_buffer, 2>& to, std::error_code& failure) {
  return reads_memory ? memory->receive(to, failure) : socket.receive(to, 0, failure);
}

// Memory has no handlers that end by themselves: what waits for it, waits no longer.
CAUSEWAY_DECL void stream::close() {
  std::error_code ignored;
  open = false;
  socket.close(ignored);
  offer.reset();
  if (memory) memory->socket().close(ignored);
  if (reads_memory) read_armed = false;
  if (writes_memory) write_armed = false;
}

CAUSEWAY_DECL error out_of_memory(std::string name) {
  return fail(errc::peer_lost, std::move(name), "there was no memory left for what it sent; its connection was given up");
}

CAUSEWAY_DECL std::size_t chunk_for(std::size_t wanted, std::size_t streams) noexcept {
  const std::size_t automatic = std::size_t{streams > 1 ? 256U : 1024U} << 10U;
  return std::clamp(wanted == 0 ? automatic : wanted, min_chunk_bytes, max_chunk_bytes);
}

CAUSEWAY_DECL std::array<asio::const_buffer, 2> outgoing_frame::buffers() const {
  return {asio::const_buffer{header.data() + header_length - header_left, header_left},
          asio::const_buffer{body, body_left}};
}

CAUSEWAY_DECL void outgoing_frame::begin(frame_header h, std::span<const std::byte> content, bool digest) {
  h.chunk_length = static_cast<std::uint32_t>(content.size());
  h.flags = digest ? has_digest : std::uint8_t{0};
  kind = h.kind;
  encode_header(h, header.data());
  if (digest) store_little(header.data() + header_bytes, hash_bytes(content));
  header_left = header_length = header_bytes + (digest ? digest_bytes : 0);
  body = content.data();
  body_left = body_length = content.size();
}

CAUSEWAY_DECL void outgoing_frame::rescue() {
  own.assign(body, body + body_left);
  body = own.data();
  slot = no_slot;
}

CAUSEWAY_DECL void outgoing_frame::consume(std::size_t n) {
  const std::size_t of_header = std::min(n, header_left);
  header_left -= of_header;
  body += n - of_header;
  body_left -= n - of_header;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_ASIO_STREAM_IPP
