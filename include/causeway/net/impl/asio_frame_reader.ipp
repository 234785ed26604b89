// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_ASIO_FRAME_READER_IPP
#define CAUSEWAY_NET_IMPL_ASIO_FRAME_READER_IPP

#include <causeway/net/asio_frame_reader.hpp>

#include <algorithm>
#include <cstring>
#include <memory>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL std::byte* frame_reader::place(const stream& s) const {
  if (drops_) return nullptr;
  return s.control.bytes != nullptr ? s.control.bytes.get() : inbox_->place(s.spot);
}

CAUSEWAY_DECL std::array<asio::mutable_buffer, 2> frame_reader::places(stream& s) const {
  asio::mutable_buffer chunk{nullptr, 0};
  if (s.in_chunk) {
    std::byte* const to = place(s);
    chunk = {shared_->scrap.data(), std::min(shared_->scrap.size(), s.chunk_left)};
    if (to != nullptr) chunk = {to + (s.spot.length - s.chunk_left), s.chunk_left};
  }
  if (s.begin != 0) {
    std::memmove(s.staging.data(), s.staging.data() + s.begin, s.end - s.begin);
    s.end -= s.begin;
    s.begin = 0;
  }
  // Behind a discarded chunk's first part comes its second: nothing of it may land in the staging area.
  const bool partial = chunk.size() < s.chunk_left;
  return {chunk, asio::mutable_buffer{s.staging.data() + s.end, partial ? 0 : room_behind_chunk(s)}};
}

CAUSEWAY_DECL std::size_t frame_reader::room_behind_chunk(const stream& s) {
  const bool large = s.spot.length > stream::staging_bytes;
  const std::size_t header = header_bytes + (s.digest ? digest_bytes : 0);
  return (large ? std::max(header, s.end + 1) : s.staging.size()) - s.end;
}

CAUSEWAY_DECL result<std::optional<frame_header>> frame_reader::next_header(stream& s) const {
  using none = std::optional<frame_header>;
  if (s.end - s.begin < header_bytes) return none{};
  CAUSEWAY_ASSIGN(const frame_header h, decode_header({s.staging.data() + s.begin, s.end - s.begin}));
  const bool has = h.flags == has_digest;
  if (has && s.end - s.begin < header_bytes + digest_bytes) return none{};
  s.begin += header_bytes;
  s.digest.reset();
  if (has) {
    s.digest = load_little<std::uint64_t>(s.staging.data() + s.begin);
    s.begin += digest_bytes;
  }
  ++shared_->stats.frames_received;
  if (h.run_id != shared_->run_id) return fail(errc::wrong_run, "", "it sent a frame of another run");
  if (h.sender != sender_) return fail(errc::protocol, "", "it sent a frame in somebody else's name");
  return std::optional{h};
}

CAUSEWAY_DECL result<bool> frame_reader::begin_chunk(stream& s, const frame_header& h) const {
  chunk_target spot{.how = chunk_target::kind::discard, .length = h.chunk_length};
  if (!drops_) {
    CAUSEWAY_ASSIGN(spot, inbox_->begin_chunk(h));
  }
  if (spot.how == chunk_target::kind::parked) {
    s.parked = h;
    return false;
  }
  s.parked.reset();
  begin_content(s, spot, h.chunk_length);
  return true;
}

CAUSEWAY_DECL result<void> frame_reader::begin_control(stream& s, const frame_header& h) {
  if (h.kind != frame_kind::refused && h.sequence != next_control_++) {
    return fail(errc::protocol, "", "a control message came twice or is missing");
  }
  s.control = {std::unique_ptr<std::byte[]>{new std::byte[h.chunk_length]}, h.chunk_length};
  s.control_kind = h.kind;
  begin_content(s, {.how = chunk_target::kind::kept, .length = h.chunk_length}, h.chunk_length);
  return {};
}

CAUSEWAY_DECL void frame_reader::begin_content(stream& s, const chunk_target& spot, std::size_t length) {
  s.spot = spot;
  s.chunk_left = length;
  s.in_chunk = true;
}

CAUSEWAY_DECL std::size_t frame_reader::take_staged(stream& s) const {
  const std::size_t n = std::min(s.end - s.begin, s.chunk_left);
  if (n == 0) return 0;
  std::byte* const to = place(s);
  if (to != nullptr) std::memcpy(to + (s.spot.length - s.chunk_left), s.staging.data() + s.begin, n);
  s.begin += n;
  return n;
}

CAUSEWAY_DECL result<std::optional<control_message>> frame_reader::advance(stream& s, std::size_t n) const {
  std::optional<control_message> whole;
  s.chunk_left -= n;
  if (s.chunk_left != 0) return whole;
  s.in_chunk = false;
  const std::byte* const content = place(s);
  if (s.digest && content != nullptr && *s.digest != hash_bytes({content, s.spot.length})) {
    return fail(errc::corrupt, "", "what it sent fails its checksum");
  }
  control_message control = std::exchange(s.control, {});
  if (drops_) return whole;
  if (control.bytes != nullptr) {
    whole = std::move(control);
  } else {
    inbox_->end_chunk(s.spot);
  }
  return whole;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_ASIO_FRAME_READER_IPP
