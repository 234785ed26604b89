// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_IMPL_TRANSIT_IPP
#define CAUSEWAY_SIM_IMPL_TRANSIT_IPP

#include <causeway/sim/transit.hpp>

#include <algorithm>
#include <cmath>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

CAUSEWAY_DECL machine::machine(std::shared_ptr<const time_point> now) : clock{std::move(now)} {}

CAUSEWAY_DECL transit::transit(const world_options& options, scheduler& events)
    : options_{options}, events_{events}, links_{options.link}, random_{options.seed, mix(0x6E65740000ULL)} {}

CAUSEWAY_DECL void transit::add_host(const host_options& options) {
  machines_.emplace_back(events_.shared_now()).options = options;
  links_.add_host(options.region);
}

CAUSEWAY_DECL connection* transit::find(end_ref e) {
  if (e.slot() >= connections_.size()) return nullptr;
  connection& c = connections_[e.slot()];
  return c.used && c.generation == e.generation() ? &c : nullptr;
}

CAUSEWAY_DECL end_ref transit::connect(host_index from, socket_owner* dialer, host_index to, socket_owner* listener) {
  const std::uint32_t slot = free_slot();
  connection& c = connections_[slot];
  c.used = true;
  c.ends = {connection::end{dialer, true}, connection::end{listener, true}};
  for (const unsigned side : {0U, 1U}) {
    flow& f = c.flows[side];
    f.from = side == 0 ? from : to;
    f.to = side == 0 ? to : from;
    f.there = &links_.between(f.from, f.to);
    f.back = &links_.between(f.to, f.from);
  }
  const end_ref end = end_ref::make(slot, c.generation, 0);
  enter(machines_[from], end);
  enter(machines_[to], end.other());
  return end;
}

CAUSEWAY_INLINE void transit::free_if_over(end_ref e) {
  connection* const c = find(e);
  if (c == nullptr || c->ends[0].open || c->ends[1].open) return;
  const std::uint32_t generation = (c->generation + 1) & 0x7FFFFFFFU;
  *c = connection{};
  c->generation = generation;
  free_.push_back(e.slot());
}

CAUSEWAY_DECL void transit::clear(connection& c) {
  for (flow& f : c.flows) {
    for (auto& q : f.waiting) q.clear();
    for (auto* const q : {&f.wire, &f.held, &f.arriving, &f.unread}) q->clear();
  }
}

CAUSEWAY_DECL void transit::lose_data(connection& c) {
  for (flow& f : c.flows) {
    f.waiting[static_cast<std::size_t>(lane::data)].clear();
    f.waiting[static_cast<std::size_t>(lane::bulk)].clear();
    for (auto* const q : {&f.wire, &f.held, &f.arriving, &f.unread}) {
      q->erase_if([](piece& p) {
        if (p.last && p.last->way != lane::control) p.last.reset();
        return false;
      });
    }
  }
}

CAUSEWAY_DECL duration transit::up_to(duration most) {
  return duration{static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(most.count()) + 1))};
}

CAUSEWAY_DECL std::size_t transit::connections_of(host_index host) {
  std::size_t open = 0;
  for (const end_ref e : machines_[host].ends) {
    const connection* const c = find(e);
    if (c != nullptr && c->ends[e.side()].open) ++open;
  }
  return open;
}

CAUSEWAY_DECL bool transit::is_full(host_index host) {
  const std::uint64_t most = machines_[host].most_connections;
  return most != 0 && connections_of(host) >= most;
}

CAUSEWAY_DECL void transit::send(end_ref e, sent_message_ptr message) {
  connection* const c = find(e);
  if (c == nullptr || c->broken) return;
  flow& f = c->flows[e.side()];
  message->wire_bytes = message->bytes.size() + options_.header_bytes;
  f.waiting[static_cast<std::size_t>(message->way)].push(std::move(message));
  pump(f, e);
}

CAUSEWAY_DECL void transit::abort(end_ref e, std::uint32_t operation) {
  connection* const c = find(e);
  if (c == nullptr) return;
  for (auto& q : c->flows[e.side()].waiting) {
    q.erase_if([&](sent_message_ptr& p) {
      if (p->operation != operation) return false;
      if (p->sent == 0) return true;
      p->aborted = true;
      p->operation = UINT32_MAX;
      p->bytes.clear();
      p->wire_bytes = p->sent + options_.header_bytes;
      return false;
    });
  }
}

CAUSEWAY_DECL void transit::pause(end_ref e, bool yes) {
  connection* const c = find(e);
  if (c == nullptr || c->broken) return;
  flow& f = c->flows[e.other().side()];
  if (std::exchange(f.paused, yes) && !yes) pump(f, e.other());
}

CAUSEWAY_DECL void transit::freeze(host_index host, standstill why) {
  machine& m = machines_[host];
  if (std::exchange(m.frozen, m.frozen | why) == 0) m.frozen_since = events_.now();
}

CAUSEWAY_DECL void transit::thaw(host_index host, unsigned causes) {
  machine& m = machines_[host];
  if (m.frozen == 0) return;
  m.frozen = static_cast<std::uint8_t>(m.frozen & ~causes);
  if (m.frozen != 0) return;
  m.frozen_total += events_.now() - m.frozen_since;
  while (m.frozen == 0 && !m.backlog.empty()) {
    const auto next = std::move(m.backlog.front());
    m.backlog.pop_front();
    next();
  }
}

CAUSEWAY_DECL void transit::healed(host_index from, host_index to, duration black) {
  const link& mended = links_.between(from, to);
  for_each_end(from, [&](connection& c, end_ref ours) {
    for (const end_ref e : {ours, ours.other()}) {
      flow& f = c.flows[e.side()];
      const bool waits = f.there == &mended && !f.held.empty() && !f.releasing;
      const bool unheard = f.back == &mended && f.unacknowledged != 0;
      if (waits) f.releasing = true;
      if (!waits && !unheard) continue;
      events_.after(retry_delay(black), {event_kind::heal, f.to, f.held.size()}, [this, e] { release(e); });
    }
  });
}

CAUSEWAY_DECL duration transit::retry_delay(duration black) {
  const duration longest = std::min<duration>(black, std::chrono::seconds{1});
  return duration{static_cast<std::int64_t>(static_cast<double>(longest.count()) * static_cast<double>(random_.uniform()))};
}

CAUSEWAY_DECL duration transit::flight_time(const link& l) {
  duration t = l.options.latency;
  if (l.options.jitter.count() > 0) {
    t += duration{static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(l.options.jitter.count()) + 1))};
  }
  return t;
}

CAUSEWAY_DECL void transit::enter(machine& m, end_ref e) {
  m.ends.push_back(e);
  if (m.ends.size() < m.tidy_ends_at) return;
  tidy(m);
  m.tidy_ends_at = 2 * m.ends.size() + 16;
}

CAUSEWAY_DECL void transit::tidy(machine& m) {
  std::erase_if(m.ends, [this](end_ref e) { return find(e) == nullptr; });
}

CAUSEWAY_DECL std::uint32_t transit::free_slot() {
  if (free_.empty()) {
    connections_.emplace_back();
    return static_cast<std::uint32_t>(connections_.size() - 1);
  }
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  return slot;
}

CAUSEWAY_DECL queue<sent_message_ptr>* transit::next_lane(flow& f) {
  for (std::size_t l = 0; l < (f.paused ? 1 : lanes); ++l) {
    if (!f.waiting[l].empty()) return &f.waiting[l];
  }
  return nullptr;
}

CAUSEWAY_DECL void transit::refresh(flow& f) {
  if (f.version == links_.version()) return;
  f.version = links_.version();
  f.cap = connection_cap(*f.there, *f.back);
  const double rate = std::min({machines_[f.from].options.up_bytes_per_s, machines_[f.to].options.down_bytes_per_s, f.cap});
  const double rtt = seconds(round_trip(*f.there, *f.back) + f.there->options.jitter + f.back->options.jitter);
  const double window = 2 * rate * rtt + 4 * static_cast<double>(options_.piece_bytes);
  f.window = window < 1e18 ? static_cast<std::uint64_t>(window) : UINT64_MAX;
}

CAUSEWAY_DECL void transit::pump(flow& f, end_ref e) {
  if (enqueue(f, e)) serve(f.from);
}

CAUSEWAY_DECL bool transit::enqueue(flow& f, end_ref e) {
  if (f.now != flow::state::idle || next_lane(f) == nullptr) return false;
  refresh(f);
  if (f.outstanding >= f.window) return false;  // an acknowledgement will go on
  machine& m = machines_[f.from];
  if (f.next_start > std::max(events_.now(), m.up_free)) {
    f.now = flow::state::paced;
    events_.at(f.next_start, {event_kind::pace, f.from, f.outstanding}, [this, e] { go_on(e); });
    return false;
  }
  f.now = flow::state::ready;
  f.next_start = std::max(f.next_start, events_.now());
  m.ready.push(e);
  return true;
}

CAUSEWAY_DECL void transit::go_on(end_ref e) {
  connection* const c = find(e);
  if (c == nullptr) return;
  flow& f = c->flows[e.side()];
  f.now = flow::state::idle;
  pump(f, e);
}

CAUSEWAY_DECL void transit::serve(host_index host) {
  machine& m = machines_[host];
  while (!m.ready.empty()) {
    if (events_.now() < m.up_free) {
      if (std::exchange(m.serving, true)) return;
      events_.at(m.up_free, {event_kind::uplink, host, m.ready.size()}, [this, host] {
        machines_[host].serving = false;
        serve(host);
      });
      return;
    }
    const end_ref e = m.ready.pop();
    connection* const c = find(e);
    if (c == nullptr) continue;
    flow& f = c->flows[e.side()];
    f.now = flow::state::idle;
    if (next_lane(f) != nullptr) transmit(*c, f, e);
    enqueue(f, e);
  }
}

CAUSEWAY_DECL void transit::transmit(connection& c, flow& f, end_ref e) {
  queue<sent_message_ptr>& from = *next_lane(f);
  sent_message& message = *from.front();
  // On a slow line a piece is what it carries in a quarter of a second, so that news can pass between pieces.
  const double quick = std::min(static_cast<double>(options_.piece_bytes), std::max(1.0, f.cap / 4));
  const std::uint64_t bytes = std::min(static_cast<std::uint64_t>(quick), message.wire_bytes - message.sent);
  message.sent += bytes;

  machine& m = machines_[f.from];
  const auto size = static_cast<double>(bytes);
  const duration up = transfer_time(size, m.options.up_bytes_per_s);
  // By its own rate a piece is over at `next_start`, also if the uplink made it wait.
  f.next_start = f.next_start + transfer_time(size, f.cap);
  const duration spread = std::max(up, f.next_start - events_.now());
  m.up_free = events_.now() + up;
  f.last_arrival = std::max(events_.now() + flight_time(*f.there) + loss_delay(f, bytes), f.last_arrival);
  f.outstanding += bytes;
  piece p{bytes, spread, nullptr};
  if (message.sent == message.wire_bytes) p.last = from.pop();
  const std::uint32_t operation = p.last ? p.last->operation : UINT32_MAX;
  f.wire.push(std::move(p));
  events_.at(f.last_arrival, {event_kind::arrive, f.to, bytes}, [this, e] { arrive(e); });
  const connection::end& sender = c.ends[e.side()];
  if (operation != UINT32_MAX && sender.open) sender.owner->on_sent(e, operation);
}

CAUSEWAY_DECL duration transit::loss_delay(const flow& f, std::uint64_t bytes) {
  const double loss = f.there->options.loss;
  if (loss <= 0) return duration{0};
  const auto packets = static_cast<double>((bytes + 1459) / 1460);
  duration retry = std::max<duration>(round_trip(*f.there, *f.back), std::chrono::milliseconds{10});
  duration delay{0};
  for (double chance = 1 - std::pow(1 - loss, packets); static_cast<double>(random_.uniform()) < chance; chance = loss) {
    delay += retry;
    retry *= 2;
    if (delay > std::chrono::minutes{1}) break;
  }
  return delay;
}

CAUSEWAY_DECL void transit::arrive(end_ref e) {
  connection* const c = find(e);
  if (c == nullptr || c->broken) return;
  flow& f = c->flows[e.side()];
  if (f.wire.empty()) return;  // the host lost power meanwhile
  piece p = f.wire.pop();
  if (c->silent) return;
  if (f.there->blocked() || !f.held.empty()) return f.held.push(std::move(p));
  enter_downlink(f, e, std::move(p));
}

CAUSEWAY_DECL void transit::enter_downlink(flow& f, end_ref e, piece p) {
  machine& m = machines_[f.to];
  const time_point begin = std::max(events_.now(), m.down_free);
  m.down_free = begin + transfer_time(static_cast<double>(p.bytes), m.options.down_bytes_per_s);
  f.last_delivery = std::max({m.down_free, events_.now() + p.spread, f.last_delivery});
  const std::uint64_t bytes = p.bytes;
  f.arriving.push(std::move(p));
  events_.at(f.last_delivery, {event_kind::deliver, f.to, bytes}, [this, e] { deliver(e); });
}

CAUSEWAY_DECL void transit::release(end_ref e) {
  connection* const c = find(e);
  if (c == nullptr || c->broken) return;
  flow& f = c->flows[e.side()];
  f.releasing = false;
  while (!f.there->blocked() && !f.held.empty()) enter_downlink(f, e, f.held.pop());
  if (!machines_[f.to].frozen) acknowledge(f, e, std::exchange(f.unacknowledged, 0));
}

CAUSEWAY_DECL void transit::deliver(end_ref e) {
  connection* const c = find(e);
  if (c == nullptr || c->broken) return;
  flow& f = c->flows[e.side()];
  if (f.arriving.empty()) return;
  piece p = f.arriving.pop();
  if (!machines_[f.to].frozen) return take(f, e, std::move(p));
  f.unread_bytes += p.bytes;
  if (f.unread_bytes + std::min<std::uint64_t>(f.window, options_.socket_buffer) > options_.socket_buffer) {
    f.unacknowledged += p.bytes;
  } else {
    acknowledge(f, e, p.bytes);
  }
  p.bytes = 0;
  f.unread.push(std::move(p));
  machines_[f.to].backlog.emplace_back([this, e] { read(e); });
}

CAUSEWAY_DECL void transit::read(end_ref e) {
  connection* const c = find(e);
  if (c == nullptr || c->broken) return;
  flow& f = c->flows[e.side()];
  if (f.unread.empty()) return;
  f.unread_bytes = 0;
  piece p = f.unread.pop();
  p.bytes += std::exchange(f.unacknowledged, 0);
  take(f, e, std::move(p));
}

CAUSEWAY_DECL void transit::take(flow& f, end_ref e, piece p) {
  acknowledge(f, e, p.bytes);
  if (p.last) on_delivery(e.other(), std::move(p.last));
}

CAUSEWAY_DECL void transit::acknowledge(flow& f, end_ref e, std::uint64_t bytes) {
  if (f.back->blocked()) {
    f.unacknowledged += bytes;
    return;
  }
  f.outstanding -= bytes;
  if (f.now != flow::state::idle || f.outstanding >= f.window || next_lane(f) == nullptr) return;
  f.now = flow::state::paced;
  events_.after(f.back->options.latency, {event_kind::pace, f.from, f.outstanding}, [this, e] { go_on(e); });
}

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

#endif  // CAUSEWAY_SIM_IMPL_TRANSIT_IPP
