// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_CORE_HPP
#define CAUSEWAY_NET_ASIO_CORE_HPP

// The engine of a fabric: who is known, whose connection stands, and what its owner is told. What happens is written down
// where it is found and told later, in a turn of the event loop of its own; so nobody is called back in the middle of
// something, and a handler may call whatever it likes.

#include <causeway/core/clock.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/asio_engine.hpp>
#include <causeway/net/asio_library.hpp>
#include <causeway/net/asio_link.hpp>
#include <causeway/net/asio_listener.hpp>
#include <causeway/net/asio_meeting.hpp>
#include <causeway/net/descriptors.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/net/fabric_options.hpp>
#include <causeway/net/handshake_acceptor.hpp>
#include <causeway/net/side_thread.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

template <class Whole>
class basic_fabric_core;
using fabric_core = basic_fabric_core<void>;

template <class Whole>
class basic_fabric_core final : public engine, private link_owner, private handshake_owner {
 public:
  basic_fabric_core(listener at, fabric_options options);
  ~basic_fabric_core() { close(); }

  [[nodiscard]] const fabric_options& options() const noexcept { return options_; }
  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  [[nodiscard]] time_point now() const { return shared_.clock.now(); }

  void attach(fabric_events* events);

  // ---- with the lock held: from events, and inside `locked`

  void dial(const std::string& to);

  void close(peer_index peer, const std::string& why);

  [[nodiscard]] bool is_up(peer_index peer) const;

  void post(peer_index peer, std::vector<std::byte> message, bool bulk);

  void wake_at(time_point when);

  void cancel_before(std::uint32_t epoch);

  void aside(std::function<void()> work, std::function<void()> then);

  // ---- without it

  void locked(const std::function<void()>& what);

  /// Also with the lock held: from the question that `block` asks.
  [[nodiscard]] bool done(operation handle) const;

  result<bool> block(const std::function<bool()>& done, time_point deadline);

  void close();

 private:
  struct event {
    std::optional<peer_index> about;  ///< whose link is given up when there is no memory to handle it
    std::function<void(fabric_events&)> tell;
  };

  /// The thread that holds the lock for its owner's sake: where calls marked "from events" may come from.
  class inside_mark {
   public:
    explicit inside_mark(basic_fabric_core& core) : core_{&core} { core.inside_ = std::this_thread::get_id(); }
    ~inside_mark() { core_->inside_ = std::thread::id{}; }
    inside_mark(const inside_mark&) = delete;
    inside_mark& operator=(const inside_mark&) = delete;

   private:
    fabric_core* core_;
  };
  [[nodiscard]] bool is_inside() const { return inside_ == std::this_thread::get_id(); }

  void in_loop(std::function<void()> what);

  /// Differs from that of every other program that ever had our id.
  [[nodiscard]] std::uint64_t make_incarnation() const;

  static handshake_options handshake_settings(const fabric_options& options);

  void set_address(const endpoint& bound);

  // ---- telling

  void tell(event what);

  void tell_all();

  /// A handler could not do its work. Whoever caused it is given up; a timer comes again a little later.
  void run_out_of_memory(std::optional<peer_index> about);

  void hear_lost(peer_index peer, const error& why) override;

  void hear_control(peer_index peer, control_message message) override;

  void unreachable(const std::string& where, const error& why) override;

  void arm_wake();

  // ---- who is who

  [[nodiscard]] bool is_alive(peer_index peer) const { return peer < links_.size() && !links_[peer]->lost(); }

  [[nodiscard]] bool is_alive(std::optional<peer_index> peer) const { return peer && is_alive(*peer); }

  [[nodiscard]] bool stands(const std::string& where) const;

  introduction introduce(const tcp::socket& to, std::size_t spare) override;

  bool kernel_has_bbr();

  std::optional<error> objection(const introduction& them) override;

  bool is_connected(peer_id id, std::uint64_t incarnation) override;

  wish wish_for(const introduction& them) override { return peers_.wish_for(them, is_alive(peers_.find(them.id))); }

  std::uint64_t choose(const introduction& them, const wish& theirs) override;

  void give_back(const introduction& them, std::uint64_t serial) override { peers_.give_back(them.id, serial); }

  // ---- links

  void take(const introduction& us, const introduction& them, std::uint64_t serial, const std::string& dialled,
            tcp::socket socket) override;

  void open_link(peer_index peer, const introduction& us, const introduction& them, tcp::socket socket);

  /// Whoever dialled makes the streams for data. Sends wait until the first stands.
  void dial_streams(peer_index peer, const tcp::endpoint& remote);

  bool wants_stream(const stream_request& which) override { return is_alive(peers_.lacking(which)); }

  void take_stream(const stream_request& which, tcp::socket socket) override;

  void lose_stream(const stream_request& which, const error& why) override;

  void tick(duration since) override;

  void clear_graves();

  fabric_options options_;
  endpoint announced_;
  std::string address_;
  std::uint64_t incarnation_;
  roster peers_;
  std::optional<bool> has_bbr_;

  std::vector<std::unique_ptr<link>> graves_;  // replaced links whose handlers may not have run yet
  handshake_acceptor handshakes_;

  fabric_events* events_ = nullptr;
  std::deque<event> queue_;
  bool telling_ = false;
  bool opened_ = false;
  std::atomic<std::thread::id> inside_;
  timer wake_timer_;
  time_point wake_time_ = no_deadline;
  std::uint64_t wake_round_ = 0;
  side_thread aside_;  // last: what it runs refers to the rest
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/asio_core.ipp>
#endif

#endif  // CAUSEWAY_NET_ASIO_CORE_HPP
