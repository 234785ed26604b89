// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_FRAME_READER_HPP
#define CAUSEWAY_NET_ASIO_FRAME_READER_HPP

// Takes what the streams of a link bring apart: headers, and content, which goes where the inbox says without a copy. What
// a frame means is the link's business. Pure bookkeeping: the link reads.

#include <causeway/core/result.hpp>
#include <causeway/net/asio_stream.hpp>
#include <causeway/net/frame.hpp>
#include <causeway/net/inbox.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// Of one link. Not thread-safe: the transport locks. All that it is given must outlive it. Its errors mean that the other
/// side broke the protocol.
class frame_reader {
 public:
  /// `sender`: what the other side's frames name as their sender.
  frame_reader(link_context& shared, std::uint32_t sender, inbox& in) : shared_{&shared}, sender_{sender}, inbox_{&in} {}

  /// From now on content is read and dropped.
  void drop_all() noexcept { drops_ = true; }
  [[nodiscard]] bool drops() const noexcept { return drops_; }

  /// Where the next bytes of a stream go: first the rest of the content's place, then room for what follows it.
  CAUSEWAY_DECL std::array<asio::mutable_buffer, 2> places(stream& s) const;

  /// The next header in the staging area; none if it is not there whole yet.
  CAUSEWAY_DECL result<std::optional<frame_header>> next_header(stream& s) const;

  /// A chunk of a message comes. False: there is no room for it yet, and the stream must not be read on.
  CAUSEWAY_DECL result<bool> begin_chunk(stream& s, const frame_header& h) const;

  /// A control message comes, or the reason why the other side ends the link.
  CAUSEWAY_DECL result<void> begin_control(stream& s, const frame_header& h);

  /// Content in the staging area goes to its place. How much.
  CAUSEWAY_DECL std::size_t take_staged(stream& s) const;

  /// So much more content is in its place. A control message that is whole with it.
  CAUSEWAY_DECL result<std::optional<control_message>> advance(stream& s, std::size_t n) const;

 private:
  /// Where the content that a stream is reading starts; null when it is dropped. Asked anew before each piece, because
  /// what happens on another stream, or the caller, may take the place away.
  CAUSEWAY_DECL [[nodiscard]] std::byte* place(const stream& s) const;

  /// Behind a large chunk often comes another: take in its header only, and let its bytes go where they belong.
  CAUSEWAY_DECL static std::size_t room_behind_chunk(const stream& s);

  CAUSEWAY_DECL static void begin_content(stream& s, const chunk_target& spot, std::size_t length);

  link_context* shared_;
  std::uint32_t sender_;
  inbox* inbox_;
  std::uint64_t next_control_ = 0;
  bool drops_ = false;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/asio_frame_reader.ipp>
#endif

#endif  // CAUSEWAY_NET_ASIO_FRAME_READER_HPP
