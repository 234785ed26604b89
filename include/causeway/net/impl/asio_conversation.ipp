// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_ASIO_CONVERSATION_IPP
#define CAUSEWAY_NET_IMPL_ASIO_CONVERSATION_IPP

#include <causeway/net/asio_conversation.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL error wrong_run() {
  return fail(
      errc::wrong_run, "",
      "this address serves another run; check the name and the seed of the run that you want to join, or its address");
}

CAUSEWAY_DECL conversation::conversation(tcp::socket socket) : socket_{std::move(socket)}, timer_{socket_.get_executor()} {}

CAUSEWAY_DECL void conversation::on_end(end_handler handler) { ended_ = std::move(handler); }

CAUSEWAY_DECL void conversation::next(std::size_t limit, std::chrono::nanoseconds patience, frame_handler handler) {
  framed_ = std::move(handler);
  arm_timer(patience);
  asio::async_read(socket_, asio::buffer(header_),
                   transfer_completion{[self = shared_from_this(), limit](std::error_code failure, std::size_t) {
                     if (failure) return self->end_with(failure);
                     self->read_body(limit);
                   }});
}

CAUSEWAY_DECL void conversation::say(frame_kind kind, std::uint64_t run_id, peer_index sender,
                                     std::span<const std::byte> body, std::function<void()> then) {
  CAUSEWAY_EXPECT(body.size() <= max_handshake_bytes);
  frame_header h;
  h.kind = kind;
  h.run_id = run_id;
  h.sender = sender;
  h.chunk_length = static_cast<std::uint32_t>(body.size());
  outgoing frame{std::vector<std::byte>(header_bytes + body.size()), std::move(then)};
  encode_header(h, frame.bytes.data());
  std::copy(body.begin(), body.end(), frame.bytes.begin() + header_bytes);
  queue_.push_back(std::move(frame));
  if (queue_.size() == 1) write_front();
}

CAUSEWAY_DECL void conversation::refuse(const error& why) {
  framed_ = {};
  ended_ = {};
  last_words_ = true;
  say(frame_kind::refused, 0, 0, encode_refusal(why));
}

CAUSEWAY_DECL void conversation::stop() {
  if (over_) return;
  over_ = true;
  std::error_code ignored;
  timer_.cancel();
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  socket_.close(ignored);
  framed_ = {};
  ended_ = {};
  for (outgoing& frame : queue_) frame.then = {};  // the bytes of the first may still be in use
}

CAUSEWAY_DECL tcp::socket conversation::release() {
  over_ = true;
  timer_.cancel();
  framed_ = {};
  ended_ = {};
  return std::move(socket_);
}

CAUSEWAY_DECL std::string conversation::remote() const {
  std::error_code failure;
  const auto e = socket_.remote_endpoint(failure);
  return failure ? std::string{"a closed connection"} : to_endpoint(e).text();
}

CAUSEWAY_DECL void conversation::arm_timer(std::chrono::nanoseconds patience) {
  timer_.cancel();
  if (patience == std::chrono::nanoseconds::max()) return;
  timer_.expires_after(patience);
  timer_.async_wait(completion{[self = shared_from_this(), round = ++round_](std::error_code failure) {
    if (!failure && round == self->round_) self->end(fail(errc::timeout, self->remote(), "it said nothing in time"));
  }});
}

CAUSEWAY_DECL void conversation::read_body(std::size_t limit) {
  auto h = decode_header(header_);
  if (!h) return end(std::move(h).error());
  if (!is_handshake(h->kind) && h->kind != frame_kind::heartbeat)
    return end(fail(errc::protocol, remote(), "it sent data before the handshake was over"));
  if (h->chunk_length > limit) return end(fail(errc::too_large, remote(), "its handshake is longer than allowed"));
  body_.resize(h->chunk_length);
  asio::async_read(socket_, asio::buffer(body_),
                   transfer_completion{[self = shared_from_this(), header = *h](std::error_code failure, std::size_t) {
                     if (failure) return self->end_with(failure);
                     self->deliver(header);
                   }});
}

CAUSEWAY_DECL void conversation::deliver(const frame_header& h) {
  ++round_;
  timer_.cancel();
  if (over_ || !framed_) return;
  const auto handler = std::exchange(framed_, {});
  const std::vector<std::byte> body = std::move(body_);
  handler(h, body);
}

CAUSEWAY_DECL void conversation::write_front() {
  asio::async_write(socket_, asio::buffer(queue_.front().bytes),
                    transfer_completion{[self = shared_from_this()](std::error_code failure, std::size_t) {
                      if (failure) return self->fall_silent(failure);
                      const auto then = std::move(self->queue_.front().then);
                      self->queue_.pop_front();
                      if (!self->queue_.empty()) self->write_front();
                      if (then && !self->over_) then();
                      if (self->queue_.empty() && self->last_words_) self->stop();
                    }});
}

CAUSEWAY_DECL void conversation::fall_silent(const std::error_code& failure) {
  if (!framed_) return end_with(failure);
  queue_.clear();
}

CAUSEWAY_DECL void conversation::end_with(const std::error_code& failure) {
  const std::string why = failure == asio::error::eof ? "it closed the connection" : failure.message();
  end(fail(errc::peer_lost, over_ ? std::string{} : remote(), why));
}

CAUSEWAY_DECL void conversation::end(const error& why) {
  if (over_) return;
  const auto handler = std::exchange(ended_, {});
  stop();
  if (handler) handler(why);
}

CAUSEWAY_DECL dialer::dialer(asio::io_context& io, endpoint target, connect_handler connected, failure_handler failed)
    : resolver_{io},
      socket_{io},
      timer_{io},
      target_{std::move(target)},
      connected_{std::move(connected)},
      failed_{std::move(failed)} {}

CAUSEWAY_DECL void dialer::dial() {
  std::error_code failure;
  const auto address = asio::ip::make_address(target_.host, failure);
  if (!failure) {
    const tcp::endpoint only{address, target_.port};
    return connect(std::vector<tcp::endpoint>{only});
  }
  resolver_.async_resolve(target_.host, std::to_string(target_.port),
                          [self = shared_from_this()](std::error_code unknown, const tcp::resolver::results_type& found) {
                            if (unknown) return self->retry(unknown);
                            self->connect({found.begin(), found.end()});
                          });
}

CAUSEWAY_DECL void dialer::stop() {
  connected_ = {};
  failed_ = {};
  resolver_.cancel();
  timer_.cancel();
  std::error_code ignored;
  socket_.close(ignored);
}

CAUSEWAY_DECL void dialer::connect(std::vector<tcp::endpoint> candidates) {
  if (!connected_) return;
  candidates_ = std::move(candidates);
  asio::async_connect(socket_, candidates_, [self = shared_from_this()](std::error_code failure, const tcp::endpoint&) {
    if (!self->connected_) return;
    if (failure) return self->retry(failure);
    const auto call = std::exchange(self->connected_, {});
    self->failed_ = {};
    call(std::make_shared<conversation>(std::move(self->socket_)));
  });
}

CAUSEWAY_DECL void dialer::retry(const std::error_code& failure) {
  if (!connected_) return;
  last_failure_ = failure == asio::error::no_descriptors ? no_descriptors({}).message : failure.message();
  std::error_code ignored;
  socket_.close(ignored);
  if (!failed_) return dial_later();
  connected_ = {};
  const auto call = std::exchange(failed_, {});
  call(fail(errc::unreachable, target_.text(), last_failure_));
}

CAUSEWAY_DECL void dialer::dial_later() {
  timer_.expires_after(pause_);
  pause_ = std::min(pause_ * 2, longest_pause);
  timer_.async_wait(completion{[self = shared_from_this()](std::error_code stopped) {
    if (!stopped && self->connected_) self->dial();
  }});
}

CAUSEWAY_DECL informant::informant(piece_source pieces) : pieces_{std::move(pieces)} {}

CAUSEWAY_DECL void informant::serve(const conversation_ptr& who, std::uint64_t run_id, std::span<const std::byte> body) {
  if (!pieces_) return who->refuse(fail(errc::unsupported, "", "this run tells newcomers nothing"));
  if (talks_.size() >= most_talks) {
    return who->refuse(fail(errc::too_large, "", "too many newcomers ask at once; try later"));
  }
  talks_.insert(who);
  who->on_end([this, who](const error&) { talks_.erase(who); });
  answer(who, run_id, body);
}

CAUSEWAY_DECL void informant::stop() {
  for (const auto& who : std::exchange(talks_, {})) who->stop();
}

CAUSEWAY_DECL void informant::answer(const conversation_ptr& who, std::uint64_t run_id, std::span<const std::byte> body) {
  byte_reader in{body};
  const auto item = in.get<std::uint32_t>();
  const auto offset = in.get<std::uint64_t>();
  if (const auto whole = in.finish("question"); !whole) {
    talks_.erase(who);
    return who->refuse(whole.error());
  }
  const std::vector<std::byte> piece = pieces_(item, offset);
  // The next question is read when this answer is out: a stranger costs one piece of memory, however much it asks for.
  who->say(frame_kind::told, run_id, 0, std::span{piece}.first(std::min(piece.size(), max_piece_bytes)),
           [this, who, run_id] { hear(who, run_id); });
}

CAUSEWAY_DECL void informant::hear(const conversation_ptr& who, std::uint64_t run_id) {
  who->next(question_bytes, patience, [this, who, run_id](const frame_header& h, std::span<const std::byte> body) {
    if (h.kind == frame_kind::ask) return answer(who, run_id, body);
    talks_.erase(who);
    who->refuse(fail(errc::protocol, "", "it stopped asking"));
  });
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_ASIO_CONVERSATION_IPP
