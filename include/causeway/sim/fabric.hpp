// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_FABRIC_HPP
#define CAUSEWAY_SIM_FABRIC_HPP

// net::fabric on the simulated network. Events reach their owner between two blocking calls of the process, one at a time,
// and never while the process is stopped; so the "lock" of the contract is that nothing else runs.
//
// Two peers greet each other with their ids when a connection stands. Of two connections that cross, the one dialled by the
// smaller id stays.

#include <causeway/core/error.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/net/operations.hpp>
#include <causeway/sim/mailbox.hpp>
#include <causeway/sim/network.hpp>
#include <causeway/sim/process.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::sim {

namespace detail {

inline std::string address_text(network& net, host_index host, std::uint32_t port) {
  return net.at(host).options.name + ':' + std::to_string(port);
}

struct network_address {
  host_index host = no_host;
  std::uint32_t port = 0;
};

/// "host-3:1". No host: the text is no address of this network.
inline network_address parse_address(const network& net, const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon + 1 == text.size() || text.size() - colon > 9) return {};
  std::uint32_t port = 0;
  for (const char c : std::string_view{text}.substr(colon + 1)) {
    if (c < '0' || c > '9') return {};
    port = 10 * port + static_cast<std::uint32_t>(c - '0');
  }
  return {net.host_called(text.substr(0, colon)), port};
}

}  // namespace detail

class fabric final : public net::fabric, public detail::endpoint, private detail::socket_owner {
 public:
  /// At the first free port of the host from `first_port` on.
  fabric(process& owner, net::peer_id id, std::uint32_t first_port = 1)
      : process_{&owner},
        core_{&owner.shared()},
        host_{owner.host()},
        id_{id},
        clock_{core_->events.clock()},
        mail_{operations_, counters_} {
    std::uint32_t port = first_port;
    while (core_->net.at(host_).listeners.contains(port)) ++port;
    core_->net.listen(host_, port, this);
    address_ = detail::address_text(core_->net, host_, port);
    process_->add(this);
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

  void attach(net::fabric_events* events) override {
    events_ = events;
    if (events_ == nullptr || process_ == nullptr || early_.empty()) return;
    later([this] {
      while (events_ != nullptr && !early_.empty()) {
        const greeting next = std::move(early_.front());
        early_.pop_front();
        if (core_->net.wires().find(next.end) != nullptr) accept(next);
      }
      after_event();
    });
  }

  [[nodiscard]] time_point now() const override { return clock_.now(); }

  void dial(const std::string& address) override {
    if (process_ == nullptr) return;
    if (address == address_) return unreachable(address, "this is our own address");
    const detail::network_address to = detail::parse_address(core_->net, address);
    if (to.host == no_host) return unreachable(address, "no such host; an address is <host>:<number>");
    const bool stands =
        std::any_of(links_.begin(), links_.end(), [&](const peer& p) { return p.up && p.address == address; });
    if (stands || find_dial(address) != dials_.end()) return;
    const std::uint64_t tag = ++last_dial_;
    dials_.emplace(tag, outgoing{address, {}, false, 0});
    dials_[tag].deadline =
        core_->events.after(core_->options.connect_timeout + std::chrono::milliseconds{1}, {event_kind::timer, host_, tag},
                            [this, tag] { core_->net.wires().dispatch(host_, [this, tag] { dial_timed_out(tag); }); });
    core_->net.dial(host_, this, tag, to.host, to.port);
  }

  void close(net::peer_index link, const std::string& why) override {
    if (!is_up(link)) return;
    links_[link].closing = true;
    later([this, link, end = links_[link].end, why] {
      if (links_[link].up && links_[link].end == end) take_down(link, fail(errc::peer_lost, mail_.name(link), why), why);
      after_event();
    });
  }

  [[nodiscard]] bool is_up(net::peer_index link) const override {
    return link < links_.size() && links_[link].up && !links_[link].closing;
  }

  void post(net::peer_index link, std::vector<std::byte> message, bool bulk = false) override {
    CAUSEWAY_EXPECT(message.size() <= net::max_post_bytes);
    if (!is_up(link)) return;
    if (core_->options.repeat_after_reconnect > 0) remember(links_[link], message);
    post_now(links_[link], std::move(message), bulk);
  }

  void wake_at(time_point when) override {
    if (process_ == nullptr) return;
    core_->events.cancel(std::exchange(wake_, 0));
    if (when == no_deadline) return;
    wake_ = core_->events.at(when, {event_kind::timer, host_, 0}, [this] {
      wake_ = 0;
      core_->net.wires().dispatch(host_, [this] {
        if (events_ != nullptr) events_->on_wake();
        after_event();
      });
    });
  }

  void cancel_before(std::uint32_t epoch) override {
    mail_.cancel_before(epoch);
    for (net::detail::slot_index slot : unfinished()) {
      const net::detail::pending_operation& op = operations_[slot];
      if (op.id.epoch >= epoch) continue;
      if (process_ != nullptr) core_->net.wires().abort(links_[op.peer].end, slot);
      end_operation(slot, fail(errc::cancelled, mail_.name(op.peer), "this exchange was called off"));
    }
    look_at_room();
    look_at_waiting();
  }

  net::operation send(net::peer_index link, const net::message_id& id, std::span<const std::byte> bytes) override {
    const auto slot = start(true, link, id, bytes.size());
    if (operations_[slot].done) return operations_.handle(slot);
    auto message = std::make_unique<detail::parcel>();
    message->what = detail::content::data;
    message->way = detail::lane::data;
    message->id = id;
    message->operation = slot;
    message->bytes.assign(bytes.begin(), bytes.end());
    core_->net.send(links_[link].end, std::move(message));
    return operations_.handle(slot);
  }

  net::operation receive(net::peer_index link, const net::message_id& id, std::span<std::byte> buffer) override {
    const auto slot = start(false, link, id, buffer.size());
    if (operations_[slot].done) return operations_.handle(slot);
    operations_[slot].target = buffer.data();
    if (!mail_.take_kept(slot)) {  // what a lost peer had sent in whole can still be received
      if (links_[link].up) {
        mail_.open(slot);
      } else {
        operations_.finish(slot, gone(link));
      }
    }
    look_at_room();
    return operations_.handle(slot);
  }

  result<std::size_t> wait(net::operation op, time_point deadline) override {
    const net::detail::slot_index slot = operations_.find(op);
    if (slot == net::detail::no_slot) {
      return fail(errc::invalid_argument, "fabric", "waited for an operation that is not under way");
    }
    while (!operations_[slot].done) {
      if (now() >= deadline)
        return give_up(slot, errc::timeout, "no answer before the deadline; raise it or look at that peer");
      waiting_ = slot;
      const wake_reason why = process_->park(deadline);
      waiting_ = net::detail::no_slot;
      if (why == wake_reason::dying) return give_up(slot, errc::cancelled, "this process is being ended");
    }
    return operations_.release(slot);
  }

  void locked(const std::function<void()>& what) override { what(); }

  result<bool> block(const std::function<bool()>& done, time_point deadline) override {
    for (;;) {
      if (process_ == nullptr || process_->asked_to_stop())
        return fail(errc::cancelled, "fabric", "this peer was asked to stop");
      if (done()) return true;
      if (now() >= deadline) return false;
      done_ = &done;
      const wake_reason why = process_->park(deadline);
      const bool satisfied = std::exchange(satisfied_, false);
      done_ = nullptr;
      if (satisfied) return true;
      if (why == wake_reason::dying) return fail(errc::cancelled, "fabric", "this process is being ended");
    }
  }

  [[nodiscard]] traffic stats() const override { return counters_; }

  [[nodiscard]] std::string describe_waits() const override {
    std::string text;
    operations_.for_each_unfinished([&](const net::detail::pending_operation& op) {
      char since[32];
      std::snprintf(since, sizeof since, "%.3f", seconds(now() - op.since));
      text += (op.is_send ? "send to " : "receive from ") + mail_.name(op.peer) + " (" + net::detail::to_text(op.id) +
              ", " + std::to_string(op.length) + " bytes) since " + since + " s\n";
    });
    return text;
  }

  // ---- beyond the contract ---------------------------------------------------------------------------------------------

  /// What errors call the peer of a link; "peer <link>" otherwise.
  void rename(net::peer_index link, std::string name) { mail_.rename(link, std::move(name)); }
  [[nodiscard]] net::peer_id id_of(net::peer_index link) const { return links_[link].id; }
  /// Bytes of messages that came before anybody asked for them.
  [[nodiscard]] std::size_t kept_bytes() const noexcept { return mail_.kept_bytes(); }

  void process_ended(bool killed) override {
    core_->events.cancel(std::exchange(wake_, 0));
    for (auto& [tag, d] : dials_) core_->events.cancel(d.deadline);
    here_.reset();
    core_->net.drop(this, host_, killed ? "the peer's process was killed" : "the peer's process has ended", !killed);
    for (peer& p : links_) p.up = false;
    events_ = nullptr;
    done_ = nullptr;
    waiting_ = net::detail::no_slot;
    for (const net::detail::slot_index slot : unfinished()) {
      operations_.finish(slot, fail(errc::peer_lost, "fabric", "this peer's process has ended"));
    }
    process_ = nullptr;
  }

 private:
  struct peer {
    net::peer_id id = 0;
    std::string address;
    detail::end_ref end;
    bool up = false;
    bool closing = false;
    bool paused = false;
    std::deque<std::pair<time_point, std::vector<std::byte>>> recent;  ///< see world_options::repeat_after_reconnect
  };

  struct outgoing {
    std::string address;
    detail::end_ref end;   ///< once the connection stands
    bool refused = false;  ///< the other side's own dial is under way instead
    scheduler::ticket deadline = 0;
  };

  struct greeting {
    detail::end_ref end;
    net::peer_id id = 0;
    std::string address;
  };

  // ---- what the network says -------------------------------------------------------------------------------------------

  void on_connected(detail::end_ref end, std::uint64_t tag) override {
    const auto dialled = dials_.find(tag);
    if (dialled == dials_.end()) return core_->net.close(end, "not wanted any more", false);
    dialled->second.end = end;
    greet(end, detail::content::hello);
  }

  void on_refused(std::uint64_t tag, const error& why) override {
    end_dial(tag, why);
    after_event();
  }

  void on_message(detail::end_ref end, detail::parcel_ptr message) override {
    switch (message->what) {
      case detail::content::hello: hear(end, *message); break;
      case detail::content::welcome: welcomed(end, *message); break;
      case detail::content::refusal: refused(end); break;
      case detail::content::control: control(end, *message); break;
      case detail::content::data: data(end, std::move(message)); break;
      case detail::content::goodbye: break;  // the network's own
    }
    after_event();
  }

  void on_closed(detail::end_ref end, const error& why) override {
    std::erase_if(early_, [&](const greeting& g) { return g.end == end; });
    if (const auto link = by_end_.find(end.value); link != by_end_.end()) {
      take_down(link->second, fail(errc::peer_lost, mail_.name(link->second), why.message), why.message);
    } else {
      for (const auto& [tag, d] : dials_) {
        if (d.end != end) continue;
        end_dial(tag, fail(errc::unreachable, d.address, why.message));
        break;
      }
    }
    after_event();
  }

  void on_sent(detail::end_ref, std::uint32_t operation) override {
    net::detail::pending_operation& op = operations_[operation];
    if (!op.used || op.done) return;
    op.moved = op.length;
    counters_.bytes_sent += op.length + core_->options.header_bytes;
    ++counters_.frames_sent;
    operations_.finish(operation);
    look_at_waiting();
  }

  // ---- meeting ---------------------------------------------------------------------------------------------------------

  void greet(detail::end_ref end, detail::content what) {
    auto message = std::make_unique<detail::parcel>();
    message->what = what;
    message->from_id = id_;
    for (const char c : address_) message->bytes.push_back(static_cast<std::byte>(c));
    core_->net.send(end, std::move(message));
  }

  static std::string text_of(const detail::parcel& message) {
    return {reinterpret_cast<const char*>(message.bytes.data()), message.bytes.size()};
  }

  void hear(detail::end_ref end, const detail::parcel& message) {
    greeting g{end, message.from_id, text_of(message)};
    if (events_ == nullptr) {
      early_.push_back(std::move(g));
    } else {
      accept(g);
    }
  }

  void accept(const greeting& g) {
    if (g.id == id_) return core_->net.close(g.end, "this is a connection to itself", false);
    const net::peer_index link = link_of(g.id);
    const bool twice = links_[link].up && core_->net.far_end_open(links_[link].end);
    const auto ours = find_dial(g.address);
    const bool crossing = ours != dials_.end() && !ours->second.refused && id_ < g.id;
    if (twice || crossing) return refuse(g.end);
    if (ours != dials_.end()) forget_dial(ours->first);
    greet(g.end, detail::content::welcome);
    bring_up(link, g.end, g.address);
  }

  void refuse(detail::end_ref end) {
    auto message = std::make_unique<detail::parcel>();
    message->what = detail::content::refusal;
    core_->net.send(end, std::move(message));
    core_->net.close(end, "we have a connection already", true);
  }

  /// The other side prefers its own dial to ours: that one will come.
  void refused(detail::end_ref end) {
    for (auto& [tag, d] : dials_) {
      if (d.end != end) continue;
      core_->net.close(end, "", false);
      d.end = {};
      d.refused = true;
      return;
    }
  }

  void welcomed(detail::end_ref end, const detail::parcel& message) {
    const auto dialled = std::find_if(dials_.begin(), dials_.end(), [&](const auto& d) { return d.second.end == end; });
    if (dialled == dials_.end()) return core_->net.close(end, "not wanted any more", false);
    dialled->second.end = {};
    forget_dial(dialled->first);
    bring_up(link_of(message.from_id), end, text_of(message));
  }

  net::peer_index link_of(net::peer_id id) {
    const auto known = std::find_if(links_.begin(), links_.end(), [&](const peer& p) { return p.id == id; });
    if (known != links_.end()) return static_cast<net::peer_index>(known - links_.begin());
    const auto link = static_cast<net::peer_index>(links_.size());
    links_.emplace_back().id = id;
    mail_.add_link(net::detail::peer_name(link));
    return link;
  }

  void bring_up(net::peer_index link, detail::end_ref end, const std::string& address) {
    if (links_[link].up) {
      take_down(link, fail(errc::peer_lost, mail_.name(link), "it has connected anew"), "connected anew");
    }
    peer& p = links_[link];
    p.address = address;
    p.end = end;
    p.up = true;
    p.closing = p.paused = false;
    by_end_[end.value] = link;
    repeat(p);
    if (events_ != nullptr) events_->on_up(link, p.id, address);
  }

  void take_down(net::peer_index link, const error& why, const std::string& reason) {
    peer& p = links_[link];
    by_end_.erase(p.end.value);
    p.up = false;
    core_->net.close(p.end, reason, false);
    mail_.fail(link, why);
    for (const net::detail::slot_index slot : unfinished()) {
      if (operations_[slot].peer == link) end_operation(slot, why);
    }
    look_at_waiting();
    if (events_ != nullptr) events_->on_down(link, why);
  }

  // ---- dialling --------------------------------------------------------------------------------------------------------

  std::map<std::uint64_t, outgoing>::iterator find_dial(const std::string& address) {
    return std::find_if(dials_.begin(), dials_.end(), [&](const auto& d) { return d.second.address == address; });
  }

  /// Ends a dial without a word.
  void forget_dial(std::uint64_t tag) {
    const auto dialled = dials_.find(tag);
    if (dialled == dials_.end()) return;
    core_->net.cancel_dial(this, tag);
    core_->events.cancel(dialled->second.deadline);
    if (dialled->second.end.value != 0) core_->net.close(dialled->second.end, "not wanted any more", false);
    dials_.erase(dialled);
  }

  void end_dial(std::uint64_t tag, const error& why) {
    const auto dialled = dials_.find(tag);
    if (dialled == dials_.end()) return;
    const std::string address = dialled->second.address;
    forget_dial(tag);
    if (events_ != nullptr) events_->on_unreachable(address, fail(why.code, address, why.message));
  }

  void dial_timed_out(std::uint64_t tag) {
    end_dial(tag, fail(errc::unreachable, "", "it took the connection, but did not answer in time"));
    after_event();
  }

  void unreachable(const std::string& address, const char* why) {
    later([this, address, why] {
      if (events_ != nullptr) events_->on_unreachable(address, fail(errc::unreachable, address, why));
      after_event();
    });
  }

  // ---- messages --------------------------------------------------------------------------------------------------------

  void post_now(const peer& to, std::vector<std::byte> message, bool bulk) {
    counters_.bytes_sent += message.size() + core_->options.header_bytes;
    ++counters_.frames_sent;
    auto p = std::make_unique<detail::parcel>();
    p->what = detail::content::control;
    p->way = bulk ? detail::lane::bulk : detail::lane::control;
    p->bytes = std::move(message);
    core_->net.send(to.end, std::move(p));
  }

  void control(detail::end_ref end, const detail::parcel& message) {
    const auto link = by_end_.find(end.value);
    if (link == by_end_.end() || links_[link->second].closing) return;
    counters_.bytes_received += message.wire_bytes;
    ++counters_.frames_received;
    if (events_ != nullptr) events_->on_control(link->second, message.bytes);
  }

  void data(detail::end_ref end, detail::parcel_ptr message) {
    const auto link = by_end_.find(end.value);
    if (link == by_end_.end()) return;
    mail_.arrived(link->second, std::move(message));
    look_at_room();
    look_at_waiting();
  }

  void remember(peer& p, const std::vector<std::byte>& message) {
    while (!p.recent.empty() && (p.recent.size() >= 4 || now() - p.recent.front().first > std::chrono::seconds{1})) {
      p.recent.pop_front();
    }
    p.recent.emplace_back(now(), message);
  }

  /// A sender that cannot know what arrived before the break says it again.
  void repeat(peer& p) {
    const double chance = core_->options.repeat_after_reconnect;
    for (auto& [when, message] : std::exchange(p.recent, {})) {
      if (static_cast<double>(core_->net.wires().random().uniform()) < chance) post_now(p, std::move(message), false);
    }
  }

  /// Tells senders to hold data back while more is kept than may be, but not those of whom something is wanted: it may be
  /// behind what is kept.
  void look_at_room() {
    if (process_ == nullptr) return;
    const bool full = mail_.kept_bytes() >= core_->options.kept_bytes;
    if (!full && !any_paused_) return;
    any_paused_ = full;
    for (net::peer_index link = 0; link < links_.size(); ++link) {
      const bool pause = full && !mail_.wants_anything(link);
      if (links_[link].up && std::exchange(links_[link].paused, pause) != pause) {
        core_->net.wires().pause(links_[link].end, pause);
      }
    }
  }

  // ---- operations ------------------------------------------------------------------------------------------------------

  net::detail::slot_index start(bool is_send, net::peer_index link, const net::message_id& id, std::size_t length) {
    net::detail::pending_operation what;
    what.is_send = is_send;
    what.id = id;
    what.length = length;
    what.since = now();
    const bool known = link < links_.size();
    what.peer = known ? link : 0;
    const net::detail::slot_index slot = operations_.start(what);
    if (!known) {
      operations_.finish(slot, fail(errc::invalid_argument, net::detail::peer_name(link), "no such peer"));
    } else if (id.epoch < mail_.first_epoch()) {
      operations_.finish(slot, fail(errc::cancelled, mail_.name(link), "this exchange was called off"));
    } else if (is_send && !links_[link].up) {
      operations_.finish(slot, gone(link));
    }
    return slot;
  }

  [[nodiscard]] error gone(net::peer_index link) const {
    return fail(errc::peer_lost, mail_.name(link), "the connection to it has ended");
  }

  [[nodiscard]] std::vector<net::detail::slot_index> unfinished() {
    std::vector<net::detail::slot_index> slots;
    for (net::detail::slot_index s = 0; s < operations_.size(); ++s) {
      if (operations_[s].used && !operations_[s].done) slots.push_back(s);
    }
    return slots;
  }

  void end_operation(net::detail::slot_index slot, const error& why) {
    if (!operations_[slot].done) operations_.finish(slot, why);
  }

  result<std::size_t> give_up(net::detail::slot_index slot, errc code, const char* why) {
    const net::detail::pending_operation& op = operations_[slot];
    const net::peer_index link = op.peer;
    if (op.is_send && process_ != nullptr) core_->net.wires().abort(links_[link].end, slot);
    if (!op.is_send) mail_.cancel(slot);
    operations_.finish(slot, fail(code, mail_.name(link), why));
    return operations_.release(slot);
  }

  // ---- the process -----------------------------------------------------------------------------------------------------

  /// Happens as an event of its own at this very time, and not while the process is stopped.
  void later(std::function<void()> what) {
    core_->events.after(duration{0}, {event_kind::notify, host_, id_},
                        [this, here = std::weak_ptr<char>{here_}, f = std::move(what)] {
                          if (!here.expired()) core_->net.wires().dispatch(host_, f);
                        });
  }

  void look_at_waiting() {
    if (waiting_ != net::detail::no_slot && operations_[waiting_].done && process_ != nullptr) process_->wake();
  }

  void after_event() {
    if (done_ == nullptr || satisfied_ || process_ == nullptr || !(*done_)()) return;
    satisfied_ = true;
    process_->wake();
  }

  process* process_;  // nullptr once it has ended
  detail::core* core_;
  host_index host_;
  net::peer_id id_;
  virtual_clock clock_;
  std::string address_;
  net::fabric_events* events_ = nullptr;
  std::deque<peer> links_;
  std::unordered_map<std::uint64_t, net::peer_index> by_end_;
  std::map<std::uint64_t, outgoing> dials_;
  std::uint64_t last_dial_ = 0;
  std::deque<greeting> early_;
  scheduler::ticket wake_ = 0;
  std::shared_ptr<char> here_ = std::make_shared<char>();  ///< gone when this object or its process is
  traffic counters_;
  net::detail::operation_table operations_;
  detail::mailbox mail_;
  bool any_paused_ = false;
  net::detail::slot_index waiting_ = net::detail::no_slot;
  const std::function<bool()>* done_ = nullptr;
  bool satisfied_ = false;
};

inline std::shared_ptr<net::fabric> process::make_fabric(net::peer_id id) { return std::make_shared<fabric>(*this, id); }

}  // namespace causeway::inline CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_FABRIC_HPP
