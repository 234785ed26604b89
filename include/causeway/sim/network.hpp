// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_NETWORK_HPP
#define CAUSEWAY_SIM_NETWORK_HPP

// The sockets of a simulated cluster: who listens, who dials, how connections are made and how they end. A connection is
// reliable and in order until it ends. Ended with a goodbye, what was sent before still arrives; reset, everything on its
// way is lost, and the other side hears of it one latency later.

#include <causeway/core/error.hpp>
#include <causeway/sim/connection.hpp>
#include <causeway/sim/transit.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::sim::detail {

class network {
 public:
  network(const world_options& options, scheduler& events) : options_{options}, events_{events}, transit_{options, events} {
    transit_.on_delivery = [this](end_ref e, parcel_ptr message) { delivered(e, std::move(message)); };
  }
  network(const network&) = delete;
  network& operator=(const network&) = delete;

  [[nodiscard]] transit& wires() noexcept { return transit_; }
  [[nodiscard]] machine& at(host_index host) { return transit_.at(host); }
  [[nodiscard]] const world_options& options() const noexcept { return options_; }
  [[nodiscard]] scheduler& events() noexcept { return events_; }

  void add_host(const host_options& options) {
    by_name_[options.name] = transit_.hosts();
    transit_.add_host(options);
  }
  [[nodiscard]] host_index host_called(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? no_host : found->second;
  }

  void listen(host_index host, std::uint32_t port, socket_owner* owner) { at(host).listeners[port] = owner; }

  /// Tells `owner` on_connected or on_refused, with `tag`. The SYN, its answer and what the dialer then says take one and
  /// a half round trips, and a random delay on top (world_options::connect_delay_*).
  std::uint64_t dial(host_index from, socket_owner* owner, std::uint64_t tag, host_index to, std::uint32_t port) {
    const std::uint64_t number = ++last_attempt_;
    attempt& a = attempts_[number];
    a = {owner, tag, from, to, port};
    const duration range = options_.connect_delay_max - options_.connect_delay_min;
    const auto extra =
        transit_.random().below(static_cast<std::uint64_t>(std::max<duration>(range, duration{0}).count()) + 1);
    const auto give_up = [this, number] {
      conclude(number,
               fail(errc::unreachable, "", "nobody answered in time; is it running, and can this network reach it?"));
    };
    if (transit_.is_full(from)) {
      a.deadline = events_.after(duration{0}, {event_kind::connect, from, tag}, [this, number] {
        conclude(number, fail(errc::unreachable, "", "too many open files: no descriptor is left for a connection"));
      });
      return number;
    }
    a.deadline = events_.after(options_.connect_timeout, {event_kind::connect, from, tag}, give_up);
    knock(number, options_.connect_delay_min + duration{static_cast<std::int64_t>(extra)});
    return number;
  }

  void cancel_dial(std::uint64_t number) { forget(number); }

  /// Lost where the connection is over.
  void send(end_ref e, parcel_ptr message) {
    const connection* const c = transit_.find(e);
    if (c != nullptr && c->ends[e.side()].open) transit_.send(e, std::move(message));
  }

  /// Ends a connection from one side. That side hears no more of it; the other does.
  void close(end_ref e, const std::string& why, bool with_goodbye) {
    connection* const c = transit_.find(e);
    if (c == nullptr || !c->ends[e.side()].open) return;
    c->ends[e.side()].open = false;
    if (!c->broken && !c->silent && c->ends[e.other().side()].open) {
      c->why = why;
      if (with_goodbye) {
        transit_.send(e, transit_.stock().make(content::goodbye, lane::bulk));
      } else {
        c->broken = true;
        transit_.clear(*c);
        tell_other_side(*c, e, duration{0});
      }
    }
    transit_.free_if_over(e);
  }

  /// Ends everything that `owner` has: its connections, its dials, its ports.
  void drop(const socket_owner* owner, host_index host, const std::string& why, bool with_goodbye) {
    for (auto at = attempts_.begin(); at != attempts_.end();) {
      const auto here = at++;
      if (here->second.owner == owner) forget(here->first);
    }
    std::erase_if(at(host).listeners, [&](const auto& l) { return l.second == owner; });
    transit_.for_each_end(host, [&](connection& c, end_ref e) {
      if (c.ends[e.side()].owner == owner) close(e, why, with_goodbye);
    });
  }

  /// Whether the other side still holds its end: what a real peer finds out by comparing incarnations.
  [[nodiscard]] bool far_end_open(end_ref e) {
    connection* const c = transit_.find(e);
    return c != nullptr && !c->broken && !c->silent && c->ends[e.other().side()].open;
  }

  [[nodiscard]] bool blocked(host_index from, host_index to) { return transit_.links().between(from, to).blocked(); }

  /// Nothing arrives from `from` at `to` any more, until as many unblock calls.
  void block(host_index from, host_index to) {
    link& l = transit_.links().between(from, to);
    if (l.blocks++ == 0) l.blocked_since = events_.now();
  }

  void unblock(host_index from, host_index to) {
    link& l = transit_.links().between(from, to);
    if (l.blocks == 0 || --l.blocks != 0) return;
    const duration black = events_.now() - l.blocked_since;
    transit_.healed(from, to, black);
    transit_.for_each_end(from, [&](connection& c, end_ref e) {
      if (c.broken && c.flows[e.side()].to == to && !c.ends[e.side()].open) {
        tell_other_side(c, e, transit_.retry_delay(black));
      }
    });
  }

  /// One of the TCP streams of each connection between the two dies: what it carried is lost, control messages still come
  /// until the host `a` notices, a round trip later, and ends the link.
  void lose_stream(host_index a, host_index b) {
    transit_.for_each_end(a, [&](connection& c, end_ref e) {
      if (c.flows[e.side()].to != b || c.broken || c.silent) return;
      transit_.lose_data(c);
      const flow& f = c.flows[e.side()];
      events_.after(transit_.flight_time(*f.there) + transit_.flight_time(*f.back), {event_kind::reset, a, b},
                    [this, a, e] { transit_.dispatch(a, [this, e] { give_up(e, "one of its streams has ended"); }); });
    });
  }

  /// What befalls control messages that arrive at the end `e`.
  [[nodiscard]] bool befalls(mishap what, end_ref e) {
    const connection* const c = transit_.find(e);
    return c != nullptr && transit_.happens(c->flows[e.other().side()].there->chance_of(what));
  }

  /// Tells the process at the other side of a connection from its earlier and later ones. 0: the connection is over.
  [[nodiscard]] std::uint64_t far_process(end_ref e) {
    const connection* const c = transit_.find(e);
    if (c == nullptr || c->broken || c->silent || !c->ends[e.other().side()].open) return 0;
    const host_index host = c->flows[e.side()].to;
    return std::uint64_t{host} << 32U | at(host).boots;
  }

  /// The machine goes dark: nobody is told, nothing answers.
  void power_off(host_index host) {
    machine& m = at(host);
    m.powered = false;
    m.listeners.clear();
    transit_.for_each_end(host, [&](connection& c, end_ref e) {
      if (!c.ends[e.side()].open) return;
      c.ends[e.side()].open = false;
      c.silent = true;
      transit_.clear(c);
      transit_.free_if_over(e);
    });
  }

  /// It answers again: with a reset, to those who still think that they are connected.
  void power_on(host_index host) {
    machine& m = at(host);
    if (std::exchange(m.powered, true)) return;
    transit_.for_each_end(host, [&](connection& c, end_ref e) {
      if (!c.silent || c.broken) return;
      c.broken = true;
      transit_.clear(c);
      c.why = "the machine was started anew";
      tell_other_side(c, e, transit_.retry_delay(std::chrono::seconds{1}));
    });
  }

 private:
  struct attempt {
    socket_owner* owner = nullptr;
    std::uint64_t tag = 0;
    host_index from = 0;
    host_index to = 0;
    std::uint32_t port = 0;
    std::uint32_t tries = 0;
    scheduler::ticket deadline = 0;
    scheduler::ticket retry = 0;
  };

  void forget(std::uint64_t number) {
    const auto found = attempts_.find(number);
    if (found == attempts_.end()) return;
    events_.cancel(found->second.deadline);
    events_.cancel(found->second.retry);
    attempts_.erase(found);
  }

  attempt* find_attempt(std::uint64_t number) {
    const auto found = attempts_.find(number);
    return found == attempts_.end() ? nullptr : &found->second;
  }

  /// A SYN; again after 1, 3, 7 s while nothing comes back.
  void knock(std::uint64_t number, duration extra) {
    attempt* const a = find_attempt(number);
    if (a == nullptr) return;
    const link& there = transit_.links().between(a->from, a->to);
    events_.after(extra + transit_.flight_time(there), {event_kind::connect, a->to, number},
                  [this, number] { answer(number); });
    const duration retry = std::chrono::seconds{1} * (1U << a->tries++);
    if (retry < options_.connect_timeout) {
      a->retry =
          events_.after(retry, {event_kind::connect, a->from, number}, [this, number] { knock(number, duration{0}); });
    }
  }

  void answer(std::uint64_t number) {
    const attempt* const a = find_attempt(number);
    if (a == nullptr || transit_.links().between(a->from, a->to).blocked() || !at(a->to).powered) return;
    const link& back = transit_.links().between(a->to, a->from);
    events_.after(transit_.flight_time(back), {event_kind::connect, a->from, number},
                  [this, number] { establish(number); });
  }

  void establish(std::uint64_t number) {
    const attempt* const a = find_attempt(number);
    if (a == nullptr || transit_.links().between(a->to, a->from).blocked()) return;
    if (transit_.is_full(a->to) || transit_.is_full(a->from)) return;  // nobody accepts it
    const auto& listeners = at(a->to).listeners;
    const auto listener = listeners.find(a->port);
    if (listener == listeners.end()) {
      return conclude(number, fail(errc::unreachable, "", "nobody listens there; is the peer running?"));
    }
    const attempt done = *a;
    forget(number);
    const end_ref end = transit_.connect(done.from, done.owner, done.to, listener->second);
    transit_.dispatch(done.from, [this, done, end] {
      const connection* const c = transit_.find(end);
      if (c != nullptr && c->ends[0].open) done.owner->on_connected(end, done.tag);
    });
  }

  void conclude(std::uint64_t number, const error& why) {
    const attempt* const a = find_attempt(number);
    if (a == nullptr) return;
    const attempt done = *a;
    forget(number);
    transit_.dispatch(done.from, [done, why] { done.owner->on_refused(done.tag, why); });
  }

  void delivered(end_ref e, parcel_ptr message) {
    connection* const c = transit_.find(e);
    if (c == nullptr) return;
    connection::end& end = c->ends[e.side()];
    if (!end.open) return;
    if (message->what == content::goodbye) return end_of(e);
    const flow& f = c->flows[e.other().side()];
    if (transit_.happens(f.there->chance_of(mishap::damage))) return give_up(e, "a message was damaged on its way");
    if (transit_.happens(at(f.to).no_memory)) return give_up(e, "no memory is left for its message");
    if (message->what == content::data && transit_.happens(f.there->chance_of(mishap::alter))) alter(message->bytes);
    end.owner->on_message(e, std::move(message));
  }

  /// The smallest change of the last value, whatever its type.
  static void alter(std::vector<std::byte>& bytes) {
    if (!bytes.empty()) bytes[bytes.size() - std::min<std::size_t>(bytes.size(), 4)] ^= std::byte{1};
  }

  /// The side `e` ends its connection and is told why; the other hears of it.
  void give_up(end_ref e, const std::string& why) {
    connection* const c = transit_.find(e);
    if (c == nullptr || !c->ends[e.side()].open) return;
    socket_owner* const owner = c->ends[e.side()].owner;
    close(e, why, false);
    owner->on_closed(e, fail(errc::peer_lost, "", why));
  }

  /// The side `e` has ended a connection; the news goes its way.
  void tell_other_side(const connection& c, end_ref e, duration extra) {
    const flow& f = c.flows[e.side()];
    events_.after(extra + transit_.flight_time(*f.there), {event_kind::reset, f.to, c.generation}, [this, e] {
      connection* const found = transit_.find(e);
      if (found == nullptr || found->flows[e.side()].there->blocked()) return;  // unblock tells it again
      transit_.dispatch(found->flows[e.side()].to, [this, e] { end_of(e.other()); });
    });
  }

  /// The end `e` learns that its connection is over.
  void end_of(end_ref e) {
    connection* const c = transit_.find(e);
    if (c == nullptr || !c->ends[e.side()].open) return;
    c->ends[e.side()].open = false;
    c->broken = true;
    transit_.clear(*c);
    socket_owner* const owner = c->ends[e.side()].owner;
    const error why = fail(errc::peer_lost, "", c->why.empty() ? "the other side closed the connection" : c->why);
    transit_.free_if_over(e);
    owner->on_closed(e, why);
  }

  const world_options& options_;
  scheduler& events_;
  transit transit_;
  std::map<std::string, host_index> by_name_;
  std::map<std::uint64_t, attempt> attempts_;
  std::uint64_t last_attempt_ = 0;
};

}  // namespace causeway::inline CAUSEWAY_ABI::sim::detail

#endif  // CAUSEWAY_SIM_NETWORK_HPP
