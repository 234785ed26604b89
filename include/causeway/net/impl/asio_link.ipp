// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_ASIO_LINK_IPP
#define CAUSEWAY_NET_IMPL_ASIO_LINK_IPP

#include <causeway/net/asio_link.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL link::link(link_context& shared, link_identity who, std::vector<tcp::socket> sockets)
    : shared_{&shared},
      who_{std::move(who)},
      outbox_{shared, who_.chunk},
      inbox_{shared.operations,
             who_.name,
             {who_.their_chunk, shared.options.unexpected_bytes, 4 * shared.options.unexpected_bytes, &shared.early}},
      reader_{shared, who_.sender, inbox_},
      move_{shared, who_.sender, who_.name, outbox_},
      waits_{shared, [this](stream& s) { guarded([&] { read_some(s); }); },
             [this](stream& s) { guarded([&] { write_some(s); }); }},
      last_heard_{shared.clock.now()},
      gaps_{arrival_options{.floor = shared.options.silence, .cap = shared.options.silence * 12}} {
  for (tcp::socket& socket : sockets) take_socket(std::move(socket));
}

CAUSEWAY_DECL error link::closed_error() {
  return fail(errc::cancelled, "transport", "it was closed before this was waited for");
}

CAUSEWAY_DECL void link::start_reading() {
  for (const auto& s : streams_) read_some(*s);
}

CAUSEWAY_DECL void link::add_stream(tcp::socket socket) {
  if (failure_) return;
  stream& s = take_socket(std::move(socket));
  read_some(s);
  if (failure_) return;
  // The other side has this stream, too, and takes a goodbye for one only if it comes on all.
  reader_.drops() ? queue_goodbye(s) : write_some(s);
}

CAUSEWAY_DECL void link::send(slot_index slot) {
  if (failure_) return shared_->operations.finish(slot, *failure_);
  outbox_.send(slot);
  for (const auto& s : streams_) write_some(*s);
}

CAUSEWAY_DECL void link::post(std::vector<std::byte> message, bool bulk) {
  if (failure_ || reader_.drops()) return;
  const bool taken = outbox_.post(frame_kind::control, std::move(message), bulk);
  write_some(*streams_[0]);
  if (!taken) lose(fail(errc::peer_lost, who_.name, "it does not take our control messages; too many wait for it"));
}

CAUSEWAY_DECL void link::receive(slot_index slot) {
  inbox_.post(slot);
  if (failure_) {
    if (!shared_->operations[slot].done) inbox_.fail_all(*failure_);
    return;
  }
  resume_parked();
}

CAUSEWAY_DECL void link::cancel(slot_index slot) {
  shared_->operations[slot].is_send ? cancel_send(slot) : inbox_.cancel(slot);
}

CAUSEWAY_DECL void link::discard_before(std::uint32_t epoch) {
  inbox_.discard_before(epoch);
  if (!failure_) resume_parked();
}

CAUSEWAY_DECL void link::refuse_before(std::uint32_t epoch) {
  past_.end_before(epoch);
  inbox_.refuse_before(epoch);
  if (!failure_) resume_parked();
}

CAUSEWAY_DECL void link::tick(duration since_last_tick) {
  guarded([&] { look_after_streams(since_last_tick); });
}

CAUSEWAY_DECL void link::say_goodbye() {
  if (failure_) return;
  outbox_.fail_sends(closed_error());
  outbox_.drop_bulk();
  inbox_.fail_all(closed_error());
  reader_.drop_all();
  for (const auto& s : streams_) {
    if (s->out.slot == no_slot) {
      queue_goodbye(*s);
      if (s->parked) read_some(*s);
    } else {
      shared_->operations.finish(s->out.slot, closed_error());
      s->close();
    }
  }
}

CAUSEWAY_DECL void link::dismiss(const error& why) {
  if (failure_) return;
  for (const auto& s : streams_) {
    if (s->out.slot == no_slot) continue;
    shared_->operations.finish(s->out.slot, why);
    s->out.rescue();
  }
  reader_.drop_all();
  outbox_.drop_bulk();
  fail_with(why);
  outbox_.post(frame_kind::refused, encode_refusal(why), false);
  for (const auto& s : streams_) {
    queue_goodbye(*s);
    if (s->parked) read_some(*s);
  }
}

CAUSEWAY_DECL void link::lose(error why) {
  for (const auto& s : streams_) s->close();
  if (failure_) return;
  outbox_.drop_control();
  fail_with(std::move(why));
  shared_->options.log(severity::warning, failure_->text());
}

CAUSEWAY_DECL bool link::over() const {
  return std::ranges::none_of(streams_, [](const auto& s) { return s->open; });
}

CAUSEWAY_DECL bool link::at_rest() const {
  return std::ranges::none_of(streams_,
                              [](const auto& s) { return s->open || s->read_armed || s->write_armed || s->wakes != 0; });
}

CAUSEWAY_DECL bool link::is_paused() const {
  return std::ranges::any_of(streams_, [](const auto& s) { return s->parked.has_value(); });
}

CAUSEWAY_DECL stream& link::take_socket(tcp::socket socket) {
  tune(socket, shared_->options.socket_buffer, shared_->options.bbr);
  streams_.push_back(std::make_unique<stream>(std::move(socket)));
  streams_.back()->last_heard = shared_->clock.now();
  return *streams_.back();
}

CAUSEWAY_DECL void link::look_after_streams(duration since_last_tick) {
  if (failure_) return end_farewell();
  const bool data_moved =
      std::ranges::any_of(streams_, [&](const auto& s) { return s->wrote_since_tick && !is_first(*s); });
  data_stalls_ = outbox_.has_sends() && !data_moved;
  for (std::size_t i = 0; i < streams_.size() && !failure_; ++i) tick_stream(*streams_[i], since_last_tick);
}

CAUSEWAY_DECL void link::tick_stream(stream& s, duration since_last_tick) {
  // A stream that is busy has more to say than that we live.
  if (!s.wrote_since_tick && !s.out.busy()) s.notices.push_back(outbox_.header(frame_kind::heartbeat));
  write_some(s);
  if (failure_) return;
  s.wrote_since_tick = false;
  if (s.parked || s.heard_goodbye) s.silent = {};
  // Time that this process itself was stopped for does not count against the peer.
  s.silent += std::min(since_last_tick, shared_->options.heartbeat * 2);
  if (s.silent <= std::max(shared_->options.silence, gaps_.count() == 0 ? duration{0} : gaps_.patience())) return;
  lose(fail(errc::peer_lost, who_.name,
            "nothing was heard from it for " + std::to_string(static_cast<int>(seconds(s.silent))) +
                " s; its machine or the network may be down"));
}

CAUSEWAY_DECL void link::write_some(stream& s) {
  if (!s.open || s.write_armed) return;
  for (std::size_t moved = 0; moved < turn_bytes;) {
    if (!s.out.busy() && !next_frame(s)) return;
    std::error_code failure;
    const std::size_t n = s.send(failure);
    if (failure == asio::error::would_block || failure == asio::error::try_again) break;
    if (failure) return lose_to(failure);
    shared_->stats.bytes_sent += n;
    s.wrote_since_tick = true;
    moved += n;
    s.out.consume(n);
    if (!s.out.busy()) finish_frame(s);
    if (!s.open) return;
  }
  waits_.to_write(s);
}

CAUSEWAY_DECL bool link::next_frame(stream& s) {
  const outbox::share share{
      .control = is_first(s), .chunks = !is_first(s) || !who_.control_apart, .data_stalls = data_stalls_};
  if (!outbox_.next_frame(s, share)) return false;
  if (s.out.slot != no_slot && !reader_.drops()) (void)move_.consider(s, shared_->operations[s.out.slot].length);
  return true;
}

CAUSEWAY_DECL void link::finish_frame(stream& s) {
  if (s.out.kind == frame_kind::memory_taken) move_.taken(s);
  outbox_.written(s.out);
  if (s.said_goodbye) return end_writing(s);
  if (!is_first(s) && outbox_.bulk_may_go()) write_some(*streams_[0]);
}

CAUSEWAY_DECL void link::cancel_send(slot_index slot) {
  const auto notice = outbox_.cancel(slot);
  for (const auto& s : streams_) {
    if (s->out.slot == slot) s->out.rescue();
  }
  if (failure_ || !notice) return;
  streams_[0]->notices.push_back(*notice);
  write_some(*streams_[0]);
}

CAUSEWAY_DECL void link::queue_goodbye(stream& s) {
  if (!s.open || s.goodbye_due) return;
  s.goodbye_due = true;
  write_some(s);
}

CAUSEWAY_DECL void link::end_writing(stream& s) {
  std::error_code ignored;
  if (!s.writes_memory) s.socket.shutdown(tcp::socket::shutdown_send, ignored);
  if (s.heard_goodbye) s.close();
}

CAUSEWAY_DECL void link::read_some(stream& s) {
  if (!s.open || s.read_armed) return;
  for (std::size_t moved = 0; moved < turn_bytes;) {
    if (!parse_staged(s)) return;
    const auto buffers = reader_.places(s);
    std::error_code failure;
    const std::size_t n = s.receive(buffers, failure);
    if (failure == asio::error::would_block || failure == asio::error::try_again) break;
    if (failure) return lose_to(failure);
    note_heard(s, n);
    moved += n;
    const std::size_t of_chunk = std::min(n, buffers[0].size());
    if (of_chunk != 0 && !advance_chunk(s, of_chunk)) return;
    s.end += n - of_chunk;
    // Less than there was room for: the socket is empty, and parsing what came is all that is left to do.
    if (!s.reads_memory && n < buffers[0].size() + buffers[1].size()) {
      if (!parse_staged(s)) return;
      break;
    }
  }
  waits_.to_read(s);
}

CAUSEWAY_DECL bool link::parse_staged(stream& s) {
  while (s.open) {
    if (s.parked && !begin_chunk(s, *s.parked)) return false;
    if (s.in_chunk) {
      const std::size_t n = reader_.take_staged(s);
      if (n == 0) return true;
      if (!advance_chunk(s, n)) return false;
    } else {
      auto h = reader_.next_header(s);
      if (!h) return reject(std::move(h).error());
      if (!*h) return true;
      if (!take_header(s, **h)) return false;
    }
  }
  return false;
}

CAUSEWAY_DECL bool link::take_header(stream& s, const frame_header& h) {
  switch (h.kind) {
    case frame_kind::data: return begin_chunk(s, h);
    case frame_kind::heartbeat: return true;
    case frame_kind::goodbye: return hear_goodbye(s);
    case frame_kind::abort: {
      if (reader_.drops()) return true;
      auto outcome = inbox_.abort_message(h);
      return outcome ? true : reject(std::move(outcome).error());
    }
    case frame_kind::control:
    case frame_kind::refused: return begin_control(s, h);
    case frame_kind::memory_offer:
    case frame_kind::memory_taken:
    case frame_kind::memory_declined: return hear_memory(s, h);
    default: return reject(fail(errc::protocol, "", "it sent a handshake in the middle of a run"));
  }
}

CAUSEWAY_DECL bool link::begin_chunk(stream& s, frame_header h) {
  auto begun = reader_.begin_chunk(s, h);
  if (!begun) return reject(std::move(begun).error());
  if (!*begun) return false;
  if (past_.contains(h.id.epoch)) ++shared_->stats.frames_rejected;
  if (!reader_.drops() && move_.consider(s, h.message_length)) write_some(s);
  if (!s.open) return false;
  return h.chunk_length != 0 || advance_chunk(s, 0);
}

CAUSEWAY_DECL bool link::begin_control(stream& s, const frame_header& h) {
  if (shared_->owner == nullptr || !is_first(s)) {
    return reject(fail(errc::protocol, "", "it sent a control message where none belongs"));
  }
  auto begun = reader_.begin_control(s, h);
  if (!begun) return reject(std::move(begun).error());
  return h.chunk_length != 0 || advance_chunk(s, 0);
}

CAUSEWAY_DECL bool link::advance_chunk(stream& s, std::size_t n) {
  auto control = reader_.advance(s, n);
  if (!control) return reject(std::move(control).error());
  return !*control || take_control(s, std::move(**control));
}

CAUSEWAY_DECL bool link::take_control(const stream& s, control_message message) {
  if (s.control_kind == frame_kind::control) {
    shared_->owner->hear_control(who_.peer, std::move(message));
    return true;
  }
  const error why = read_refusal(who_.name, message.view());
  lose(fail(errc::peer_lost, who_.name, "it ended the connection: " + why.message));
  return false;
}

CAUSEWAY_DECL void link::resume_parked() {
  for (const auto& s : streams_) {
    if (s->parked) read_some(*s);
  }
}

CAUSEWAY_DECL void link::note_heard(stream& s, std::size_t n) {
  shared_->stats.bytes_received += n;
  const time_point now = shared_->clock.now();
  // Only pauses say something about how long a living peer can be silent.
  if (now - s.last_heard > shared_->options.heartbeat / 2) gaps_.observe(now - s.last_heard);
  s.last_heard = last_heard_ = now;
  s.silent = {};
}

CAUSEWAY_DECL bool link::hear_goodbye(stream& s) {
  s.heard_goodbye = true;
  const bool left = std::ranges::all_of(streams_, [](const auto& x) { return x->heard_goodbye; });
  if (!left) return false;
  if (!failure_) {
    outbox_.drop_control();
    fail_with(fail(errc::peer_lost, who_.name, "it left the run"));
    shared_->options.log(severity::info, failure_->text());
  }
  for (const auto& x : streams_) answer_goodbye(*x);
  return false;
}

CAUSEWAY_DECL void link::answer_goodbye(stream& s) {
  if (s.out.busy() && s.out.slot != no_slot) return s.close();  // nobody reads the rest
  if (s.said_goodbye && !s.out.busy()) return s.close();
  queue_goodbye(s);
}

CAUSEWAY_DECL bool link::reject(error why) {
  ++shared_->stats.frames_rejected;
  why.message = why.message + " (it was dropped; the others go on)";
  why.where = who_.name;
  lose(fail(errc::peer_lost, who_.name, "dropped: " + why.text()));
  return false;
}

CAUSEWAY_DECL bool link::hear_memory(stream& s, const frame_header& h) {
  auto heard = move_.hear(s, h, reader_.drops());
  if (!heard) return reject(std::move(heard).error());
  if (*heard == memory_move::next::nothing) return true;
  if (*heard == memory_move::next::wake) waits_.to_be_woken(s);
  write_some(s);
  return s.open;
}

CAUSEWAY_DECL void link::lose_to(const std::error_code& failure) {
  if (failure == std::errc::bad_message) {
    return (void)reject(fail(errc::protocol, "", "its counters in shared memory cannot be"));
  }
  const std::string reason = failure == asio::error::eof ? "its program ended" : failure.message();
  lose(fail(errc::peer_lost, who_.name, "the connection ended: " + reason));
}

CAUSEWAY_DECL void link::fail_with(error why) {
  failure_ = std::move(why);
  failed_at_ = shared_->clock.now();
  outbox_.fail_sends(*failure_);
  for (const auto& s : streams_) {
    if (s->out.slot == no_slot) continue;
    shared_->operations.finish(std::exchange(s->out.slot, no_slot), *failure_);
    s->close();
  }
  inbox_.fail_all(*failure_);
  if (shared_->owner != nullptr) shared_->owner->hear_lost(who_.peer, *failure_);
}

CAUSEWAY_DECL void link::end_farewell() {
  if (over() || shared_->clock.now() - failed_at_ < shared_->options.close_grace) return;
  for (const auto& s : streams_) s->close();
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_ASIO_LINK_IPP
