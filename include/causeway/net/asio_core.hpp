// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_CORE_HPP
#define CAUSEWAY_NET_ASIO_CORE_HPP

// The engine of a fabric: who is known, whose connection stands, and what its owner is told. What happens is written down
// where it is found and told later, in a turn of the event loop of its own; so nobody is called back in the middle of
// something, and a handler may call whatever it likes.

#include <causeway/core/clock.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/asio_door.hpp>
#include <causeway/net/asio_engine.hpp>
#include <causeway/net/asio_library.hpp>
#include <causeway/net/asio_link.hpp>
#include <causeway/net/asio_listener.hpp>
#include <causeway/net/asio_meeting.hpp>
#include <causeway/net/asio_roster.hpp>
#include <causeway/net/descriptors.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/net/side_thread.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::net {

struct fabric_options {
  std::uint64_t run_id = 0;          ///< which run; never 0
  peer_id id = 0;                    ///< who we are in it; never 0
  std::string announce{};            ///< host, or host:port, at which others reach us; empty: where we listen or seem to be
  std::size_t streams_per_link = 0;  ///< connections for data; 0: one on loopback or where the kernel has BBR, else 16
  std::size_t most_peers = 4096;     ///< links; a new peer may get the one of a peer that is gone
  transport_options transport{};     ///< `silence` is the least patience with a silent peer
  detail::door_options door{};       ///< limits on strangers; run and log are taken from here
};

namespace detail {

class fabric_core final : public engine, private link_owner, private door_owner {
 public:
  fabric_core(listener at, fabric_options options)
      : engine{std::move(at.io), options.run_id, static_cast<std::uint32_t>(options.id), options.transport},
        options_{std::move(options)},
        incarnation_{make_incarnation()},
        peers_{options_.id, incarnation_, options_.most_peers},
        door_{loop_.io(), shared_.mutex, std::move(at.acceptor), door_settings(options_), *this},
        wake_timer_{loop_.io()} {
    shared_.owner = this;
    set_address(at.address());
    const std::lock_guard lock{shared_.mutex};
    run();
  }
  ~fabric_core() { close(); }

  [[nodiscard]] const fabric_options& options() const noexcept { return options_; }
  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  [[nodiscard]] time_point now() const { return shared_.clock.now(); }

  void attach(fabric_events* events) {
    std::unique_lock lock{shared_.mutex};
    events_ = events;
    if (events == nullptr) {
      queue_.clear();
      lock.unlock();
      return aside_.wait_idle();
    }
    if (!std::exchange(opened_, true)) in_loop([this] { door_.open(); });
  }

  // ---- with the lock held: from events, and inside `locked`

  void dial(const std::string& to) {
    CAUSEWAY_EXPECT(is_inside());
    in_loop([this, to] {
      if (!stands(to)) door_.dial(to);
    });
  }

  void close(peer_index peer, const std::string& why) {
    CAUSEWAY_EXPECT(is_inside());
    if (is_alive(peer)) links_[peer]->dismiss(fail(errc::peer_lost, links_[peer]->name(), why));
  }

  [[nodiscard]] bool is_up(peer_index peer) const {
    CAUSEWAY_EXPECT(is_inside());
    return is_alive(peer) && peers_[peer].told;
  }

  void post(peer_index peer, std::vector<std::byte> message, bool bulk) {
    CAUSEWAY_EXPECT(message.size() <= max_post_bytes);
    if (is_up(peer)) links_[peer]->post(std::move(message), bulk);
  }

  void wake_at(time_point when) {
    CAUSEWAY_EXPECT(is_inside());
    ++wake_round_;
    wake_timer_.cancel();
    wake_time_ = when;
    if (when != no_deadline) arm_wake();
  }

  void cancel_before(std::uint32_t epoch) {
    CAUSEWAY_EXPECT(is_inside());
    end_epochs_before(epoch);
  }

  void aside(std::function<void()> work, std::function<void()> then) {
    CAUSEWAY_EXPECT(is_inside());
    aside_.push([this, work = std::move(work), then = std::move(then)] {
      work();
      const std::lock_guard lock{shared_.mutex};
      if (!closed_) tell({{}, [then](fabric_events&) { then(); }});
    });
  }

  // ---- without it

  void locked(const std::function<void()>& what) {
    const std::lock_guard lock{shared_.mutex};
    const inside_mark mark{*this};
    what();
    loop_.wake();
  }

  /// Also with the lock held: from the question that `block` asks.
  [[nodiscard]] bool done(operation handle) const {
    return is_inside() ? shared_.operations.done(handle) : engine::done(handle);
  }

  result<bool> block(const std::function<bool()>& done, time_point deadline) {
    std::unique_lock lock{shared_.mutex};
    bool is_done = false;
    loop_.drive(lock, deadline, [&] {
      const inside_mark mark{*this};
      is_done = done();
      return is_done || interrupted_ || closed_;
    });
    if (!is_done && (interrupted_ || closed_)) return fail(errc::cancelled, "fabric", "stopped on request");
    return is_done;
  }

  void close() {
    attach(nullptr);
    std::unique_lock lock{shared_.mutex};
    if (closed_) return;
    queue_.clear();
    door_.shut();
    wake_timer_.cancel();
    shut_down(lock);
    lock.lock();
    door_.lock_up();
  }

 private:
  struct event {
    std::optional<peer_index> about;  ///< whose link is given up when there is no memory to handle it
    std::function<void(fabric_events&)> tell;
  };

  /// The thread that holds the lock for its owner's sake: where calls marked "from events" may come from.
  class inside_mark {
   public:
    explicit inside_mark(fabric_core& core) : core_{&core} { core.inside_ = std::this_thread::get_id(); }
    ~inside_mark() { core_->inside_ = std::thread::id{}; }
    inside_mark(const inside_mark&) = delete;
    inside_mark& operator=(const inside_mark&) = delete;

   private:
    fabric_core* core_;
  };
  [[nodiscard]] bool is_inside() const { return inside_ == std::this_thread::get_id(); }

  void in_loop(std::function<void()> what) {
    asio::post(loop_.io(), [this, call = std::move(what)] {
      const std::lock_guard lock{shared_.mutex};
      if (!closed_) call();
    });
  }

  /// Differs from that of every other program that ever had our id.
  [[nodiscard]] std::uint64_t make_incarnation() const {
    const auto now = shared_.clock.now().since_start.count();
    const std::uint64_t here = reinterpret_cast<std::uintptr_t>(this);
    return hasher{options_.id}.add_value(now).add_value(here).finish() | 1U;
  }

  static door_options door_settings(const fabric_options& options) {
    door_options settings = options.door;
    settings.run_id = options.run_id;
    settings.log = options.transport.log;
    return settings;
  }

  void set_address(const endpoint& bound) {
    const auto announced = parse_endpoint(options_.announce);
    if (announced && announced->port != 0) {
      announced_ = *announced;
    } else {
      const bool anywhere = bound.host == "0.0.0.0" || bound.host == "::";
      announced_ = {!options_.announce.empty() ? options_.announce : anywhere ? std::string{} : bound.host, bound.port};
    }
    std::error_code failure;
    const std::string host = announced_.host.empty() ? asio::ip::host_name(failure) : announced_.host;
    address_ = endpoint{host, announced_.port}.text();
  }

  // ---- telling

  void tell(event what) {
    if (events_ == nullptr) return;
    queue_.push_back(std::move(what));
    if (std::exchange(telling_, true)) return;
    in_loop([this] { tell_all(); });
  }

  void tell_all() {
    const inside_mark mark{*this};
    while (!queue_.empty() && events_ != nullptr) {
      const event what = std::move(queue_.front());
      queue_.pop_front();
      try {
        what.tell(*events_);
      } catch (const std::bad_alloc&) {
        run_out_of_memory(what.about);
      }
    }
    telling_ = false;
  }

  /// A handler could not do its work. Whoever caused it is given up; a timer comes again a little later.
  void run_out_of_memory(std::optional<peer_index> about) {
    if (!about) {
      wake_at(shared_.clock.now() + shared_.options.heartbeat);
    } else if (is_alive(*about)) {
      links_[*about]->lose(out_of_memory(links_[*about]->name()));
    }
  }

  void hear_lost(peer_index peer, const error& why) override {
    peers_[peer].told = false;  // what is posted before the owner hears of it is lost, as it would be a moment earlier
    tell({peer, [this, peer, why](fabric_events& to) {
            peers_[peer].told = false;
            to.on_down(peer, why);
          }});
  }

  void hear_control(peer_index peer, control_message message) override {
    tell({peer, [peer, shared = std::make_shared<control_message>(std::move(message))](fabric_events& to) {
            to.on_control(peer, shared->view());
          }});
  }

  void unreachable(const std::string& where, const error& why) override {
    tell({{}, [where, why](fabric_events& to) { to.on_unreachable(where, why); }});
  }

  void arm_wake() {
    wake_timer_.expires_at(to_standard(wake_time_, shared_.clock.now()));
    wake_timer_.async_wait([this, round = wake_round_](std::error_code failure) {
      const std::lock_guard lock{shared_.mutex};
      if (failure || closed_ || round != wake_round_) return;
      if (shared_.clock.now() < wake_time_) return arm_wake();
      tell({{}, [this, round](fabric_events& to) {
              if (round == wake_round_) to.on_wake();
            }});
    });
  }

  // ---- who is who

  [[nodiscard]] bool is_alive(peer_index peer) const { return peer < links_.size() && !links_[peer]->lost(); }

  [[nodiscard]] bool is_alive(std::optional<peer_index> peer) const { return peer && is_alive(*peer); }

  [[nodiscard]] bool stands(const std::string& where) const {
    for (peer_index peer = 0; peer < peers_.size(); ++peer) {
      const roster::place& p = peers_[peer];
      if (is_alive(peer) && (p.address == where || p.aliases.contains(where))) return true;
    }
    return false;
  }

  introduction introduce(const tcp::socket& to, std::size_t spare) override {
    std::size_t streams = options_.streams_per_link;
    if (streams == 0) streams = is_loopback(to) || kernel_has_bbr() ? 1 : 16;
    streams = affordable_streams(std::min<std::size_t>(streams, most_data_streams), spare);
    introduction us;
    us.id = options_.id;
    us.incarnation = incarnation_;
    us.streams = static_cast<std::uint32_t>(streams);
    us.chunk = static_cast<std::uint32_t>(chunk_for(options_.transport.chunk_bytes, streams));
    us.host = announced_.host;
    us.port = announced_.port;
    return us;
  }

  bool kernel_has_bbr() {
    if (!has_bbr_) {
      tcp::socket probe{loop_.io()};
      std::error_code failure;
      probe.open(tcp::v4(), failure);
      has_bbr_ = options_.transport.bbr && !failure && ask_for_bbr(probe);
    }
    return *has_bbr_;
  }

  std::optional<error> objection(const introduction& them) override {
    return peers_.objection(them, [this](peer_index peer) { return is_alive(peer); });
  }

  bool is_connected(peer_id id, std::uint64_t incarnation) override {
    const auto peer = peers_.find(id);
    return is_alive(peer) && peers_[*peer].incarnation == incarnation;
  }

  wish wish_for(const introduction& them) override { return peers_.wish_for(them, is_alive(peers_.find(them.id))); }

  std::uint64_t choose(const introduction& them, const wish& theirs) override {
    return peers_.choose(them, theirs, is_alive(peers_.find(them.id)));
  }

  void give_back(const introduction& them, std::uint64_t serial) override { peers_.give_back(them.id, serial); }

  // ---- links

  void take(const introduction& us, const introduction& them, std::uint64_t serial, const std::string& dialled,
            tcp::socket socket) override {
    if (!peers_.claim(them.id, serial)) return;
    const auto place = peers_.seat(them.id, [this](peer_index p) { return is_alive(p); });
    if (!place) return;  // others were quicker; it dials again
    const peer_index peer = *place;
    if (is_alive(peer)) {
      const bool restarted = peers_[peer].incarnation != them.incarnation;
      links_[peer]->lose(
          fail(errc::peer_lost, name_of(them.id), restarted ? "its program was started anew" : "it made a new connection"));
    }
    peers_.settle(peer, us, them, serial, dialled);
    std::error_code failure;
    const tcp::endpoint remote = socket.remote_endpoint(failure);
    open_link(peer, us, them, std::move(socket));
    if (!dialled.empty()) dial_streams(peer, remote);
  }

  void open_link(peer_index peer, const introduction& us, const introduction& them, tcp::socket socket) {
    link_identity who{.peer = peer,
                      .sender = static_cast<std::uint32_t>(them.id),
                      .name = name_of(them.id),
                      .chunk = us.chunk,
                      .their_chunk = them.chunk,
                      .control_apart = true};
    std::vector<tcp::socket> sockets;
    sockets.push_back(std::move(socket));
    auto made = std::make_unique<link>(shared_, std::move(who), std::move(sockets));
    if (first_epoch_ != 0) made->refuse_before(first_epoch_);
    if (peer == links_.size()) {
      links_.push_back(std::move(made));
    } else {
      clear_graves();
      graves_.push_back(std::exchange(links_[peer], std::move(made)));
    }
    tell({peer, [this, peer, id = them.id, where = peers_[peer].address](fabric_events& to) {
            peers_[peer].told = true;
            to.on_up(peer, id, where);
          }});
    links_[peer]->start_reading();
  }

  /// Whoever dialled makes the streams for data. Sends wait until the first stands.
  void dial_streams(peer_index peer, const tcp::endpoint& remote) {
    const roster::place& p = peers_[peer];
    for (std::uint32_t index = 0; index < p.streams; ++index) {
      door_.dial_stream(remote, {{p.id, p.incarnation, p.serial}, index}, {options_.id, incarnation_, p.serial});
    }
  }

  bool wants_stream(const stream_request& which) override { return is_alive(peers_.lacking(which)); }

  void take_stream(const stream_request& which, tcp::socket socket) override {
    const auto peer = peers_.lacking(which);
    if (!is_alive(peer)) return;
    peers_[*peer].streams_seen |= std::uint64_t{1} << which.index;
    links_[*peer]->add_stream(std::move(socket));
  }

  void lose_stream(const stream_request& which, const error& why) override {
    const auto peer = peers_.lacking(which);
    if (!is_alive(peer) || peers_[*peer].streams_seen != 0) return;  // if others stand, they carry its share
    links_[*peer]->lose(fail(errc::peer_lost, name_of(which.key.id), "no connection for data: " + why.text()));
  }

  void tick(duration since) override {
    for (const auto& l : graves_) l->tick(since);
    clear_graves();
    door_.tick();
  }

  void clear_graves() {
    std::erase_if(graves_, [](const auto& l) { return l->at_rest(); });
  }

  fabric_options options_;
  endpoint announced_;
  std::string address_;
  std::uint64_t incarnation_;
  roster peers_;
  std::optional<bool> has_bbr_;

  std::vector<std::unique_ptr<link>> graves_;  // replaced links whose handlers may not have run yet
  door door_;

  fabric_events* events_ = nullptr;
  std::deque<event> queue_;
  bool telling_ = false;
  bool opened_ = false;
  std::atomic<std::thread::id> inside_;
  asio::steady_timer wake_timer_;
  time_point wake_time_ = no_deadline;
  std::uint64_t wake_round_ = 0;
  side_thread aside_;  // last: what it runs refers to the rest
};

}  // namespace detail

}  // namespace causeway::inline CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_ASIO_CORE_HPP
