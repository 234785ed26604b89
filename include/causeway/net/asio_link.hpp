// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_LINK_HPP
#define CAUSEWAY_NET_ASIO_LINK_HPP

// The connection to one peer: one or more streams, the outbox and the inbox. Streams may be added while it runs; the first
// carries the control messages. A stream between two processes of one machine moves to shared memory when it has a large
// message to carry. When one ends, the link ends. All reads and writes are non-blocking calls made under the transport's
// lock when a stream is ready, never asynchronous operations on a caller's buffer. So once an operation is cancelled
// nothing can touch its buffer, and no byte is copied between stream and buffer.

#include <causeway/core/clock.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/net/asio_frame_reader.hpp>
#include <causeway/net/asio_library.hpp>
#include <causeway/net/asio_memory_move.hpp>
#include <causeway/net/asio_outbox.hpp>
#include <causeway/net/asio_stream.hpp>
#include <causeway/net/asio_stream_waits.hpp>
#include <causeway/net/deadline.hpp>
#include <causeway/net/epochs.hpp>
#include <causeway/net/frame.hpp>
#include <causeway/net/inbox.hpp>
#include <causeway/net/operations.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// Who is at the other end of a link, and in which pieces messages travel.
struct link_identity {
  peer_index peer = 0;       ///< our number for it
  std::uint32_t sender = 0;  ///< what its frames name as their sender
  std::string name;          ///< for messages
  std::size_t chunk = 0;     ///< our chunk length
  std::size_t their_chunk = 0;
  bool control_apart = false;  ///< the first stream carries no data, so that data never holds control messages up
};

class link {
 public:
  CAUSEWAY_DECL link(link_context& shared, link_identity who, std::vector<tcp::socket> sockets);

  // All members need the context's lock.

  CAUSEWAY_DECL void start_reading();

  /// One more stream; from now on it carries its share. After say_goodbye it only says so, too.
  CAUSEWAY_DECL void add_stream(tcp::socket socket);

  CAUSEWAY_DECL void send(slot_index slot);

  /// Sends a control message; see net/fabric.hpp.
  CAUSEWAY_DECL void post(std::vector<std::byte> message, bool bulk);

  CAUSEWAY_DECL void receive(slot_index slot);

  /// Gives an unfinished operation up; its buffer is free when this returns.
  CAUSEWAY_DECL void cancel(slot_index slot);

  CAUSEWAY_DECL void discard_before(std::uint32_t epoch);

  /// The same, and drops and counts what still comes of earlier epochs.
  CAUSEWAY_DECL void refuse_before(std::uint32_t epoch);

  /// Once per heartbeat interval: says on every idle stream that we live, which also keeps routers from forgetting it, and
  /// notices a silent one.
  CAUSEWAY_DECL void tick(duration since_last_tick);

  /// Says goodbye and gives up what was not waited for. Buffers of such sends may be gone: their streams just end.
  CAUSEWAY_DECL void say_goodbye();

  /// Ends the link at once for us, and tells the other side why. The streams close when it has heard, or after a grace.
  CAUSEWAY_DECL void dismiss(const error& why);

  /// Ends the link with an error that every operation of it gets.
  CAUSEWAY_DECL void lose(error why);

  CAUSEWAY_DECL [[nodiscard]] bool over() const;
  [[nodiscard]] bool lost() const { return failure_.has_value(); }
  /// Nothing refers to this link any more: it may be destroyed.
  CAUSEWAY_DECL [[nodiscard]] bool at_rest() const;
  [[nodiscard]] const std::string& name() const { return who_.name; }
  CAUSEWAY_DECL [[nodiscard]] bool is_paused() const;
  [[nodiscard]] time_point last_heard() const { return last_heard_; }
  [[nodiscard]] std::size_t stream_count() const { return streams_.size() - (who_.control_apart ? 1 : 0); }

 private:
  static constexpr std::size_t turn_bytes = std::size_t{4} << 20U;  // moved before other sockets get their turn

  CAUSEWAY_DECL stream& take_socket(tcp::socket socket);

  /// Does the work of a handler. Without memory for it this link ends, not the process.
  template <class Work>
  void guarded(Work work) {
    try {
      work();
    } catch (const std::bad_alloc&) {
      for (const auto& s : streams_) s->close();
      for (const auto& s : streams_) s->control = {};
      lose(out_of_memory(who_.name));
    }
  }

  CAUSEWAY_DECL void look_after_streams(duration since_last_tick);

  CAUSEWAY_DECL void tick_stream(stream& s, duration since_last_tick);

  [[nodiscard]] bool is_first(const stream& s) const { return &s == streams_[0].get(); }

  // ---- writing

  CAUSEWAY_DECL void write_some(stream& s);

  CAUSEWAY_DECL bool next_frame(stream& s);

  CAUSEWAY_DECL void finish_frame(stream& s);

  CAUSEWAY_DECL void cancel_send(slot_index slot);

  CAUSEWAY_DECL void queue_goodbye(stream& s);

  CAUSEWAY_DECL void end_writing(stream& s);

  // ---- reading

  CAUSEWAY_DECL void read_some(stream& s);

  /// Handles what lies in the staging area. False when the stream must not be read on.
  CAUSEWAY_DECL bool parse_staged(stream& s);

  CAUSEWAY_DECL bool take_header(stream& s, const frame_header& h);

  CAUSEWAY_DECL bool begin_chunk(stream& s, frame_header h);

  /// A control message, or the reason why the other side ends the link.
  CAUSEWAY_DECL bool begin_control(stream& s, const frame_header& h);

  /// `n` more bytes are in their place. False when the stream must not be read on.
  CAUSEWAY_DECL bool advance_chunk(stream& s, std::size_t n);

  CAUSEWAY_DECL bool take_control(const stream& s, control_message message);

  CAUSEWAY_DECL void resume_parked();

  CAUSEWAY_DECL void note_heard(stream& s, std::size_t n);

  CAUSEWAY_DECL bool hear_goodbye(stream& s);

  CAUSEWAY_DECL void answer_goodbye(stream& s);

  // ---- shared memory

  /// An offer to move there, or the answer to ours.
  CAUSEWAY_DECL bool hear_memory(stream& s, const frame_header& h);

  // ---- ending

  /// The peer spoke nonsense: drops it. Always false.
  CAUSEWAY_DECL bool reject(error why);

  CAUSEWAY_DECL void lose_to(const std::error_code& failure);

  /// Everything that is under way ends with `why`.
  CAUSEWAY_DECL void fail_with(error why);

  /// After the grace we wait no longer for the other side to hear our last words.
  CAUSEWAY_DECL void end_farewell();

  CAUSEWAY_DECL static error closed_error();

  link_context* shared_;
  link_identity who_;
  std::vector<std::unique_ptr<stream>> streams_;
  outbox outbox_;
  inbox inbox_;
  frame_reader reader_;
  memory_move move_;
  stream_waits waits_;
  past_epochs past_;
  std::optional<error> failure_;
  time_point failed_at_;
  bool data_stalls_ = false;  // sends wait and no stream could write since the last tick: bulk need not wait for them
  time_point last_heard_;
  arrival_statistics gaps_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/asio_link.ipp>
#endif

#endif  // CAUSEWAY_NET_ASIO_LINK_HPP
