// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_ASIO_OUTBOX_IPP
#define CAUSEWAY_NET_IMPL_ASIO_OUTBOX_IPP

#include <causeway/net/asio_outbox.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL outbox::outbox(link_context& shared, std::size_t chunk) : shared_{&shared}, chunk_{chunk} {}

CAUSEWAY_DECL void outbox::send(slot_index slot) { sends_.push_back(slot); }

CAUSEWAY_DECL bool outbox::post(frame_kind kind, std::vector<std::byte> bytes, bool bulk) {
  const std::size_t after = control_bytes_ + bytes.size() + header_bytes;
  (bulk ? bulk_ : urgent_).push_back({kind, std::move(bytes)});
  count_control(after);
  const bool too_much_for_all = shared_->unsent.exceeded(0) && after > shared_->options.control_backlog / 16;
  return after <= shared_->options.control_backlog && !too_much_for_all;
}

CAUSEWAY_DECL bool outbox::next_frame(stream& s, share of) {
  if (s.said_goodbye) return false;
  if (!s.notices.empty()) {
    s.out.begin(s.notices.front(), {}, false);
    s.notices.pop_front();
    return true;
  }
  if (of.control && take_control(urgent_, s.out)) return true;
  if (s.goodbye_due) {
    s.said_goodbye = true;
    s.out.begin(header(frame_kind::goodbye), {}, false);
    return true;
  }
  if (of.chunks && take_chunk(s.out)) return true;
  return of.control && (sends_.empty() || of.data_stalls) && take_control(bulk_, s.out);
}

CAUSEWAY_DECL bool outbox::take_chunk(outgoing_frame& out) {
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

CAUSEWAY_DECL void outbox::written(outgoing_frame& out) {
  ++shared_->stats.frames_sent;
  if (out.slot == no_slot) return;
  pending_operation& op = shared_->operations[out.slot];
  op.moved += out.body_length;
  if (op.moved == op.length) shared_->operations.finish(out.slot);
  out.slot = no_slot;
}

CAUSEWAY_DECL std::optional<frame_header> outbox::cancel(slot_index slot) {
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

CAUSEWAY_DECL void outbox::fail_sends(const error& why) {
  for (const slot_index slot : sends_) shared_->operations.finish(slot, why);
  sends_.clear();
}

CAUSEWAY_DECL void outbox::drop_bulk() {
  for (const queued& q : bulk_) count_control(control_bytes_ - q.bytes.size() - header_bytes);
  bulk_.clear();
}

CAUSEWAY_DECL void outbox::drop_control() {
  bulk_.clear();
  urgent_.clear();
  count_control(0);
}

CAUSEWAY_DECL frame_header outbox::header(frame_kind kind) const {
  frame_header h;
  h.kind = kind;
  h.run_id = shared_->run_id;
  h.sender = shared_->self;
  return h;
}

CAUSEWAY_DECL void outbox::count_control(std::size_t bytes) {
  shared_->unsent.give(control_bytes_);
  shared_->unsent.take(bytes);
  control_bytes_ = bytes;
}

CAUSEWAY_DECL bool outbox::take_control(std::deque<queued>& from, outgoing_frame& out) {
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

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_ASIO_OUTBOX_IPP
