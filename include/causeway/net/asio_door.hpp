// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_DOOR_HPP
#define CAUSEWAY_NET_ASIO_DOOR_HPP

// The door of a fabric: accepts strangers, dials addresses, and leads the talk on a new connection up to the point where it
// becomes a link or a stream of one. Everything happens inside the event loop, one handler at a time; handlers take the
// fabric's lock. A stranger costs at most one connection and 4 KiB, and is shown out after ten seconds, or earlier where
// others want in.

#include <causeway/core/clock.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/asio_accept.hpp>
#include <causeway/net/asio_ask.hpp>
#include <causeway/net/asio_conversation.hpp>
#include <causeway/net/asio_library.hpp>
#include <causeway/net/asio_meeting.hpp>
#include <causeway/net/descriptors.hpp>
#include <causeway/net/endpoint.hpp>
#include <causeway/net/frame.hpp>
#include <causeway/net/half_open.hpp>
#include <causeway/net/stranger_log.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

namespace causeway::inline CAUSEWAY_ABI::net::detail {

struct door_options {
  std::uint64_t run_id = 0;
  std::size_t strangers = 128;  ///< accepted connections that are no link yet; see net/half_open.hpp
  std::size_t dials = 64;       ///< under way at once; others wait for their turn
  std::size_t first_frames = std::size_t{4} << 10U;
  std::chrono::nanoseconds frame = std::chrono::seconds{5};       ///< for one frame to come
  std::chrono::nanoseconds handshake = std::chrono::seconds{10};  ///< for all of it, the dialling included
  log_sink log{};
  piece_source pieces{};  ///< for those who ask what run this is; none: they are refused
};

/// Who decides what becomes of connections. Called with the lock held; calls nothing of the door back.
class door_owner {
 public:
  virtual ~door_owner() = default;
  /// Ourselves, as far as it does not depend on the connection. `spare`: descriptors that connections may still take.
  virtual introduction introduce(const tcp::socket& to, std::size_t spare) = 0;
  /// Why we do not talk to this peer; null if we do.
  virtual std::optional<error> objection(const introduction& them) = 0;
  virtual bool is_connected(peer_id id, std::uint64_t incarnation) = 0;
  /// What we know of earlier connections, for a peer with a smaller id.
  virtual wish wish_for(const introduction& them) = 0;
  /// For a peer with a larger id: the number of the new link, or 0. A number must be taken or given back.
  virtual std::uint64_t choose(const introduction& them, const wish& theirs) = 0;
  virtual void give_back(const introduction& them, std::uint64_t serial) = 0;
  /// The connection is the link. `us`: what we said of ourselves. `dialled`: the address that we dialled, or empty.
  virtual void take(const introduction& us, const introduction& them, std::uint64_t serial, const std::string& dialled,
                    tcp::socket socket) = 0;
  virtual bool wants_stream(const stream_request& which) = 0;
  virtual void take_stream(const stream_request& which, tcp::socket socket) = 0;
  virtual void lose_stream(const stream_request& which, const error& why) = 0;
  virtual void unreachable(const std::string& address, const error& why) = 0;
};

class door {
 public:
  door(asio::io_context& io, std::mutex& mutex, std::unique_ptr<tcp::acceptor> acceptor, const door_options& options,
       door_owner& owner)
      : io_{&io},
        mutex_{&mutex},
        accepting_{make_accepting(std::move(acceptor))},
        options_{options},
        owner_{&owner},
        informant_{options.pieces},
        strangers_{options.strangers},
        turned_away_{options.log} {}
  door(const door&) = delete;
  door& operator=(const door&) = delete;

  // All members need the lock; all but `lock_up` are called inside the event loop.

  /// Starts to accept.
  void open() { accepting_->start(); }

  void dial(const std::string& address) {
    if (over_ || is_dialling(address)) return;
    const auto target = parse_endpoint(address);
    if (!target) return owner_->unreachable(address, target.error());
    waiting_.push_back(address);
    dial_next();
  }

  /// Once in a while: tells how many strangers were turned away since.
  void tick() { turned_away_.flush(clock_.now()); }

  /// Makes one more stream of a link that stands. `which.key` names the other side; `ours` is what we call ourselves there.
  void dial_stream(const tcp::endpoint& at, const stream_request& which, const link_key& ours) {
    if (over_) return;
    const meeting_ptr m = start_meeting();
    m->target = to_endpoint(at);
    m->stream = which;
    m->our_key = ours;
    call(m);
  }

  /// Nobody is let in any more. The rest is `lock_up`'s.
  void shut() noexcept { over_ = true; }

  /// Ends everything. Only when nobody runs the event loop any more.
  void lock_up() {
    over_ = true;
    accepting_->stop();
    for (const auto& m : std::exchange(meetings_, {})) end(m);
    informant_.stop();
  }

  [[nodiscard]] std::size_t meetings() const noexcept { return meetings_.size(); }

 private:
  /// A connection on its way to become a link or a stream.
  struct meeting {
    explicit meeting(asio::io_context& io) : deadline{io} {}
    std::string dialled;  ///< what `dial` was given; empty for a stranger and for a stream
    endpoint target;      ///< whom we dial; port 0 for a stranger
    std::optional<stream_request> stream;
    link_key our_key;
    std::shared_ptr<dialer> dialling;
    conversation_ptr who;
    std::string source;
    asio::steady_timer deadline;
    introduction us;
    introduction them;
    std::uint64_t serial = 0;  ///< chosen by us and not taken yet
    bool over = false;
  };
  using meeting_ptr = std::shared_ptr<meeting>;
  using frame_body = std::span<const std::byte>;

  meeting_ptr start_meeting() {
    const auto m = std::make_shared<meeting>(*io_);
    meetings_.insert(m);
    m->deadline.expires_after(options_.handshake);
    m->deadline.async_wait([this, m](std::error_code failure) {
      const std::lock_guard lock{*mutex_};
      if (!failure) give_up(m, fail(errc::timeout, name_of(*m), "the handshake was not over in time"));
    });
    return m;
  }

  // ---- strangers

  std::shared_ptr<accepting> make_accepting(std::unique_ptr<tcp::acceptor> acceptor) {
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

  void meet_stranger(tcp::socket socket) {
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
    expect(m, &door::hear_first);
  }

  /// One stranger goes. False when there is none.
  bool make_room() {
    const auto goes = strangers_.expel();
    if (goes) send_away(*goes);
    return goes.has_value();
  }

  void send_away(const meeting_ptr& m) { refuse(m, fail(errc::too_large, "", "too many connections at once; try again")); }

  void hear_first(const meeting_ptr& m, const frame_header& h, frame_body body) {
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

  /// It is no meeting any more.
  void inform(const meeting_ptr& m, frame_body body) {
    const conversation_ptr who = std::exchange(m->who, {});
    end(m);
    informant_.serve(who, options_.run_id, body);
  }

  void hear_stream_request(const meeting_ptr& m, frame_body body) {
    const auto which = stream_request::decode(body);
    if (!which) return refuse(m, which.error());
    if (!owner_->wants_stream(*which))
      return refuse(m, fail(errc::not_found, "", "this stream belongs to no link of ours"));
    strangers_.introduce(m);
    m->stream = *which;
    say(m, frame_kind::stream_ok, {}, [this, m] { hand_over_stream(m); });
  }

  // ---- dialling

  [[nodiscard]] bool is_dialling(const std::string& address) const {
    if (std::find(waiting_.begin(), waiting_.end(), address) != waiting_.end()) return true;
    return std::any_of(meetings_.begin(), meetings_.end(), [&](const auto& m) { return m->dialled == address; });
  }

  /// Starts what was asked for, as far as there is room.
  void dial_next() {
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

  void call(const meeting_ptr& m, bool pause = false) {
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

  void greet(const meeting_ptr& m, const conversation_ptr& who) {
    m->who = who;
    if (spare_descriptors(who->descriptor()) == 0) return give_up(m, no_descriptors(name_of(*m)));
    watch(m);
    if (!m->stream) {
      say_meet(m);
      return expect(m, &door::hear_meet);
    }
    say(m, frame_kind::stream, stream_request{m->our_key, m->stream->index}.encode());
    expect(m, &door::hear_stream_ok);
  }

  void hear_meet(const meeting_ptr& m, const frame_header& h, frame_body body) {
    if (h.kind == frame_kind::refused) return give_up(m, read_refusal(m->dialled, body));
    if (h.kind != frame_kind::meet) return give_up(m, fail(errc::protocol, m->dialled, "it answered out of turn"));
    if (h.run_id != options_.run_id) return give_up(m, fail(errc::wrong_run, m->dialled, "it belongs to another run"));
    if (auto why = understand(m, body)) return give_up(m, fail(why->code, m->dialled, why->message));
    agree(m);
  }

  void hear_stream_ok(const meeting_ptr& m, const frame_header& h, frame_body body) {
    if (h.kind == frame_kind::stream_ok) return hand_over_stream(m);
    // The other side may not have taken the link yet: it learns of it on another connection.
    lose(m, h.kind == frame_kind::refused ? read_refusal(name_of(*m), body)
                                          : fail(errc::protocol, name_of(*m), "it answered out of turn"));
  }

  // ---- coming to an agreement

  /// Reads who they are. Why we do not want them, if we do not.
  std::optional<error> understand(const meeting_ptr& m, frame_body body) {
    auto them = introduction::decode(body);
    if (!them) return them.error();
    m->them = std::move(*them);
    std::error_code failure;
    if (m->them.host.empty()) m->them.host = m->who->socket().remote_endpoint(failure).address().to_string();
    return owner_->objection(m->them);
  }

  void say_meet(const meeting_ptr& m) {
    m->us = owner_->introduce(m->who->socket(), spare_descriptors(m->who->descriptor()));
    m->us.nonce = hash_bytes(std::as_bytes(std::span{&++talks_, 1}), m->us.incarnation);
    say(m, frame_kind::meet, m->us.encode());
  }

  void agree(const meeting_ptr& m) {
    if (m->us.id < m->them.id) return expect(m, &door::hear_wish);
    if (!m->dialled.empty() && owner_->is_connected(m->them.id, m->them.incarnation)) return end(m);
    wish ours = owner_->wish_for(m->them);
    ours.nonce = m->them.nonce;
    say(m, frame_kind::want, ours.encode());
    expect(m, &door::hear_decision);
  }

  void hear_wish(const meeting_ptr& m, const frame_header& h, frame_body body) {
    const auto theirs = wish::decode(body);
    if (h.kind != frame_kind::want || !theirs || theirs->nonce != m->us.nonce) {
      return give_up(m, fail(errc::protocol, name_of(*m), "its answer does not belong to this handshake"));
    }
    const std::uint64_t serial = m->serial = owner_->choose(m->them, *theirs);
    say(m, frame_kind::take, decision{m->them.nonce, serial}.encode(),
        [this, m] { m->serial != 0 ? hand_over(m, std::exchange(m->serial, 0)) : end(m); });
  }

  void hear_decision(const meeting_ptr& m, const frame_header& h, frame_body body) {
    const auto theirs = decision::decode(body);
    if (h.kind != frame_kind::take || !theirs || theirs->nonce != m->us.nonce) {
      return give_up(m, fail(errc::protocol, name_of(*m), "its answer does not belong to this handshake"));
    }
    if (theirs->serial != 0) return hand_over(m, theirs->serial);
    if (m->dialled.empty() || owner_->is_connected(m->them.id, m->them.incarnation)) return end(m);
    call_again(m);  // it believes in a connection that we have not; that one stands soon, or it notices
  }

  void hand_over(const meeting_ptr& m, std::uint64_t serial) {
    tcp::socket socket = m->who->release();
    m->who.reset();
    end(m);
    owner_->take(m->us, m->them, serial, m->dialled, std::move(socket));
  }

  void hand_over_stream(const meeting_ptr& m) {
    tcp::socket socket = m->who->release();
    m->who.reset();
    end(m);
    owner_->take_stream(*m->stream, std::move(socket));
  }

  // ---- one step of a conversation

  using step = void (door::*)(const meeting_ptr&, const frame_header&, frame_body);

  void expect(const meeting_ptr& m, step next) {
    m->who->next(options_.first_frames, options_.frame, [this, m, next](const frame_header& h, frame_body body) {
      const std::lock_guard lock{*mutex_};
      if (!m->over && !over_) (this->*next)(m, h, body);
    });
  }

  void say(const meeting_ptr& m, frame_kind kind, frame_body body, const std::function<void()>& then = {}) {
    std::function<void()> locked;
    if (then) {
      locked = [this, m, then] {
        const std::lock_guard lock{*mutex_};
        if (!m->over && !over_) then();
      };
    }
    m->who->say(kind, options_.run_id, 0, body, std::move(locked));
  }

  void watch(const meeting_ptr& m) {
    m->who->on_end([this, m](const error& why) {
      const std::lock_guard lock{*mutex_};
      lose(m, why);
    });
  }

  // ---- endings

  void refuse(const meeting_ptr& m, const error& why) {
    // A stream that comes before its link comes again: nothing to worry about.
    note(why.code == errc::not_found, "refused " + m->who->remote() + ": " + why.message);
    std::exchange(m->who, {})->refuse(why);
    end(m);
  }

  /// The connection broke. A stream may be dialled again.
  void lose(const meeting_ptr& m, const error& why) {
    if (m->over || over_) return;
    const bool again = m->stream && m->target.port != 0 && owner_->wants_stream(*m->stream);
    again ? call_again(m) : give_up(m, why);
  }

  void call_again(const meeting_ptr& m) {
    release_choice(m);
    if (m->who) std::exchange(m->who, {})->stop();
    call(m, true);
  }

  void give_up(const meeting_ptr& m, const error& why) {
    if (m->over || over_) return;
    end(m);
    if (m->stream && m->target.port != 0) return owner_->lose_stream(*m->stream, why);
    if (!m->dialled.empty()) return owner_->unreachable(m->dialled, why);
    // A peer that has said who it is may hang up because another connection came first.
    note(m->them.id != 0, "dropped a connection during its handshake: " + why.text());
  }

  void note(bool harmless, const std::string& line) {
    harmless ? options_.log(severity::debug, line) : turned_away_.say(clock_.now(), line);
  }

  void end(const meeting_ptr& m) {
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

  void release_choice(const meeting_ptr& m) {
    if (m->serial != 0) owner_->give_back(m->them, std::exchange(m->serial, 0));
  }

  static std::string name_of(const meeting& m) {
    if (!m.dialled.empty()) return m.dialled;
    return m.target.port != 0 ? m.target.text() : m.source;
  }

  asio::io_context* io_;
  std::mutex* mutex_;
  std::shared_ptr<accepting> accepting_;
  door_options options_;
  door_owner* owner_;
  steady_clock clock_;
  informant informant_;
  std::uint64_t talks_ = 0;
  std::set<meeting_ptr> meetings_;
  half_open<meeting_ptr> strangers_;  // those of the meetings that we did not dial
  std::deque<std::string> waiting_;   // addresses to dial when there is room
  stranger_log turned_away_;
  bool over_ = false;
};

}  // namespace causeway::inline CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_ASIO_DOOR_HPP
