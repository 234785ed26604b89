// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_OUTBOX_HPP
#define CAUSEWAY_NET_ASIO_OUTBOX_HPP

// What waits to be written to one peer: sends, chunk by chunk, and control messages before and behind them. Streams come
// and take the next frame; a stream that is quicker takes more chunks. Pure bookkeeping: the link writes.

#include <causeway/net/asio_stream.hpp>
#include <causeway/net/frame.hpp>
#include <causeway/net/operations.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// Not thread-safe: the transport locks.
class outbox {
 public:
  CAUSEWAY_DECL outbox(link_context& shared, std::size_t chunk);
  ~outbox() { count_control(0); }
  outbox(const outbox&) = delete;
  outbox& operator=(const outbox&) = delete;

  CAUSEWAY_DECL void send(slot_index slot);

  /// Queues a control message. False when the peer has not taken far too many already.
  CAUSEWAY_DECL bool post(frame_kind kind, std::vector<std::byte> bytes, bool bulk);

  /// What a stream carries.
  struct share {
    bool control;      ///< messages, urgent ones and bulk
    bool chunks;       ///< of sends
    bool data_stalls;  ///< of the other streams, so that bulk need not wait for it
  };

  /// Puts the stream's next frame into `s.out`: notices go first, then urgent messages, chunks, and bulk; a goodbye is the
  /// last. False: it has none.
  CAUSEWAY_DECL bool next_frame(stream& s, share of);

  /// A frame is out. Ends its send when that was the last of it.
  CAUSEWAY_DECL void written(outgoing_frame& out);

  /// Gives a send up. The streams must rescue what they hold of it. What to tell the peer, if it has seen a part.
  CAUSEWAY_DECL std::optional<frame_header> cancel(slot_index slot);

  /// Ends all sends that no stream has begun the last chunk of.
  CAUSEWAY_DECL void fail_sends(const error& why);

  CAUSEWAY_DECL void drop_bulk();

  CAUSEWAY_DECL void drop_control();

  [[nodiscard]] bool has_sends() const noexcept { return !sends_.empty(); }
  [[nodiscard]] bool bulk_may_go() const noexcept { return sends_.empty() && !bulk_.empty(); }

  CAUSEWAY_DECL [[nodiscard]] frame_header header(frame_kind kind) const;

 private:
  struct queued {
    frame_kind kind;
    std::vector<std::byte> bytes;
  };

  CAUSEWAY_DECL void count_control(std::size_t bytes);

  // The next chunk of the oldest send.
  CAUSEWAY_DECL bool take_chunk(outgoing_frame& out);

  CAUSEWAY_DECL bool take_control(std::deque<queued>& from, outgoing_frame& out);

  link_context* shared_;
  std::size_t chunk_;
  std::deque<slot_index> sends_;  // with chunks that no stream took yet, oldest first
  std::deque<queued> urgent_;
  std::deque<queued> bulk_;
  std::size_t control_bytes_ = 0;  // of both
  std::uint64_t next_sequence_ = 0;
  std::uint64_t next_control_ = 0;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/asio_outbox.ipp>
#endif

#endif  // CAUSEWAY_NET_ASIO_OUTBOX_HPP
