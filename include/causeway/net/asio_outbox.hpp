// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_OUTBOX_HPP
#define CAUSEWAY_NET_ASIO_OUTBOX_HPP

// What waits to be written to one peer: sends, chunk by chunk, and control messages before and behind them. Streams come
// and take the next frame; a stream that is quicker takes more chunks. Pure bookkeeping: the link writes.

#include <causeway/net/asio_stream.hpp>
#include <causeway/net/frame.hpp>
#include <causeway/net/operations.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::net::detail {

/// Not thread-safe: the transport locks.
class outbox {
 public:
  outbox(link_context& shared, std::size_t chunk) : shared_{&shared}, chunk_{chunk} {}
  ~outbox() { count_control(0); }
  outbox(const outbox&) = delete;
  outbox& operator=(const outbox&) = delete;

  void send(slot_index slot) { sends_.push_back(slot); }

  /// Queues a control message. False when the peer has not taken far too many already.
  bool post(frame_kind kind, std::vector<std::byte> bytes, bool bulk) {
    const std::size_t after = control_bytes_ + bytes.size() + header_bytes;
    (bulk ? bulk_ : urgent_).push_back({kind, std::move(bytes)});
    count_control(after);
    const bool too_much_for_all = shared_->unsent.exceeded(0) && after > shared_->options.control_backlog / 16;
    return after <= shared_->options.control_backlog && !too_much_for_all;
  }

  bool take_urgent(outgoing_frame& out) { return take_control(urgent_, out); }
  bool take_bulk(outgoing_frame& out) { return take_control(bulk_, out); }

  /// The next chunk of the oldest send.
  bool take_chunk(outgoing_frame& out) {
    if (sends_.empty()) return false;
    pending_operation& op = shared_->operations[sends_.front()];
    if (op.taken == 0) op.sequence = next_sequence_++;
    const std::size_t length = std::min(chunk_, op.length - op.taken);
    frame_header h = header(frame_kind::data);
    h.id = op.id;
    h.sequence = op.sequence;
    h.message_length = op.length;
    h.chunk_offset = op.taken;
    out.begin(h, {op.source + op.taken, length}, shared_->options.digest);
    out.slot = sends_.front();
    op.taken += length;
    if (op.taken == op.length) sends_.pop_front();
    return true;
  }

  /// A frame is out. Ends its send when that was the last of it.
  void written(outgoing_frame& out) {
    ++shared_->stats.frames_sent;
    if (out.slot == no_slot) return;
    pending_operation& op = shared_->operations[out.slot];
    op.moved += out.body_length;
    if (op.moved == op.length) shared_->operations.finish(out.slot);
    out.slot = no_slot;
  }

  /// Gives a send up. The streams must rescue what they hold of it. What to tell the peer, if it has seen a part.
  std::optional<frame_header> cancel(slot_index slot) {
    const pending_operation& op = shared_->operations[slot];
    std::erase(sends_, slot);
    if (op.taken == 0 || op.taken == op.length) return std::nullopt;
    frame_header h = header(frame_kind::abort);
    h.id = op.id;
    h.sequence = op.sequence;
    h.message_length = op.length;
    h.chunk_offset = op.taken;
    return h;
  }

  /// Ends all sends that no stream has begun the last chunk of.
  void fail_sends(const error& why) {
    for (const slot_index slot : sends_) shared_->operations.finish(slot, why);
    sends_.clear();
  }

  void drop_bulk() {
    for (const queued& q : bulk_) count_control(control_bytes_ - q.bytes.size() - header_bytes);
    bulk_.clear();
  }

  void drop_control() {
    bulk_.clear();
    urgent_.clear();
    count_control(0);
  }

  [[nodiscard]] bool has_sends() const noexcept { return !sends_.empty(); }
  [[nodiscard]] bool bulk_may_go() const noexcept { return sends_.empty() && !bulk_.empty(); }

  [[nodiscard]] frame_header header(frame_kind kind) const {
    frame_header h;
    h.kind = kind;
    h.run_id = shared_->run_id;
    h.sender = shared_->self;
    return h;
  }

 private:
  struct queued {
    frame_kind kind;
    std::vector<std::byte> bytes;
  };

  void count_control(std::size_t bytes) {
    shared_->unsent.give(control_bytes_);
    shared_->unsent.take(bytes);
    control_bytes_ = bytes;
  }

  bool take_control(std::deque<queued>& from, outgoing_frame& out) {
    if (from.empty()) return false;
    out.own = std::move(from.front().bytes);
    frame_header h = header(from.front().kind);
    from.pop_front();
    count_control(control_bytes_ - out.own.size() - header_bytes);
    const bool control = h.kind == frame_kind::control;
    if (control) h.sequence = next_control_++;
    if (control) h.message_length = out.own.size();
    out.begin(h, out.own, control);
    return true;
  }

  link_context* shared_;
  std::size_t chunk_;
  std::deque<slot_index> sends_;  // with chunks that no stream took yet, oldest first
  std::deque<queued> urgent_;
  std::deque<queued> bulk_;
  std::size_t control_bytes_ = 0;  // of both
  std::uint64_t next_sequence_ = 0;
  std::uint64_t next_control_ = 0;
};

}  // namespace causeway::inline CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_ASIO_OUTBOX_HPP
