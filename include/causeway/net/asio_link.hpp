// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_LINK_HPP
#define CAUSEWAY_NET_ASIO_LINK_HPP

// The connection to one peer: one or more TCP streams, the sends that wait for them, and the inbox. All reads and writes
// are non-blocking calls made under the transport's lock when a socket is ready, never asynchronous operations on a
// caller's buffer. So once an operation is cancelled nothing can touch its buffer, and no byte is copied between socket and
// buffer.

#include <causeway/core/clock.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/net/asio_library.hpp>
#include <causeway/net/asio_stream.hpp>
#include <causeway/net/deadline.hpp>
#include <causeway/net/frame.hpp>
#include <causeway/net/inbox.hpp>
#include <causeway/net/operations.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::net {

namespace detail {

class link {
 public:
  link(link_context& shared, peer_index peer, std::vector<tcp::socket> sockets)
      : shared_{&shared},
        peer_{peer},
        chunk_{chunk_for(shared.options.chunk_bytes, sockets.size())},
        inbox_{shared.operations, peer, {chunk_, shared.options.unexpected_bytes, 4 * shared.options.unexpected_bytes}},
        scrap_(std::size_t{64} << 10U),
        last_heard_{shared.clock.now()},
        gaps_{arrival_options{.floor = shared.options.silence, .cap = shared.options.silence * 12}} {
    for (tcp::socket& socket : sockets) {
      tune(socket, shared.options.socket_buffer, shared.options.bbr);
      streams_.push_back(std::make_unique<stream>(std::move(socket)));
    }
  }

  // All members need the context's lock.

  void start_reading() {
    for (const auto& s : streams_) read_some(*s);
  }

  void send(slot_index slot) {
    if (failure_) return shared_->operations.finish(slot, *failure_);
    waiting_sends_.push_back(slot);
    for (const auto& s : streams_) write_some(*s);
  }

  void receive(slot_index slot) {
    inbox_.post(slot);
    if (failure_) {
      if (!shared_->operations[slot].done) inbox_.fail_all(*failure_);
      return;
    }
    resume_parked();
  }

  /// Gives an unfinished operation up; its buffer is free when this returns.
  void cancel(slot_index slot) {
    if (shared_->operations[slot].is_send) return cancel_send(slot);
    inbox_.cancel(slot);
    for (const auto& s : streams_) {
      if (!s->in_chunk || s->spot.slot != slot) continue;
      s->spot.how = landing::kind::discard;
      s->spot.slot = no_slot;
      s->spot.to = nullptr;
    }
  }

  void discard_before(std::uint32_t epoch) {
    inbox_.discard_before(epoch);
    if (!failure_) resume_parked();
  }

  /// Once per heartbeat interval: says that we live when nothing else did, and notices a silent peer.
  void tick(duration since_last_tick) {
    if (failure_) return;
    if (!wrote_since_tick_ && !streams_[0]->out.busy()) {
      notify(*streams_[0], frame_kind::heartbeat);
      write_some(*streams_[0]);
    }
    wrote_since_tick_ = false;
    if (is_paused()) silent_ = {};
    // Time that this process itself was stopped for does not count against the peer.
    silent_ += std::min(since_last_tick, shared_->options.heartbeat * 2);
    if (silent_ <= std::max(shared_->options.silence, gaps_.count() == 0 ? duration{0} : gaps_.patience())) return;
    lose(fail(errc::peer_lost, peer_name(peer_),
              "nothing was heard from it for " + std::to_string(static_cast<int>(seconds(silent_))) +
                  " s; its machine or the network may be down"));
  }

  /// Says goodbye and gives up what was not waited for. Buffers of such sends may be gone: their streams just end.
  void say_goodbye() {
    if (failure_) return;
    for (const slot_index slot : waiting_sends_) shared_->operations.finish(slot, closed_error());
    waiting_sends_.clear();
    inbox_.fail_all(closed_error());
    closing_ = true;  // what still comes is read and dropped, so that the other side's goodbye can be heard
    for (const auto& s : streams_) {
      s->spot.how = landing::kind::discard;
      s->spot.to = nullptr;
      if (s->out.slot == no_slot) {
        queue_goodbye(*s);
        if (s->parked) read_some(*s);
      } else {
        shared_->operations.finish(s->out.slot, closed_error());
        shut(*s);
      }
    }
  }

  /// Ends the link with an error that every operation of it gets.
  void lose(error why) {
    if (failure_) return;
    failure_ = std::move(why);
    for (const auto& s : streams_) shut(*s);
    fail_everything();
    shared_->options.log(severity::warning, failure_->text());
  }

  [[nodiscard]] bool over() const {
    return std::none_of(streams_.begin(), streams_.end(), [](const auto& s) { return s->open; });
  }
  [[nodiscard]] bool lost() const { return failure_.has_value(); }
  [[nodiscard]] bool is_paused() const {
    return std::any_of(streams_.begin(), streams_.end(), [](const auto& s) { return s->parked.has_value(); });
  }
  [[nodiscard]] time_point last_heard() const { return last_heard_; }
  [[nodiscard]] std::size_t stream_count() const { return streams_.size(); }

 private:
  static constexpr std::size_t turn_bytes = std::size_t{4} << 20U;  // moved before other sockets get their turn

  // ---- writing

  void write_some(stream& s) {
    if (!s.open || s.write_armed) return;
    for (std::size_t moved = 0; moved < turn_bytes;) {
      if (!s.out.busy() && !next_frame(s)) return;
      std::error_code failure;
      const std::size_t n = s.socket.send(s.out.buffers(), 0, failure);
      if (failure == asio::error::would_block || failure == asio::error::try_again) break;
      if (failure) return lose_to(failure);
      shared_->stats.bytes_sent += n;
      wrote_since_tick_ = true;
      moved += n;
      s.out.consume(n);
      if (!s.out.busy()) finish_frame(s);
      if (!s.open) return;
    }
    arm_write(s);
  }

  void arm_write(stream& s) {
    s.write_armed = true;
    s.socket.async_wait(tcp::socket::wait_write, [this, &s](std::error_code failure) {
      const std::lock_guard lock{shared_->mutex};
      s.write_armed = false;
      if (!failure) write_some(s);
    });
  }

  /// Takes the next notice or the next chunk of the oldest send. Streams that are quicker take more chunks.
  bool next_frame(stream& s) {
    if (!s.notices.empty()) {
      encode_header(s.notices.front(), s.out.header.data());
      s.out.body_length = 0;
      s.notices.pop_front();
    } else if (!waiting_sends_.empty() && !s.said_goodbye) {
      take_chunk(s, waiting_sends_.front());
    } else {
      return false;
    }
    s.out.header_left = header_bytes;
    return true;
  }

  void take_chunk(stream& s, slot_index slot) {
    pending_operation& op = shared_->operations[slot];
    if (op.taken == 0) op.sequence = next_sequence_++;
    const std::size_t length = std::min(chunk_, op.length - op.taken);
    frame_header h = header(frame_kind::data);
    h.id = op.id;
    h.sequence = op.sequence;
    h.message_length = op.length;
    h.chunk_offset = op.taken;
    h.chunk_length = static_cast<std::uint32_t>(length);
    encode_header(h, s.out.header.data());
    s.out.body = op.source + op.taken;
    s.out.body_left = s.out.body_length = length;
    s.out.slot = slot;
    op.taken += length;
    if (op.taken == op.length) waiting_sends_.pop_front();
  }

  void finish_frame(stream& s) {
    ++shared_->stats.frames_sent;
    if (s.out.slot != no_slot) {
      pending_operation& op = shared_->operations[s.out.slot];
      op.moved += s.out.body_length;
      if (op.moved == op.length) shared_->operations.finish(s.out.slot);
      s.out.slot = no_slot;
    }
    if (s.said_goodbye && s.notices.empty()) end_writing(s);
  }

  void cancel_send(slot_index slot) {
    const pending_operation& op = shared_->operations[slot];
    std::erase(waiting_sends_, slot);
    for (const auto& s : streams_) {
      if (s->out.slot != slot) continue;
      s->out.rescued.assign(s->out.body, s->out.body + s->out.body_left);
      s->out.body = s->out.rescued.data();
      s->out.slot = no_slot;
    }
    if (failure_ || op.taken == 0 || op.taken == op.length) return;
    frame_header h = header(frame_kind::abort);
    h.id = op.id;
    h.sequence = op.sequence;
    h.message_length = op.length;
    h.chunk_offset = op.taken;
    streams_[0]->notices.push_back(h);
    write_some(*streams_[0]);
  }

  void notify(stream& s, frame_kind kind) { s.notices.push_back(header(kind)); }

  void queue_goodbye(stream& s) {
    if (!s.open || s.said_goodbye) return;
    s.said_goodbye = true;
    notify(s, frame_kind::goodbye);
    write_some(s);
  }

  void end_writing(stream& s) {
    std::error_code ignored;
    s.socket.shutdown(tcp::socket::shutdown_send, ignored);
    if (s.heard_goodbye) shut(s);
  }

  [[nodiscard]] frame_header header(frame_kind kind) const {
    frame_header h;
    h.kind = kind;
    h.run_id = shared_->run_id;
    h.sender = shared_->self;
    return h;
  }

  // ---- reading

  void read_some(stream& s) {
    if (!s.open || s.read_armed) return;
    for (std::size_t moved = 0; moved < turn_bytes;) {
      if (!parse_staged(s)) return;
      const auto buffers = places_to_read(s);
      std::error_code failure;
      const std::size_t n = s.socket.receive(buffers, 0, failure);
      if (failure == asio::error::would_block || failure == asio::error::try_again) break;
      if (failure) return lose_to(failure);
      note_heard(n);
      moved += n;
      const std::size_t of_chunk = std::min(n, buffers[0].size());
      if (of_chunk != 0) advance_chunk(s, of_chunk);
      s.end += n - of_chunk;
      // Less than there was room for: the socket is empty, and parsing what came is all that is left to do.
      if (n < buffers[0].size() + buffers[1].size()) {
        if (!parse_staged(s)) return;
        break;
      }
    }
    arm_read(s);
  }

  void arm_read(stream& s) {
    s.read_armed = true;
    s.socket.async_wait(tcp::socket::wait_read, [this, &s](std::error_code failure) {
      const std::lock_guard lock{shared_->mutex};
      s.read_armed = false;
      if (!failure) read_some(s);
    });
  }

  /// First the rest of the chunk's place, then room for what follows it.
  std::array<asio::mutable_buffer, 2> places_to_read(stream& s) {
    asio::mutable_buffer chunk{nullptr, 0};
    if (s.in_chunk && s.spot.to != nullptr) chunk = {s.spot.to + (s.spot.length - s.chunk_left), s.chunk_left};
    if (s.in_chunk && s.spot.to == nullptr) chunk = {scrap_.data(), std::min(scrap_.size(), s.chunk_left)};
    if (s.begin != 0) {
      std::memmove(s.staging.data(), s.staging.data() + s.begin, s.end - s.begin);
      s.end -= s.begin;
      s.begin = 0;
    }
    // Behind a discarded chunk's first part comes its second: nothing of it may land in the staging area.
    const bool partial = chunk.size() < s.chunk_left;
    return {chunk, asio::mutable_buffer{s.staging.data() + s.end, partial ? 0 : room_behind_chunk(s)}};
  }

  /// Behind a large chunk often comes another: take in its header only, and let its bytes go where they belong.
  static std::size_t room_behind_chunk(const stream& s) {
    const bool large = s.spot.length > stream::staging_bytes;
    return (large ? std::max(header_bytes, s.end + 1) : s.staging.size()) - s.end;
  }

  /// Handles what lies in the staging area. False when the stream must not be read on.
  bool parse_staged(stream& s) {
    while (s.open) {
      if (s.parked && !begin_chunk(s, *s.parked)) return false;
      if (s.in_chunk) {
        const std::size_t n = std::min(s.end - s.begin, s.chunk_left);
        if (n == 0) return true;
        if (s.spot.to != nullptr) {
          std::memcpy(s.spot.to + (s.spot.length - s.chunk_left), s.staging.data() + s.begin, n);
        }
        s.begin += n;
        advance_chunk(s, n);
      } else if (s.end - s.begin < header_bytes) {
        return true;
      } else if (!take_header(s)) {
        return false;
      }
    }
    return false;
  }

  bool take_header(stream& s) {
    auto h = decode_header({s.staging.data() + s.begin, s.end - s.begin});
    s.begin += header_bytes;
    if (!h) return reject(std::move(h).error());
    ++shared_->stats.frames_received;
    if (h->run_id != shared_->run_id) return reject(fail(errc::wrong_run, "", "it sent a frame of another run"));
    if (h->sender != peer_) return reject(fail(errc::protocol, "", "it sent a frame in somebody else's name"));
    switch (h->kind) {
      case frame_kind::data: return begin_chunk(s, *h);
      case frame_kind::heartbeat: return true;
      case frame_kind::goodbye: return hear_goodbye(s);
      case frame_kind::abort: {
        if (closing_) return true;
        auto outcome = inbox_.abort_message(*h);
        return outcome ? true : reject(std::move(outcome).error());
      }
      default: return reject(fail(errc::protocol, "", "it sent a handshake in the middle of a run"));
    }
  }

  bool begin_chunk(stream& s, const frame_header& h) {
    auto spot = closing_ ? result<landing>{landing{.how = landing::kind::discard}} : inbox_.begin_chunk(h);
    if (!spot) return reject(std::move(spot).error());
    if (spot->how == landing::kind::parked) {
      s.parked = h;
      return false;
    }
    s.parked.reset();
    s.spot = *spot;
    s.chunk_left = h.chunk_length;
    s.in_chunk = true;
    if (s.chunk_left == 0) advance_chunk(s, 0);
    return true;
  }

  void advance_chunk(stream& s, std::size_t n) {
    s.chunk_left -= n;
    if (s.chunk_left != 0) return;
    s.in_chunk = false;
    if (!closing_) inbox_.end_chunk(s.spot);
  }

  void resume_parked() {
    for (const auto& s : streams_) {
      if (s->parked) read_some(*s);
    }
  }

  void note_heard(std::size_t n) {
    shared_->stats.bytes_received += n;
    const time_point now = shared_->clock.now();
    // Only pauses say something about how long a living peer can be silent.
    if (now - last_heard_ > shared_->options.heartbeat / 2) gaps_.observe(now - last_heard_);
    last_heard_ = now;
    silent_ = {};
  }

  bool hear_goodbye(stream& s) {
    s.heard_goodbye = true;
    const bool left = std::all_of(streams_.begin(), streams_.end(), [](const auto& x) { return x->heard_goodbye; });
    if (left && !failure_) {
      failure_ = fail(errc::peer_lost, peer_name(peer_), "it left the run");
      fail_everything();
      shared_->options.log(severity::info, failure_->text());
    }
    if (left) {
      for (const auto& x : streams_) answer_goodbye(*x);
    }
    return false;
  }

  void answer_goodbye(stream& s) {
    if (s.out.busy() && s.out.slot != no_slot) return shut(s);  // nobody reads the rest
    if (s.said_goodbye && !s.out.busy() && s.notices.empty()) return shut(s);
    queue_goodbye(s);
  }

  // ---- ending

  /// The peer spoke nonsense: drops it. Always false.
  bool reject(error why) {
    ++shared_->stats.frames_rejected;
    why.message = why.message + " (it was dropped; the others go on)";
    why.where = peer_name(peer_);
    lose(fail(errc::peer_lost, peer_name(peer_), "dropped: " + why.text()));
    return false;
  }

  void lose_to(const std::error_code& failure) {
    const std::string reason = failure == asio::error::eof ? "its program ended" : failure.message();
    lose(fail(errc::peer_lost, peer_name(peer_), "the connection ended: " + reason));
  }

  void fail_everything() {
    for (const slot_index slot : waiting_sends_) shared_->operations.finish(slot, *failure_);
    waiting_sends_.clear();
    for (const auto& s : streams_) {
      if (s->out.slot != no_slot) shared_->operations.finish(s->out.slot, *failure_);
      if (s->out.slot != no_slot) shut(*s);
      s->out.slot = no_slot;
    }
    inbox_.fail_all(*failure_);
  }

  static error closed_error() { return fail(errc::cancelled, "transport", "it was closed before this was waited for"); }

  static void shut(stream& s) {
    std::error_code ignored;
    s.open = false;
    s.socket.close(ignored);
  }

  link_context* shared_;
  peer_index peer_;
  std::size_t chunk_;
  std::vector<std::unique_ptr<stream>> streams_;
  inbox inbox_;
  std::deque<slot_index> waiting_sends_;  // sends with chunks that no stream took yet, oldest first
  std::uint64_t next_sequence_ = 0;
  std::vector<std::byte> scrap_;
  std::optional<error> failure_;
  bool closing_ = false;
  bool wrote_since_tick_ = false;
  time_point last_heard_;
  duration silent_{0};
  arrival_statistics gaps_;
};

}  // namespace detail

}  // namespace causeway::inline CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_ASIO_LINK_HPP
