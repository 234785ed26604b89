// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_CONVERSATION_HPP
#define CAUSEWAY_NET_ASIO_CONVERSATION_HPP

// A socket on which control frames are exchanged before it becomes a stream of a link: reads exactly one frame when asked,
// never a byte more, with a limit and a deadline. And the one that dials until somebody answers.

#include <causeway/net/asio_library.hpp>
#include <causeway/net/codec.hpp>
#include <causeway/net/descriptors.hpp>
#include <causeway/net/frame.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// What somebody is told who asks for another run than the one that is served. It does not say which that is.
CAUSEWAY_DECL error wrong_run();

/// Held by shared_ptr; its handlers keep it alive. After `stop` or `release` it calls nobody back.
class conversation : public std::enable_shared_from_this<conversation> {
 public:
  using frame_handler = std::function<void(const frame_header&, std::span<const std::byte>)>;
  using end_handler = std::function<void(const error&)>;

  CAUSEWAY_DECL explicit conversation(tcp::socket socket);

  CAUSEWAY_DECL void on_end(end_handler handler);

  /// Reads one frame of at most `limit` bytes behind its header, within `patience`; then calls `handler`.
  CAUSEWAY_DECL void next(std::size_t limit, std::chrono::nanoseconds patience, frame_handler handler);

  /// Sends a frame; `then` is called once the kernel has all of it.
  CAUSEWAY_DECL void say(frame_kind kind, std::uint64_t run_id, peer_index sender, std::span<const std::byte> body,
                         std::function<void()> then = {});

  /// Says why not, and ends when that is out. Names no run: whoever knows a run's id may join it, so a stranger must not
  /// learn it from its refusal.
  CAUSEWAY_DECL void refuse(const error& why);

  CAUSEWAY_DECL void stop();

  /// Hands the socket over. Precondition: no read is under way, everything said is out.
  CAUSEWAY_DECL tcp::socket release();

  [[nodiscard]] bool over() const noexcept { return over_; }
  [[nodiscard]] int descriptor() { return static_cast<int>(socket_.native_handle()); }
  [[nodiscard]] const tcp::socket& socket() const noexcept { return socket_; }
  CAUSEWAY_DECL [[nodiscard]] std::string remote() const;

 private:
  struct outgoing {
    std::vector<std::byte> bytes;
    std::function<void()> then;
  };

  CAUSEWAY_DECL void arm_timer(std::chrono::nanoseconds patience);

  CAUSEWAY_DECL void read_body(std::size_t limit);

  CAUSEWAY_DECL void deliver(const frame_header& h);

  CAUSEWAY_DECL void write_front();

  /// What we say is not heard any more. If we listen, what the other side said last is still to come: why it left, perhaps.
  CAUSEWAY_DECL void fall_silent(const std::error_code& failure);

  CAUSEWAY_DECL void end_with(const std::error_code& failure);

  CAUSEWAY_DECL void end(const error& why);

  tcp::socket socket_;
  timer timer_;
  header_block header_;
  std::vector<std::byte> body_;
  std::deque<outgoing> queue_;
  frame_handler framed_;
  end_handler ended_;
  std::uint64_t round_ = 0;  // tells a timer that its frame came after all
  bool last_words_ = false;  // ends once everything said is out
  bool over_ = false;
};

using conversation_ptr = std::shared_ptr<conversation>;

/// Dials an address again and again until somebody answers or it is stopped; or once, if it is told whom to tell that
/// nobody answered.
class dialer : public std::enable_shared_from_this<dialer> {
 public:
  using connect_handler = std::function<void(conversation_ptr)>;
  using failure_handler = std::function<void(const error&)>;

  CAUSEWAY_DECL dialer(asio::io_context& io, endpoint target, connect_handler connected, failure_handler failed = {});

  CAUSEWAY_DECL void dial();

  CAUSEWAY_DECL void stop();

  [[nodiscard]] const endpoint& target() const noexcept { return target_; }
  [[nodiscard]] bool busy() const noexcept { return static_cast<bool>(connected_); }
  /// Why the last attempt failed; empty before that.
  [[nodiscard]] const std::string& last_failure() const noexcept { return last_failure_; }

 private:
  static constexpr std::chrono::milliseconds first_pause{20};
  static constexpr std::chrono::milliseconds longest_pause{500};

  CAUSEWAY_DECL void connect(std::vector<tcp::endpoint> candidates);

  CAUSEWAY_DECL void retry(const std::error_code& failure);

 public:
  /// Pauses, longer each time, and dials.
  CAUSEWAY_DECL void dial_later();

 private:
  tcp::resolver resolver_;
  tcp::socket socket_;
  timer timer_;
  endpoint target_;
  connect_handler connected_;
  failure_handler failed_;
  std::vector<tcp::endpoint> candidates_;
  std::chrono::milliseconds pause_ = first_pause;
  std::string last_failure_;
};

// Answers whoever asks at the address of a run what run this is (net/asio_ask.hpp): for a host of fixed peers and for a
// fabric.

/// Answers strangers. Not thread-safe: all of it happens in one event loop.
class informant {
 public:
  CAUSEWAY_DECL explicit informant(piece_source pieces = {});
  ~informant() { stop(); }
  informant(const informant&) = delete;
  informant& operator=(const informant&) = delete;

  /// Takes a connection over whose first frame asked with `body`.
  CAUSEWAY_DECL void serve(const conversation_ptr& who, std::uint64_t run_id, std::span<const std::byte> body);

  CAUSEWAY_DECL void stop();

 private:
  static constexpr std::size_t most_talks = 32;
  static constexpr std::size_t question_bytes = 64;
  static constexpr std::chrono::seconds patience{30};

  CAUSEWAY_DECL void answer(const conversation_ptr& who, std::uint64_t run_id, std::span<const std::byte> body);

  CAUSEWAY_DECL void hear(const conversation_ptr& who, std::uint64_t run_id);

  piece_source pieces_;
  std::set<conversation_ptr> talks_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/asio_conversation.ipp>
#endif

#endif  // CAUSEWAY_NET_ASIO_CONVERSATION_HPP
