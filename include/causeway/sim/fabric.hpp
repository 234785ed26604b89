// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_FABRIC_HPP
#define CAUSEWAY_SIM_FABRIC_HPP

// net::fabric on the simulated network. Events reach their owner between two blocking calls of the process, one at a time,
// and never while the process is stopped; so the "lock" of the contract is that nothing else runs. When the process ends,
// its fabrics let go of the world, and what is called afterwards gives errors.

#include <causeway/core/error.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/net/operations.hpp>
#include <causeway/sim/dialer.hpp>
#include <causeway/sim/mailbox.hpp>
#include <causeway/sim/network.hpp>
#include <causeway/sim/process.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::sim {

class fabric final : public net::fabric,
                     public detail::endpoint,
                     private detail::socket_owner,
                     private detail::acquaintance {
 public:
  /// At the first free port of the host from `first_port` on.
  fabric(process& owner, net::peer_id id, std::uint32_t first_port = 1)
      : process_{&owner},
        core_{owner.shared()},
        clock_{core_.net.at(owner.host()).clock},
        host_{owner.host()},
        id_{id},
        address_{take_port(first_port)},
        dialer_{core_.net, host_, id_, address_, *this, *this} {
    owner.add(this);
  }
  fabric(const fabric&) = delete;
  fabric& operator=(const fabric&) = delete;

  /// Says goodbye: what was sent before still arrives.
  ~fabric() override {
    if (process_ == nullptr) return;
    process_->remove(this);
    process_ended(false);
  }

  [[nodiscard]] net::peer_id id() const override { return id_; }
  [[nodiscard]] std::string address() const override { return address_; }
  [[nodiscard]] time_point now() const override { return clock_.now(); }

  void attach(net::fabric_events* events) override {
    if (process_ == nullptr) return;
    events_ = events;
    if (events_ == nullptr) return dialer_.close_doors();
    later([this] {
      if (events_ != nullptr) dialer_.open_doors();
    });
  }

  void dial(const std::string& address) override {
    if (process_ == nullptr) return;
    if (address == address_) return cannot_dial(address, "this is our own address");
    const detail::network_address to = detail::parse_address(core_.net, address);
    if (to.host == no_host) return cannot_dial(address, "no such host; an address is <host>:<number>");
    const auto known = by_address_.find(address);
    const bool stands = known != by_address_.end() && links_[known->second].up && links_[known->second].address == address;
    if (!stands) dialer_.dial(address, to);
  }

  void close(net::peer_index link, const std::string& why) override {
    if (!is_up(link)) return;
    links_[link].closing = true;
    later([this, link, end = links_[link].end, why] {
      if (links_[link].up && links_[link].end == end) take_down(link, why);
    });
  }

  [[nodiscard]] bool is_up(net::peer_index link) const override {
    return link < links_.size() && links_[link].up && !links_[link].closing;
  }

  void post(net::peer_index link, std::vector<std::byte> message, bool bulk = false) override {
    CAUSEWAY_EXPECT(message.size() <= net::max_post_bytes);
    if (!is_up(link)) return;
    if (core_.options.repeat_after_reconnect > 0) remember(links_[link], message);
    const time_point held = core_.net.at(host_).disk_until;
    if (held <= core_.events.now()) return post_now(links_[link], std::move(message), bulk);
    // A handler that waits for the disk: what it says next is said when the disk is done.
    core_.events.at(held, {event_kind::notify, host_, message.size()},
                    [this, here = std::weak_ptr<char>{here_}, link, bulk, m = std::move(message)] {
                      if (!here.expired() && links_[link].up) post_now(links_[link], m, bulk);
                    });
  }

  void wake_at(time_point when) override {
    if (process_ == nullptr) return;
    core_.events.cancel(std::exchange(wake_, 0));
    if (when == no_deadline) return;
    wake_when_ = when;
    wake_ = core_.events.at(clock_.world(when), {event_kind::timer, host_, 0}, [this] {
      wake_ = 0;
      core_.net.wires().dispatch(host_, [this] {
        if (events_ != nullptr) events_->on_wake();
        after_event();
      });
    });
  }

  void cancel_before(std::uint32_t epoch) override {
    mail_.cancel_before(epoch, [this](detail::slot_index slot) { stop_send(slot); });
    look_at_room();
    look_at_waiting();
  }

  /// All of it happens now; what the disk takes passes before `then`.
  void aside(std::function<void()> work, std::function<void()> then) override {
    if (process_ == nullptr) return;
    detail::machine& m = core_.net.at(host_);
    duration took{0};
    duration* const outer = std::exchange(m.aside, &took);
    work();
    m.aside = outer;
    aside_until_ = std::max(aside_until_, core_.events.now()) + took;
    core_.events.at(aside_until_, {event_kind::notify, host_, id_},
                    [this, here = std::weak_ptr<char>{here_}, f = std::move(then)] {
                      if (here.expired()) return;
                      core_.net.wires().dispatch(host_, [this, f] {
                        if (events_ != nullptr) f();
                        after_event();
                      });
                    });
  }

  net::operation send(net::peer_index link, const net::message_id& id, std::span<const std::byte> bytes) override {
    const detail::slot_index slot = mail_.start_send(link, id, bytes.size(), now(), is_up(link));
    if (!mail_.done(slot)) {
      detail::parcel_ptr message = core_.net.wires().stock().make(detail::content::data, detail::lane::data);
      message->id = id;
      message->operation = slot;
      message->bytes.assign(bytes.begin(), bytes.end());
      core_.net.send(links_[link].end, std::move(message));
    }
    return mail_.handle(slot);
  }

  net::operation receive(net::peer_index link, const net::message_id& id, std::span<std::byte> buffer) override {
    const detail::slot_index slot = mail_.start_receive(link, id, buffer, now(), is_up(link));
    look_at_room();
    return mail_.handle(slot);
  }

  result<std::size_t> wait(net::operation op, time_point deadline) override {
    const detail::slot_index slot = mail_.find(op);
    if (slot == net::detail::no_slot) {
      return fail(errc::invalid_argument, "fabric", "waited for an operation that is not under way");
    }
    while (!mail_.done(slot)) {
      if (now() >= deadline)
        return give_up(slot, errc::timeout, "no answer before the deadline; raise it or look at that peer");
      waiting_ = slot;
      const wake_reason why = process_->park(deadline);
      waiting_ = net::detail::no_slot;
      if (why == wake_reason::dying) return give_up(slot, errc::cancelled, "this process is being ended");
    }
    return mail_.release(slot);
  }

  /// Depends on virtual time alone: messages arrive while the process waits or computes, never between two looks.
  [[nodiscard]] bool done(net::operation op) const override { return mail_.ended(op); }

  void locked(const std::function<void()>& what) override {
    detail::machine& m = core_.net.at(host_);
    {
      const lock_count held{m.locks};
      what();
    }
    if (process_ == nullptr || m.locks != 0 || (m.frozen & detail::standstill::disk_held) == 0) return;
    core_.events.after(duration{0}, {event_kind::notify, host_, id_},
                       [net = &core_.net, host = host_] { net->wires().thaw(host, detail::standstill::disk_held); });
  }

  result<bool> block(const std::function<bool()>& done, time_point deadline) override {
    for (;;) {
      if (process_ == nullptr || process_->asked_to_stop()) {
        return fail(errc::cancelled, "fabric", "this peer was asked to stop");
      }
      if (done()) return true;
      if (now() >= deadline) return false;
      done_ = &done;
      const wake_reason why = process_->park(deadline);
      done_ = nullptr;
      if (std::exchange(satisfied_, false)) return true;
      if (why == wake_reason::dying) return fail(errc::cancelled, "fabric", "this process is being ended");
    }
  }

  [[nodiscard]] traffic stats() const override { return counters_; }
  [[nodiscard]] std::string describe_waits() const override { return mail_.describe(now()); }

  // ---- beyond the contract ---------------------------------------------------------------------------------------------

  /// What errors call the peer of a link; "peer <link>" otherwise.
  void rename(net::peer_index link, std::string name) { mail_.rename(link, std::move(name)); }
  /// Bytes of messages that came before anybody asked for them.
  [[nodiscard]] std::size_t kept_bytes() const noexcept { return mail_.kept_bytes(); }

  void clock_changed() override {
    if (wake_ != 0) wake_at(wake_when_);
  }

  void process_ended(bool killed) override {
    core_.events.cancel(std::exchange(wake_, 0));
    here_.reset();
    dialer_.stop();
    core_.net.drop(this, host_, killed ? "its process was killed" : "its process has ended", !killed);
    for (peer& p : links_) p.up = false;
    events_ = nullptr;
    done_ = nullptr;
    waiting_ = net::detail::no_slot;
    mail_.fail_everything(fail(errc::peer_lost, "fabric", "this peer's process has ended"));
    process_ = nullptr;
  }

 private:
  /// While the process holds the lock. Also undone where it is killed meanwhile.
  struct lock_count {
    explicit lock_count(std::uint32_t& of) : count{of} { ++count; }
    ~lock_count() { --count; }
    lock_count(const lock_count&) = delete;
    lock_count& operator=(const lock_count&) = delete;
    std::uint32_t& count;
  };

  struct peer {
    net::peer_id id = 0;
    std::string address;
    detail::end_ref end;
    bool up = false;
    bool closing = false;
    bool paused = false;
    std::vector<std::pair<time_point, std::vector<std::byte>>> recent;  ///< see world_options::repeat_after_reconnect
  };

  std::string take_port(std::uint32_t port) {
    while (core_.net.at(host_).listeners.contains(port)) ++port;
    core_.net.listen(host_, port, this);
    return detail::address_text(core_.net, host_, port);
  }

  // ---- what the network says -------------------------------------------------------------------------------------------

  void on_connected(detail::end_ref end, std::uint64_t tag) override { dialer_.connected(end, tag); }

  void on_refused(std::uint64_t tag, const error& why) override { dialer_.failed(tag, why); }

  void on_message(detail::end_ref end, detail::parcel_ptr message) override {
    if (dialer_.heard(end, *message)) return;
    const auto link = by_end_.find(end.value);
    if (link == by_end_.end() || links_[link->second].closing) return;
    if (message->what == detail::content::data) {
      mail_.arrived(link->second, std::move(message));
      look_at_room();
      look_at_waiting();
    } else {
      counters_.bytes_received += message->wire_bytes;
      ++counters_.frames_received;
      hear(link->second, end, message->bytes);
    }
    after_event();
  }

  void on_closed(detail::end_ref end, const error& why) override {
    if (dialer_.closed(end, why)) return;
    if (const auto link = by_end_.find(end.value); link != by_end_.end()) take_down(link->second, why.message);
    after_event();
  }

  void on_sent(detail::end_ref, std::uint32_t operation) override {
    if (mail_.sent(operation, core_.options.header_bytes)) look_at_waiting();
  }

  // ---- links -----------------------------------------------------------------------------------------------------------

  bool connected_to(net::peer_id id) override {
    const net::peer_index link = find_link(id);
    return link < links_.size() && links_[link].up && core_.net.far_end_open(links_[link].end);
  }

  void met(detail::end_ref end, net::peer_id id, const std::string& address) override {
    const net::peer_index link = find_link(id);
    if (link == links_.size()) {
      links_.emplace_back().id = id;
      by_id_[id] = link;
      mail_.add_link(net::detail::peer_name(link));
    }
    if (links_[link].up) take_down(link, "it has connected anew");
    peer& p = links_[link];
    p.address = address;
    by_address_[address] = link;
    p.end = end;
    p.up = true;
    p.closing = p.paused = false;
    by_end_[end.value] = link;
    repeat(p);
    if (events_ != nullptr) events_->on_up(link, id, address);
    after_event();
  }

  void not_met(const std::string& address, const error& why) override {
    if (events_ != nullptr) events_->on_unreachable(address, why);
    after_event();
  }

  /// As many as there are links: the peer has none yet.
  [[nodiscard]] net::peer_index find_link(net::peer_id id) const {
    const auto known = by_id_.find(id);
    return known == by_id_.end() ? static_cast<net::peer_index>(links_.size()) : known->second;
  }

  void take_down(net::peer_index link, const std::string& reason) {
    peer& p = links_[link];
    const error why = fail(errc::peer_lost, mail_.name(link), reason);
    by_end_.erase(p.end.value);
    p.up = false;
    core_.net.close(p.end, reason, false);
    mail_.fail_link(link, why);
    look_at_waiting();
    if (events_ != nullptr) events_->on_down(link, why);
  }

  void cannot_dial(const std::string& address, const char* why) {
    later([this, address, why] {
      if (events_ != nullptr) events_->on_unreachable(address, fail(errc::unreachable, address, why));
    });
  }

  // ---- messages --------------------------------------------------------------------------------------------------------

  void hear(net::peer_index link, detail::end_ref end, std::vector<std::byte>& message) {
    if (core_.net.befalls(mishap::repeat, end)) hear_later(link, end, std::chrono::seconds{5}, message);
    if (core_.net.befalls(mishap::reorder, end)) {
      return hear_later(link, end, std::chrono::milliseconds{200}, std::move(message));
    }
    if (events_ != nullptr) events_->on_control(link, message);
  }

  /// Up to `most` later, on whatever connection this link then has to the same process.
  void hear_later(net::peer_index link, detail::end_ref end, duration most, std::vector<std::byte> message) {
    const std::uint64_t sender = core_.net.far_process(end);
    core_.events.after(core_.net.wires().up_to(most), {event_kind::notify, host_, message.size()},
                       [this, here = std::weak_ptr<char>{here_}, link, sender, m = std::move(message)] {
                         if (here.expired()) return;
                         core_.net.wires().dispatch(host_, [this, link, sender, m] {
                           const bool same =
                               is_up(link) && sender != 0 && core_.net.far_process(links_[link].end) == sender;
                           if (same && events_ != nullptr) events_->on_control(link, m);
                           after_event();
                         });
                       });
  }

  void post_now(const peer& to, std::vector<std::byte> message, bool bulk) {
    counters_.bytes_sent += message.size() + core_.options.header_bytes;
    ++counters_.frames_sent;
    const detail::lane way = bulk ? detail::lane::bulk : detail::lane::control;
    detail::parcel_ptr p = core_.net.wires().stock().make(detail::content::control, way);
    if (message.size() <= p->bytes.capacity()) {
      p->bytes.assign(message.begin(), message.end());  // there is room already: better kept
    } else {
      p->bytes = std::move(message);
    }
    core_.net.send(to.end, std::move(p));
  }

  void remember(peer& p, const std::vector<std::byte>& message) {
    if (p.recent.size() >= 4) p.recent.erase(p.recent.begin());
    std::erase_if(p.recent, [this](const auto& sent) { return now() - sent.first > std::chrono::seconds{1}; });
    p.recent.emplace_back(now(), message);
  }

  /// A sender that cannot know what arrived before the break says it again.
  void repeat(peer& p) {
    const double chance = core_.options.repeat_after_reconnect;
    for (auto& [when, message] : std::exchange(p.recent, {})) {
      if (static_cast<double>(core_.net.wires().random().uniform()) < chance) post_now(p, std::move(message), false);
    }
  }

  /// Tells senders to hold data back while more is kept than may be, but not those of whom something is wanted: it may be
  /// behind what is kept.
  void look_at_room() {
    if (process_ == nullptr) return;
    const bool full = mail_.kept_bytes() >= core_.options.kept_bytes;
    if (!full && !any_paused_) return;
    any_paused_ = full;
    for (net::peer_index link = 0; link < links_.size(); ++link) {
      const bool pause = full && !mail_.wants_anything(link);
      if (links_[link].up && std::exchange(links_[link].paused, pause) != pause) {
        core_.net.wires().pause(links_[link].end, pause);
      }
    }
  }

  void stop_send(detail::slot_index slot) {
    if (process_ != nullptr) core_.net.wires().abort(links_[mail_.at(slot).peer].end, slot);
  }

  result<std::size_t> give_up(detail::slot_index slot, errc code, const char* why) {
    if (mail_.at(slot).is_send) stop_send(slot);
    return mail_.give_up(slot, code, why);
  }

  // ---- the process -----------------------------------------------------------------------------------------------------

  /// Happens as an event of its own at this very time, and not while the process is stopped.
  void later(std::function<void()> what) {
    core_.events.after(duration{0}, {event_kind::notify, host_, id_},
                       [this, here = std::weak_ptr<char>{here_}, f = std::move(what)] {
                         if (here.expired()) return;
                         core_.net.wires().dispatch(host_, [this, f] {
                           f();
                           after_event();
                         });
                       });
  }

  void look_at_waiting() {
    if (waiting_ != net::detail::no_slot && mail_.done(waiting_)) process_->wake();
  }

  void after_event() {
    if (done_ == nullptr || satisfied_ || !(*done_)()) return;
    satisfied_ = true;
    process_->wake();
  }

  process* process_;  // nullptr once it has ended
  detail::core& core_;
  host_clock clock_;
  host_index host_;
  net::peer_id id_;
  std::string address_;
  net::fabric_events* events_ = nullptr;
  detail::dialer dialer_;
  std::deque<peer> links_;
  std::unordered_map<net::peer_id, net::peer_index> by_id_;
  std::unordered_map<std::string, net::peer_index> by_address_;  ///< who was met there last
  std::unordered_map<std::uint64_t, net::peer_index> by_end_;
  scheduler::ticket wake_ = 0;
  time_point wake_when_ = no_deadline;
  time_point aside_until_;
  std::shared_ptr<char> here_ = std::make_shared<char>();  ///< gone when this object or its process is
  traffic counters_;
  detail::mailbox mail_{counters_};
  bool any_paused_ = false;
  detail::slot_index waiting_ = net::detail::no_slot;
  const std::function<bool()>* done_ = nullptr;
  bool satisfied_ = false;
};

inline std::shared_ptr<net::fabric> process::make_fabric(net::peer_id id) { return std::make_shared<fabric>(*this, id); }

}  // namespace causeway::inline CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_FABRIC_HPP
