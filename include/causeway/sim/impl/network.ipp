// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_IMPL_NETWORK_IPP
#define CAUSEWAY_SIM_IMPL_NETWORK_IPP

#include <causeway/sim/network.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

CAUSEWAY_DECL network::network(const world_options& options, scheduler& events)
    : options_{options}, events_{events}, transit_{options, events} {
  transit_.on_delivery = [this](end_ref e, sent_message_ptr message) { delivered(e, std::move(message)); };
}

CAUSEWAY_DECL void network::listen(host_index host, std::uint32_t port, socket_owner* owner) {
  at(host).listeners[port] = owner;
}

CAUSEWAY_DECL void network::add_host(const host_options& options) {
  by_name_[options.name] = transit_.hosts();
  transit_.add_host(options);
}

CAUSEWAY_DECL host_index network::host_called(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? no_host : found->second;
}

CAUSEWAY_DECL std::uint64_t network::dial(host_index from, socket_owner* owner, std::uint64_t tag, host_index to,
                                          std::uint32_t port) {
  const std::uint64_t number = ++last_attempt_;
  attempt& a = attempts_[number];
  a = {owner, tag, from, to, port};
  const duration range = options_.connect_delay_max - options_.connect_delay_min;
  const auto extra =
      transit_.random().below(static_cast<std::uint64_t>(std::max<duration>(range, duration{0}).count()) + 1);
  const auto give_up = [this, number] {
    conclude(number, fail(errc::unreachable, "", "nobody answered in time; is it running, and can this network reach it?"));
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

CAUSEWAY_DECL void network::send(end_ref e, sent_message_ptr message) {
  const connection* const c = transit_.find(e);
  if (c != nullptr && c->ends[e.side()].open) transit_.send(e, std::move(message));
}

CAUSEWAY_DECL void network::close(end_ref e, const std::string& why, bool with_goodbye) {
  connection* const c = transit_.find(e);
  if (c == nullptr || !c->ends[e.side()].open) return;
  c->ends[e.side()].open = false;
  if (!c->broken && !c->silent && c->ends[e.other().side()].open) {
    c->why = why;
    if (with_goodbye) {
      transit_.send(e, transit_.pool().make(content::goodbye, lane::bulk));
    } else {
      c->broken = true;
      transit_.clear(*c);
      tell_other_side(*c, e, duration{0});
    }
  }
  transit_.free_if_over(e);
}

CAUSEWAY_DECL void network::drop(const socket_owner* owner, host_index host, const std::string& why, bool with_goodbye) {
  for (auto at = attempts_.begin(); at != attempts_.end();) {
    const auto here = at++;
    if (here->second.owner == owner) forget(here->first);
  }
  std::erase_if(at(host).listeners, [&](const auto& l) { return l.second == owner; });
  transit_.for_each_end(host, [&](connection& c, end_ref e) {
    if (c.ends[e.side()].owner == owner) close(e, why, with_goodbye);
  });
}

CAUSEWAY_DECL bool network::far_end_open(end_ref e) {
  connection* const c = transit_.find(e);
  return c != nullptr && !c->broken && !c->silent && c->ends[e.other().side()].open;
}

CAUSEWAY_DECL void network::block(host_index from, host_index to) {
  link& l = transit_.links().between(from, to);
  if (l.blocks++ == 0) l.blocked_since = events_.now();
}

CAUSEWAY_DECL void network::unblock(host_index from, host_index to) {
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

CAUSEWAY_DECL void network::lose_stream(host_index a, host_index b) {
  transit_.for_each_end(a, [&](connection& c, end_ref e) {
    if (c.flows[e.side()].to != b || c.broken || c.silent) return;
    transit_.lose_data(c);
    const flow& f = c.flows[e.side()];
    events_.after(transit_.flight_time(*f.there) + transit_.flight_time(*f.back), {event_kind::reset, a, b},
                  [this, a, e] { transit_.dispatch(a, [this, e] { give_up(e, "one of its streams has ended"); }); });
  });
}

CAUSEWAY_DECL bool network::befalls(mishap what, end_ref e) {
  const connection* const c = transit_.find(e);
  return c != nullptr && transit_.happens(c->flows[e.other().side()].there->chance_of(what));
}

CAUSEWAY_DECL std::uint64_t network::far_process(end_ref e) {
  const connection* const c = transit_.find(e);
  if (c == nullptr || c->broken || c->silent || !c->ends[e.other().side()].open) return 0;
  const host_index host = c->flows[e.side()].to;
  return std::uint64_t{host} << 32U | at(host).boots;
}

CAUSEWAY_DECL void network::power_off(host_index host) {
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

CAUSEWAY_DECL void network::power_on(host_index host) {
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

CAUSEWAY_DECL void network::forget(std::uint64_t number) {
  const auto found = attempts_.find(number);
  if (found == attempts_.end()) return;
  events_.cancel(found->second.deadline);
  events_.cancel(found->second.retry);
  attempts_.erase(found);
}

CAUSEWAY_DECL auto network::find_attempt(std::uint64_t number) -> attempt* {
  const auto found = attempts_.find(number);
  return found == attempts_.end() ? nullptr : &found->second;
}

CAUSEWAY_DECL void network::knock(std::uint64_t number, duration extra) {
  attempt* const a = find_attempt(number);
  if (a == nullptr) return;
  const link& there = transit_.links().between(a->from, a->to);
  events_.after(extra + transit_.flight_time(there), {event_kind::connect, a->to, number},
                [this, number] { answer(number); });
  const duration retry = std::chrono::seconds{1} * (1U << a->tries++);
  if (retry < options_.connect_timeout) {
    a->retry = events_.after(retry, {event_kind::connect, a->from, number}, [this, number] { knock(number, duration{0}); });
  }
}

CAUSEWAY_DECL void network::answer(std::uint64_t number) {
  const attempt* const a = find_attempt(number);
  if (a == nullptr || transit_.links().between(a->from, a->to).blocked() || !at(a->to).powered) return;
  const link& back = transit_.links().between(a->to, a->from);
  events_.after(transit_.flight_time(back), {event_kind::connect, a->from, number}, [this, number] { establish(number); });
}

CAUSEWAY_DECL void network::establish(std::uint64_t number) {
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

CAUSEWAY_DECL void network::conclude(std::uint64_t number, const error& why) {
  const attempt* const a = find_attempt(number);
  if (a == nullptr) return;
  const attempt done = *a;
  forget(number);
  transit_.dispatch(done.from, [done, why] { done.owner->on_refused(done.tag, why); });
}

CAUSEWAY_DECL void network::delivered(end_ref e, sent_message_ptr message) {
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

CAUSEWAY_DECL void network::alter(std::vector<std::byte>& bytes) {
  if (!bytes.empty()) bytes[bytes.size() - std::min<std::size_t>(bytes.size(), 4)] ^= std::byte{1};
}

CAUSEWAY_DECL void network::give_up(end_ref e, const std::string& why) {
  connection* const c = transit_.find(e);
  if (c == nullptr || !c->ends[e.side()].open) return;
  socket_owner* const owner = c->ends[e.side()].owner;
  close(e, why, false);
  owner->on_closed(e, fail(errc::peer_lost, "", why));
}

CAUSEWAY_DECL void network::tell_other_side(const connection& c, end_ref e, duration extra) {
  const flow& f = c.flows[e.side()];
  events_.after(extra + transit_.flight_time(*f.there), {event_kind::reset, f.to, c.generation}, [this, e] {
    connection* const found = transit_.find(e);
    if (found == nullptr || found->flows[e.side()].there->blocked()) return;  // unblock tells it again
    transit_.dispatch(found->flows[e.side()].to, [this, e] { end_of(e.other()); });
  });
}

CAUSEWAY_DECL void network::end_of(end_ref e) {
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

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

#endif  // CAUSEWAY_SIM_IMPL_NETWORK_IPP
