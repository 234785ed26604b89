// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_HANDSHAKE_ACCEPTOR_IPP
#define CAUSEWAY_NET_IMPL_HANDSHAKE_ACCEPTOR_IPP

#include <causeway/net/handshake_acceptor.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL handshake_acceptor::handshake_acceptor(asio::io_context& io, std::mutex& mutex,
                                                     std::unique_ptr<tcp::acceptor> acceptor,
                                                     const handshake_options& options, handshake_owner& owner)
    : io_{&io},
      mutex_{&mutex},
      accepting_{make_accepting(std::move(acceptor))},
      options_{options},
      owner_{&owner},
      informant_{options.pieces},
      strangers_{options.strangers},
      turned_away_{options.log} {}

CAUSEWAY_DECL void handshake_acceptor::send_away(const meeting_ptr& m) {
  refuse(m, fail(errc::too_large, "", "too many connections at once; try again"));
}

CAUSEWAY_DECL handshake_acceptor::meeting::meeting(asio::io_context& io) : deadline{io} {}

CAUSEWAY_DECL void handshake_acceptor::dial(const std::string& address) {
  if (over_ || is_dialling(address)) return;
  const auto target = parse_endpoint(address);
  if (!target) return owner_->unreachable(address, target.error());
  waiting_.push_back(address);
  dial_next();
}

CAUSEWAY_DECL void handshake_acceptor::dial_stream(const tcp::endpoint& at, const stream_request& which,
                                                   const link_key& ours) {
  if (over_) return;
  const meeting_ptr m = start_meeting();
  m->target = to_endpoint(at);
  m->stream = which;
  m->our_key = ours;
  call(m);
}

CAUSEWAY_DECL void handshake_acceptor::lock_up() {
  over_ = true;
  accepting_->stop();
  for (const auto& m : std::exchange(meetings_, {})) end(m);
  informant_.stop();
}

CAUSEWAY_DECL auto handshake_acceptor::start_meeting() -> meeting_ptr {
  const auto m = std::make_shared<meeting>(*io_);
  meetings_.insert(m);
  m->deadline.expires_after(options_.handshake);
  m->deadline.async_wait(completion{[this, m](std::error_code failure) {
    const std::lock_guard lock{*mutex_};
    if (!failure) give_up(m, fail(errc::timeout, name_of(*m), "the handshake was not over in time"));
  }});
  return m;
}

CAUSEWAY_DECL std::shared_ptr<accepting> handshake_acceptor::make_accepting(std::unique_ptr<tcp::acceptor> acceptor) {
  return std::make_shared<accepting>(
      *io_, std::move(acceptor),
      [this](tcp::socket socket) {
        const std::lock_guard lock{*mutex_};
        if (!over_) meet_stranger(std::move(socket));
      },
      [this](const std::string& why) {
        const std::lock_guard lock{*mutex_};
        if (over_) return;
        turned_away_.say(clock_.now(), "cannot accept connections for now: " + why);
        make_room();
      });
}

CAUSEWAY_DECL void handshake_acceptor::meet_stranger(tcp::socket socket) {
  std::error_code failure;
  const auto from = socket.remote_endpoint(failure).address();
  const bool scarce = spare_descriptors(socket.native_handle()) == 0;
  const auto who = std::make_shared<conversation>(std::move(socket));
  if (scarce && !make_room()) {
    turned_away_.say(clock_.now(), "refused " + who->remote() + ": " + no_descriptors("").message);
    return who->refuse(fail(errc::too_large, "", "this peer has as many connections as it may have; try another one"));
  }
  const meeting_ptr m = start_meeting();
  m->who = who;
  m->source = from.to_string();
  if (const auto goes = strangers_.enter(m, m->source)) send_away(*goes);
  watch(m);
  expect(m, &handshake_acceptor::hear_first);
}

CAUSEWAY_DECL bool handshake_acceptor::make_room() {
  const auto goes = strangers_.expel();
  if (goes) send_away(*goes);
  return goes.has_value();
}

CAUSEWAY_DECL void handshake_acceptor::hear_first(const meeting_ptr& m, const frame_header& h, frame_body body) {
  if (h.kind == frame_kind::ask) return inform(m, body);
  if (h.kind != frame_kind::meet && h.kind != frame_kind::stream) {
    return refuse(m, fail(errc::protocol, "",
                          "this address serves a run whose peers may come and go; join it with a fault policy other than "
                          "fail_stop"));
  }
  if (h.run_id != options_.run_id) return refuse(m, wrong_run());
  if (h.kind == frame_kind::stream) return hear_stream_request(m, body);
  if (auto why = understand(m, body)) return refuse(m, *why);
  strangers_.introduce(m);
  say_meet(m);
  agree(m);
}

CAUSEWAY_DECL void handshake_acceptor::inform(const meeting_ptr& m, frame_body body) {
  const conversation_ptr who = std::exchange(m->who, {});
  end(m);
  informant_.serve(who, options_.run_id, body);
}

CAUSEWAY_DECL void handshake_acceptor::hear_stream_request(const meeting_ptr& m, frame_body body) {
  const auto which = stream_request::decode(body);
  if (!which) return refuse(m, which.error());
  if (!owner_->wants_stream(*which)) return refuse(m, fail(errc::not_found, "", "this stream belongs to no link of ours"));
  strangers_.introduce(m);
  m->stream = *which;
  say(m, frame_kind::stream_ok, {}, [this, m] { hand_over_stream(m); });
}

CAUSEWAY_DECL bool handshake_acceptor::is_dialling(const std::string& address) const {
  if (std::find(waiting_.begin(), waiting_.end(), address) != waiting_.end()) return true;
  return std::any_of(meetings_.begin(), meetings_.end(), [&](const auto& m) { return m->dialled == address; });
}

CAUSEWAY_DECL void handshake_acceptor::dial_next() {
  const auto under_way = [this] {
    return std::count_if(meetings_.begin(), meetings_.end(), [](const auto& m) { return !m->dialled.empty(); });
  };
  while (!over_ && !waiting_.empty() && static_cast<std::size_t>(under_way()) < options_.dials) {
    const meeting_ptr m = start_meeting();
    m->dialled = std::move(waiting_.front());
    waiting_.pop_front();
    m->target = *parse_endpoint(m->dialled);
    call(m);
  }
}

CAUSEWAY_DECL void handshake_acceptor::call(const meeting_ptr& m, bool pause) {
  m->dialling = std::make_shared<dialer>(
      *io_, m->target,
      [this, m](const conversation_ptr& who) {
        const std::lock_guard lock{*mutex_};
        if (m->over || over_) return who->stop();
        greet(m, who);
      },
      [this, m](const error& why) {
        const std::lock_guard lock{*mutex_};
        lose(m, why);
      });
  pause ? m->dialling->dial_later() : m->dialling->dial();
}

CAUSEWAY_DECL void handshake_acceptor::greet(const meeting_ptr& m, const conversation_ptr& who) {
  m->who = who;
  if (spare_descriptors(who->descriptor()) == 0) return give_up(m, no_descriptors(name_of(*m)));
  watch(m);
  if (!m->stream) {
    say_meet(m);
    return expect(m, &handshake_acceptor::hear_meet);
  }
  say(m, frame_kind::stream, stream_request{m->our_key, m->stream->index}.encode());
  expect(m, &handshake_acceptor::hear_stream_ok);
}

CAUSEWAY_DECL void handshake_acceptor::hear_meet(const meeting_ptr& m, const frame_header& h, frame_body body) {
  if (h.kind == frame_kind::refused) return give_up(m, read_refusal(m->dialled, body));
  if (h.kind != frame_kind::meet) return give_up(m, fail(errc::protocol, m->dialled, "it answered out of turn"));
  if (h.run_id != options_.run_id) return give_up(m, fail(errc::wrong_run, m->dialled, "it belongs to another run"));
  if (auto why = understand(m, body)) return give_up(m, fail(why->code, m->dialled, why->message));
  agree(m);
}

CAUSEWAY_DECL void handshake_acceptor::hear_stream_ok(const meeting_ptr& m, const frame_header& h, frame_body body) {
  if (h.kind == frame_kind::stream_ok) return hand_over_stream(m);
  // The other side may not have taken the link yet: it learns of it on another connection.
  lose(m, h.kind == frame_kind::refused ? read_refusal(name_of(*m), body)
                                        : fail(errc::protocol, name_of(*m), "it answered out of turn"));
}

CAUSEWAY_DECL std::optional<error> handshake_acceptor::understand(const meeting_ptr& m, frame_body body) {
  auto them = introduction::decode(body);
  if (!them) return them.error();
  m->them = std::move(*them);
  std::error_code failure;
  if (m->them.host.empty()) m->them.host = m->who->socket().remote_endpoint(failure).address().to_string();
  return owner_->objection(m->them);
}

CAUSEWAY_DECL void handshake_acceptor::say_meet(const meeting_ptr& m) {
  m->us = owner_->introduce(m->who->socket(), spare_descriptors(m->who->descriptor()));
  m->us.nonce = hash_bytes(std::as_bytes(std::span{&++talks_, 1}), m->us.incarnation);
  say(m, frame_kind::meet, m->us.encode());
}

CAUSEWAY_DECL void handshake_acceptor::agree(const meeting_ptr& m) {
  if (m->us.id < m->them.id) return expect(m, &handshake_acceptor::hear_wish);
  if (!m->dialled.empty() && owner_->is_connected(m->them.id, m->them.incarnation)) return end(m);
  wish ours = owner_->wish_for(m->them);
  ours.nonce = m->them.nonce;
  say(m, frame_kind::want, ours.encode());
  expect(m, &handshake_acceptor::hear_decision);
}

CAUSEWAY_DECL void handshake_acceptor::hear_wish(const meeting_ptr& m, const frame_header& h, frame_body body) {
  const auto theirs = wish::decode(body);
  if (h.kind != frame_kind::want || !theirs || theirs->nonce != m->us.nonce) {
    return give_up(m, fail(errc::protocol, name_of(*m), "its answer does not belong to this handshake"));
  }
  const std::uint64_t serial = m->serial = owner_->choose(m->them, *theirs);
  say(m, frame_kind::take, decision{m->them.nonce, serial}.encode(),
      [this, m] { m->serial != 0 ? hand_over(m, std::exchange(m->serial, 0)) : end(m); });
}

CAUSEWAY_DECL void handshake_acceptor::hear_decision(const meeting_ptr& m, const frame_header& h, frame_body body) {
  const auto theirs = decision::decode(body);
  if (h.kind != frame_kind::take || !theirs || theirs->nonce != m->us.nonce) {
    return give_up(m, fail(errc::protocol, name_of(*m), "its answer does not belong to this handshake"));
  }
  if (theirs->serial != 0) return hand_over(m, theirs->serial);
  if (m->dialled.empty() || owner_->is_connected(m->them.id, m->them.incarnation)) return end(m);
  call_again(m);  // it believes in a connection that we have not; that one stands soon, or it notices
}

CAUSEWAY_DECL void handshake_acceptor::hand_over(const meeting_ptr& m, std::uint64_t serial) {
  tcp::socket socket = m->who->release();
  m->who.reset();
  end(m);
  owner_->take(m->us, m->them, serial, m->dialled, std::move(socket));
}

CAUSEWAY_DECL void handshake_acceptor::hand_over_stream(const meeting_ptr& m) {
  tcp::socket socket = m->who->release();
  m->who.reset();
  end(m);
  owner_->take_stream(*m->stream, std::move(socket));
}

CAUSEWAY_DECL bool handshake_acceptor::goes_on(const meeting& m) const { return !m.over && (!over_ || m.stream); }

CAUSEWAY_DECL void handshake_acceptor::expect(const meeting_ptr& m, step next) {
  m->who->next(options_.first_frames, options_.frame, [this, m, next](const frame_header& h, frame_body body) {
    const std::lock_guard lock{*mutex_};
    if (goes_on(*m)) (this->*next)(m, h, body);
  });
}

CAUSEWAY_DECL void handshake_acceptor::say(const meeting_ptr& m, frame_kind kind, frame_body body,
                                           const std::function<void()>& then) {
  std::function<void()> locked;
  if (then) {
    locked = [this, m, then] {
      const std::lock_guard lock{*mutex_};
      if (goes_on(*m)) then();
    };
  }
  m->who->say(kind, options_.run_id, 0, body, std::move(locked));
}

CAUSEWAY_DECL void handshake_acceptor::watch(const meeting_ptr& m) {
  m->who->on_end([this, m](const error& why) {
    const std::lock_guard lock{*mutex_};
    lose(m, why);
  });
}

CAUSEWAY_DECL void handshake_acceptor::refuse(const meeting_ptr& m, const error& why) {
  // A stream that comes before its link comes again: nothing to worry about.
  note(why.code == errc::not_found, "refused " + m->who->remote() + ": " + why.message);
  std::exchange(m->who, {})->refuse(why);
  end(m);
}

CAUSEWAY_DECL void handshake_acceptor::lose(const meeting_ptr& m, const error& why) {
  if (m->over || over_) return;
  const bool again = m->stream && m->target.port != 0 && owner_->wants_stream(*m->stream);
  again ? call_again(m) : give_up(m, why);
}

CAUSEWAY_DECL void handshake_acceptor::call_again(const meeting_ptr& m) {
  release_choice(m);
  if (m->who) std::exchange(m->who, {})->stop();
  call(m, true);
}

CAUSEWAY_DECL void handshake_acceptor::give_up(const meeting_ptr& m, const error& why) {
  if (m->over || over_) return;
  end(m);
  if (m->stream && m->target.port != 0) return owner_->lose_stream(*m->stream, why);
  if (!m->dialled.empty()) return owner_->unreachable(m->dialled, why);
  // A peer that has said who it is may hang up because another connection came first.
  note(m->them.id != 0, "dropped a connection during its handshake: " + why.text());
}

CAUSEWAY_DECL void handshake_acceptor::note(bool harmless, const std::string& line) {
  harmless ? options_.log(severity::debug, line) : turned_away_.say(clock_.now(), line);
}

CAUSEWAY_DECL void handshake_acceptor::end(const meeting_ptr& m) {
  if (m->over) return;
  m->over = true;
  release_choice(m);
  meetings_.erase(m);
  strangers_.leave(m);
  m->deadline.cancel();
  if (m->dialling) m->dialling->stop();
  if (m->who) m->who->stop();
  dial_next();
}

CAUSEWAY_DECL void handshake_acceptor::release_choice(const meeting_ptr& m) {
  if (m->serial != 0) owner_->give_back(m->them, std::exchange(m->serial, 0));
}

CAUSEWAY_DECL std::string handshake_acceptor::name_of(const meeting& m) {
  if (!m.dialled.empty()) return m.dialled;
  return m.target.port != 0 ? m.target.text() : m.source;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_HANDSHAKE_ACCEPTOR_IPP
