// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_MEMORY_TRANSPORT_IPP
#define CAUSEWAY_NET_IMPL_MEMORY_TRANSPORT_IPP

#include <causeway/net/memory_transport.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL void memory_hub::pending::end(result<std::size_t> outcome) { done.emplace(std::move(outcome)); }

CAUSEWAY_DECL memory_hub::memory_hub(std::uint32_t peers, memory_options options)
    : options_{std::move(options)}, peers_(peers) {}

CAUSEWAY_DECL operation memory_hub::start(peer_index self, peer_index other, const message_id& id,
                                          std::span<const std::byte> out, std::span<std::byte> in, bool is_send) {
  const std::lock_guard lock{mutex_};
  peer_state& me = peers_[self];
  if (peer_index{self} == other || other >= size()) return refuse(me, other, "no such peer, or the peer itself");
  const fault* planned = planned_fault(me);
  ++me.operations;
  if (planned != nullptr && planned->what == effect::kill) lose(self);
  pending op{++me.last, other, id, out, in, is_send};
  if (!me.alive) {
    op.end(fail(errc::peer_lost, name(self), "this peer was stopped; restart it to go on"));
  } else if (planned != nullptr) {
    op.end(fail(planned->code, name(other), "failed on request of the test"));
  }
  me.started.push_back(std::move(op));
  if (is_send) begin_send(self, me.started.back());
  if (!is_send) begin_receive(self, me.started.back());
  return me.last;
}

CAUSEWAY_DECL result<std::size_t> memory_hub::wait(peer_index self, operation wanted, time_point deadline) {
  std::unique_lock lock{mutex_};
  peer_state& me = peers_[self];
  for (;;) {
    const auto op = std::find_if(me.started.begin(), me.started.end(), [&](auto& p) { return p.number == wanted; });
    if (op == me.started.end()) {
      return fail(errc::invalid_argument, name(self), "waited for an operation that is not under way");
    }
    if (op->done) {
      result<std::size_t> outcome = std::move(*op->done);
      me.started.erase(op);
      return outcome;
    }
    const time_point now = options_.clock.now();
    if (now >= deadline) {
      const peer_index other = op->other;
      me.started.erase(op);
      return fail(errc::timeout, name(other), "no answer before the deadline; raise it or look at that peer");
    }
    look_again_later(lock, me, deadline - now);
  }
}

// The clock may be a virtual one that nobody tells us about: look at it again after a moment.
CAUSEWAY_DECL void memory_hub::look_again_later(std::unique_lock<std::mutex>& lock, peer_state& me, duration most) {
  me.changed.wait_for(lock, std::min<duration>(most, std::chrono::milliseconds{2}));
}

CAUSEWAY_DECL bool memory_hub::ended(const peer_state& me, operation wanted) {
  const auto op = std::find_if(me.started.begin(), me.started.end(), [&](auto& p) { return p.number == wanted; });
  return op == me.started.end() || op->done.has_value();
}

CAUSEWAY_DECL bool memory_hub::done(peer_index self, operation wanted) const {
  const std::lock_guard lock{mutex_};
  return ended(peers_[self], wanted);
}

CAUSEWAY_DECL bool memory_hub::wait_any(peer_index self, std::span<const operation> wanted, time_point deadline) {
  std::unique_lock lock{mutex_};
  peer_state& me = peers_[self];
  for (;;) {
    if (std::any_of(wanted.begin(), wanted.end(), [&](operation op) { return ended(me, op); })) return true;
    const time_point now = options_.clock.now();
    if (now >= deadline) return false;
    look_again_later(lock, me, deadline - now);
  }
}

CAUSEWAY_DECL void memory_hub::lost(peer_index peer) {
  const std::lock_guard lock{mutex_};
  lose(peer);
}

CAUSEWAY_DECL void memory_hub::join(peer_index peer) {
  const std::lock_guard lock{mutex_};
  peer_state& s = peers_[peer];
  CAUSEWAY_EXPECT(!s.taken);
  if (!s.alive) {  // a restart
    s.kept.clear();
    s.kept_size = 0;
    s.started.clear();
    s.operations = 0;
  }
  s.alive = s.taken = true;
}

CAUSEWAY_DECL void memory_hub::leave(peer_index peer) {
  const std::lock_guard lock{mutex_};
  lose(peer);
  peers_[peer].started.clear();
  peers_[peer].taken = false;
}

CAUSEWAY_DECL traffic memory_hub::stats(peer_index self) const {
  const std::lock_guard lock{mutex_};
  return peers_[self].counters;
}

CAUSEWAY_DECL std::uint64_t memory_hub::operations(peer_index peer) const {
  const std::lock_guard lock{mutex_};
  return peers_[peer].operations;
}

CAUSEWAY_DECL void memory_hub::plan(peer_index peer, std::uint64_t nth, effect what, errc code) {
  const std::lock_guard lock{mutex_};
  peers_[peer].faults.push_back({nth, what, code});
}

CAUSEWAY_DECL bool memory_hub::matches(const message_id& a, const message_id& b) {
  return a.channel == b.channel && a.epoch == b.epoch && a.step == b.step;
}

CAUSEWAY_DECL auto memory_hub::planned_fault(const peer_state& s) -> const fault* {
  for (const fault& f : s.faults) {
    if (f.nth == s.operations) return &f;
  }
  return nullptr;
}

CAUSEWAY_DECL operation memory_hub::refuse(peer_state& me, peer_index other, const char* why) {
  pending op{++me.last, other, {}, {}, {}, false};
  op.end(fail(errc::invalid_argument, name(other), why));
  me.started.push_back(std::move(op));
  return me.last;
}

CAUSEWAY_DECL void memory_hub::begin_send(peer_index self, pending& op) {
  if (!op.open()) return;
  peer_state& to = peers_[op.other];
  if (!to.alive) return op.end(fail(errc::peer_lost, name(op.other), "the connection to it has ended"));
  for (pending& r : to.started) {
    if (r.is_send || !r.open() || r.other != self || !matches(r.id, op.id)) continue;
    deliver(self, op.id, op.out, op.other, r);
    count_sent(self, op.out.size());
    op.end(op.out.size());
    return;
  }
  keep_if_room(self, op);
}

CAUSEWAY_DECL void memory_hub::begin_receive(peer_index self, pending& op) {
  if (!op.open()) return;
  peer_state& me = peers_[self];
  const auto kept = std::find_if(me.kept.begin(), me.kept.end(),
                                 [&](const message& m) { return m.from == op.other && matches(m.id, op.id); });
  if (kept != me.kept.end()) {
    deliver(kept->from, kept->id, kept->bytes, self, op);
    me.kept_size -= kept->bytes.size();
    me.kept.erase(kept);
    admit_senders(self);
    return;
  }
  for (pending& s : peers_[op.other].started) {  // senders that found no room
    if (!s.is_send || !s.open() || s.other != self || !matches(s.id, op.id)) continue;
    deliver(op.other, s.id, s.out, self, op);
    count_sent(op.other, s.out.size());
    s.end(s.out.size());
    peers_[op.other].changed.notify_all();
    return;
  }
  if (!peers_[op.other].alive) op.end(fail(errc::peer_lost, name(op.other), "the connection to it has ended"));
}

CAUSEWAY_DECL void memory_hub::deliver(peer_index from, const message_id& id, std::span<const std::byte> bytes,
                                       peer_index to, pending& receive) {
  count_received(to, bytes.size());
  peers_[to].changed.notify_all();
  if (id.parent != receive.id.parent) {
    ++peers_[to].counters.frames_rejected;
    return receive.end(fail(errc::wrong_parent, name(from), "its message is based on another committed state than ours"));
  }
  if (bytes.size() > receive.in.size()) {
    ++peers_[to].counters.frames_rejected;
    return receive.end(fail(errc::too_large, name(from),
                            "it sent " + std::to_string(bytes.size()) + " bytes where at most " +
                                std::to_string(receive.in.size()) + " are expected"));
  }
  if (!bytes.empty()) std::memcpy(receive.in.data(), bytes.data(), bytes.size());
  receive.end(bytes.size());
}

CAUSEWAY_DECL void memory_hub::keep_if_room(peer_index self, pending& op) {
  peer_state& to = peers_[op.other];
  if (to.kept_size + op.out.size() > options_.kept_bytes) return;
  for (const pending& s : peers_[self].started) {  // must not overtake an earlier send that waits for room
    if (s.number < op.number && s.is_send && s.open() && s.other == op.other && matches(s.id, op.id)) return;
  }
  to.kept.push_back({self, op.id, {op.out.begin(), op.out.end()}});
  to.kept_size += op.out.size();
  count_sent(self, op.out.size());
  op.end(op.out.size());
  peers_[self].changed.notify_all();
}

CAUSEWAY_DECL void memory_hub::admit_senders(peer_index receiver) {
  for (peer_index p = 0; p < size(); ++p) {
    for (pending& s : peers_[p].started) {
      if (s.is_send && s.open() && s.other == receiver) keep_if_room(p, s);
    }
  }
}

CAUSEWAY_DECL void memory_hub::count_sent(peer_index from, std::size_t payload) {
  peers_[from].counters.bytes_sent += payload + options_.header_bytes;
  ++peers_[from].counters.frames_sent;
}

CAUSEWAY_DECL void memory_hub::count_received(peer_index to, std::size_t payload) {
  peers_[to].counters.bytes_received += payload + options_.header_bytes;
  ++peers_[to].counters.frames_received;
}

CAUSEWAY_DECL void memory_hub::lose(peer_index peer) {
  peers_[peer].alive = false;
  for (peer_index p = 0; p < size(); ++p) {
    for (pending& op : peers_[p].started) {
      if (op.done || (p != peer && op.other != peer)) continue;
      const peer_index gone = p == peer ? p : op.other;
      op.end(fail(errc::peer_lost, name(gone), "the connection to it has ended"));
    }
    peers_[p].changed.notify_all();
  }
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

CAUSEWAY_DECL memory_transport::memory_transport(std::shared_ptr<detail::memory_hub> hub, peer_index self)
    : hub_{std::move(hub)}, self_{self} {
  hub_->join(self_);
}

CAUSEWAY_INLINE memory_transport& memory_transport::operator=(memory_transport&& other) noexcept {
  std::swap(hub_, other.hub_);
  std::swap(self_, other.self_);
  return *this;
}

CAUSEWAY_INLINE memory_transport::~memory_transport() {
  if (hub_) hub_->leave(self_);
}

CAUSEWAY_DECL operation memory_transport::send(peer_index to, const message_id& id, std::span<const std::byte> bytes) {
  return hub_->start(self_, to, id, bytes, {}, true);
}

CAUSEWAY_DECL operation memory_transport::receive(peer_index from, const message_id& id, std::span<std::byte> buffer) {
  return hub_->start(self_, from, id, {}, buffer, false);
}

CAUSEWAY_DECL memory_network::memory_network(std::uint32_t peers, memory_options options)
    : hub_{std::make_shared<detail::memory_hub>(peers, std::move(options))} {}

CAUSEWAY_DECL memory_transport memory_network::transport(peer_index peer) const { return {hub_, peer}; }

CAUSEWAY_DECL void memory_network::fail_at(peer_index peer, std::uint64_t nth, errc code) const {
  hub_->plan(peer, nth, detail::memory_hub::effect::fail, code);
}

CAUSEWAY_DECL void memory_network::kill_at(peer_index peer, std::uint64_t nth) const {
  hub_->plan(peer, nth, detail::memory_hub::effect::kill, errc::peer_lost);
}

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_IMPL_MEMORY_TRANSPORT_IPP
