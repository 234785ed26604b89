// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_HANDSHAKE_ACCEPTOR_HPP
#define CAUSEWAY_NET_HANDSHAKE_ACCEPTOR_HPP

// Accepts strangers for a fabric, dials addresses, and leads the handshake on a new connection up to the point where it
// becomes a link or a stream of one. Everything happens inside the event loop, one handler at a time; handlers
// take the fabric's lock. A stranger costs at most one connection and 4 KiB, and is shown out after ten seconds, or earlier
// where others want in.

#include <causeway/core/clock.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/net/asio_accept.hpp>
#include <causeway/net/asio_conversation.hpp>
#include <causeway/net/asio_library.hpp>
#include <causeway/net/asio_meeting.hpp>
#include <causeway/net/descriptors.hpp>
#include <causeway/net/endpoint.hpp>
#include <causeway/net/fabric_options.hpp>
#include <causeway/net/frame.hpp>
#include <causeway/net/half_open.hpp>

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

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// Who decides what becomes of connections. Called with the lock held; calls nothing of the acceptor back.
class handshake_owner {
 public:
  virtual ~handshake_owner() = default;
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

class handshake_acceptor {
 public:
  CAUSEWAY_DECL handshake_acceptor(asio::io_context& io, std::mutex& mutex, std::unique_ptr<tcp::acceptor> acceptor,
                                   const handshake_options& options, handshake_owner& owner);
  handshake_acceptor(const handshake_acceptor&) = delete;
  handshake_acceptor& operator=(const handshake_acceptor&) = delete;

  // All members need the lock; all but `lock_up` are called inside the event loop.

  /// Starts to accept.
  void open() { accepting_->start(); }

  CAUSEWAY_DECL void dial(const std::string& address);

  /// Once in a while: tells how many strangers were turned away since.
  void tick() { turned_away_.flush(clock_.now()); }

  /// Makes one more stream of a link that stands. `which.key` names the other side; `ours` is what we call ourselves there.
  CAUSEWAY_DECL void dial_stream(const tcp::endpoint& at, const stream_request& which, const link_key& ours);

  /// Nobody is let in any more, but for streams of links that are up. The rest is `lock_up`'s.
  void shut() noexcept { over_ = true; }

  /// Ends everything. Only when nobody runs the event loop any more.
  CAUSEWAY_DECL void lock_up();

 private:
  /// A connection on its way to become a link or a stream.
  struct meeting {
    CAUSEWAY_DECL explicit meeting(asio::io_context& io);
    std::string dialled;  ///< what `dial` was given; empty for a stranger and for a stream
    endpoint target;      ///< whom we dial; port 0 for a stranger
    std::optional<stream_request> stream;
    link_key our_key;
    std::shared_ptr<dialer> dialling;
    conversation_ptr who;
    std::string source;
    timer deadline;
    introduction us;
    introduction them;
    std::uint64_t serial = 0;  ///< chosen by us and not taken yet
    bool over = false;
  };
  using meeting_ptr = std::shared_ptr<meeting>;
  using frame_body = std::span<const std::byte>;

  CAUSEWAY_DECL meeting_ptr start_meeting();

  // ---- strangers

  CAUSEWAY_DECL std::shared_ptr<accepting> make_accepting(std::unique_ptr<tcp::acceptor> acceptor);

  CAUSEWAY_DECL void meet_stranger(tcp::socket socket);

  /// One stranger goes. False when there is none.
  CAUSEWAY_DECL bool make_room();

  CAUSEWAY_DECL void send_away(const meeting_ptr& m);

  CAUSEWAY_DECL void hear_first(const meeting_ptr& m, const frame_header& h, frame_body body);

  /// It is no meeting any more.
  CAUSEWAY_DECL void inform(const meeting_ptr& m, frame_body body);

  CAUSEWAY_DECL void hear_stream_request(const meeting_ptr& m, frame_body body);

  // ---- dialling

  CAUSEWAY_DECL [[nodiscard]] bool is_dialling(const std::string& address) const;

  /// Starts what was asked for, as far as there is room.
  CAUSEWAY_DECL void dial_next();

  CAUSEWAY_DECL void call(const meeting_ptr& m, bool pause = false);

  CAUSEWAY_DECL void greet(const meeting_ptr& m, const conversation_ptr& who);

  CAUSEWAY_DECL void hear_meet(const meeting_ptr& m, const frame_header& h, frame_body body);

  CAUSEWAY_DECL void hear_stream_ok(const meeting_ptr& m, const frame_header& h, frame_body body);

  // ---- coming to an agreement

  /// Reads who they are. Why we do not want them, if we do not.
  CAUSEWAY_DECL std::optional<error> understand(const meeting_ptr& m, frame_body body);

  CAUSEWAY_DECL void say_meet(const meeting_ptr& m);

  CAUSEWAY_DECL void agree(const meeting_ptr& m);

  CAUSEWAY_DECL void hear_wish(const meeting_ptr& m, const frame_header& h, frame_body body);

  CAUSEWAY_DECL void hear_decision(const meeting_ptr& m, const frame_header& h, frame_body body);

  CAUSEWAY_DECL void hand_over(const meeting_ptr& m, std::uint64_t serial);

  CAUSEWAY_DECL void hand_over_stream(const meeting_ptr& m);

  // ---- one step of a conversation

  using step = void (handshake_acceptor::*)(const meeting_ptr&, const frame_header&, frame_body);

  // Once nobody is let in any more, streams that the other side may have already still come to their link, which says
  // goodbye on them: the other side waits for that on every stream.
  CAUSEWAY_DECL [[nodiscard]] bool goes_on(const meeting& m) const;

  CAUSEWAY_DECL void expect(const meeting_ptr& m, step next);

  CAUSEWAY_DECL void say(const meeting_ptr& m, frame_kind kind, frame_body body, const std::function<void()>& then = {});

  CAUSEWAY_DECL void watch(const meeting_ptr& m);

  // ---- endings

  CAUSEWAY_DECL void refuse(const meeting_ptr& m, const error& why);

  /// The connection broke. A stream may be dialled again.
  CAUSEWAY_DECL void lose(const meeting_ptr& m, const error& why);

  CAUSEWAY_DECL void call_again(const meeting_ptr& m);

  CAUSEWAY_DECL void give_up(const meeting_ptr& m, const error& why);

  CAUSEWAY_DECL void note(bool harmless, const std::string& line);

  CAUSEWAY_DECL void end(const meeting_ptr& m);

  CAUSEWAY_DECL void release_choice(const meeting_ptr& m);

  CAUSEWAY_DECL static std::string name_of(const meeting& m);

  asio::io_context* io_;
  std::mutex* mutex_;
  std::shared_ptr<accepting> accepting_;
  handshake_options options_;
  handshake_owner* owner_;
  steady_clock clock_;
  informant informant_;
  std::uint64_t talks_ = 0;
  std::set<meeting_ptr> meetings_;
  half_open<meeting_ptr> strangers_;  // those of the meetings that we did not dial
  std::deque<std::string> waiting_;   // addresses to dial when there is room
  stranger_log turned_away_;
  bool over_ = false;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/handshake_acceptor.ipp>
#endif

#endif  // CAUSEWAY_NET_HANDSHAKE_ACCEPTOR_HPP
