// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_IMPL_WORLD_IPP
#define CAUSEWAY_SIM_IMPL_WORLD_IPP

#include <causeway/sim/world.hpp>

#include <algorithm>
#include <exception>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

CAUSEWAY_DECL world::world(const world_options& options) : core_{options} {}

CAUSEWAY_DECL void world::set_log(world_log log) { core_.log = std::move(log); }

CAUSEWAY_DECL void world::after(duration delay, std::function<void()> what) { at(now() + delay, std::move(what)); }

CAUSEWAY_INLINE world::~world() {
  for (host_index h = 0; h < hosts_.size(); ++h) end_process(h, true);
}

CAUSEWAY_DECL host_index world::add_host(host_options options) {
  const auto host = static_cast<host_index>(hosts_.size());
  if (options.name.empty()) options.name = "host-" + std::to_string(host);
  CAUSEWAY_EXPECT(options.name.find(':') == std::string::npos);
  core_.net.add_host(options);
  hosts_.emplace_back();
  return host;
}

CAUSEWAY_DECL void world::set_region_link(std::uint32_t from, std::uint32_t to, const link_options& options) {
  core_.net.wires().links().set_region(from, to, options);
}

CAUSEWAY_DECL link_options world::link(host_index from, host_index to) {
  return core_.net.wires().links().between(from, to).options;
}

CAUSEWAY_DECL void world::boot(host_index host, program main) {
  hosts_[host].main = std::move(main);
  restart(host);
}

CAUSEWAY_DECL void world::restart(host_index host) {
  soon(host, 1, [this, host] { start(host); });
}

CAUSEWAY_DECL void world::kill(host_index host) {
  soon(host, 2, [this, host] { end_process(host, true); });
}

CAUSEWAY_DECL void world::power_off(host_index host) {
  soon(host, 3, [this, host] {
    core_.net.power_off(host);
    end_process(host, true);
  });
}

CAUSEWAY_DECL void world::ask_to_stop(host_index host) {
  soon(host, 4, [this, host] {
    if (hosts_[host].running) hosts_[host].running->ask_to_stop();
  });
}

CAUSEWAY_DECL void world::stop(host_index host) {
  soon(host, 5, [this, host] { core_.net.wires().freeze(host); });
}

CAUSEWAY_DECL void world::resume(host_index host) {
  soon(host, 6, [this, host] { go_on(host, detail::standstill::stopped); });
}

CAUSEWAY_DECL void world::block(host_index from, host_index to) {
  core_.events.record({event_kind::fault, from, std::uint64_t{to} << 4U | 7U});
  core_.net.block(from, to);
}

CAUSEWAY_DECL void world::unblock(host_index from, host_index to) {
  core_.events.record({event_kind::fault, from, std::uint64_t{to} << 4U | 8U});
  core_.net.unblock(from, to);
}

CAUSEWAY_DECL void world::partition(const host_set& a, const host_set& b, bool one_way) {
  for_pairs(a, b, one_way, [this](host_index from, host_index to) { block(from, to); });
}

CAUSEWAY_DECL void world::heal(const host_set& a, const host_set& b, bool one_way) {
  for_pairs(a, b, one_way, [this](host_index from, host_index to) { unblock(from, to); });
}

CAUSEWAY_DECL void world::heal_all() {
  for (host_index from = 0; from < hosts(); ++from) {
    for (host_index to = 0; to < hosts(); ++to) {
      while (core_.net.blocked(from, to)) unblock(from, to);
    }
  }
}

CAUSEWAY_DECL void world::slow_link(host_index from, host_index to, double bytes_per_s) {
  CAUSEWAY_EXPECT(bytes_per_s > 0);
  core_.events.record({event_kind::fault, from, std::uint64_t{to} << 4U | 9U});
  core_.net.wires().links().slow(from, to, bytes_per_s);
}

CAUSEWAY_DECL void world::set_mishap(host_index from, host_index to, mishap what, double chance) {
  core_.events.record({event_kind::fault, from, std::uint64_t{to} << 4U | 10U});
  core_.net.wires().links().between(from, to).chances[static_cast<std::size_t>(what)] = chance;
}

CAUSEWAY_DECL void world::lose_stream(host_index a, host_index b) {
  core_.events.record({event_kind::fault, a, std::uint64_t{b} << 4U | 11U});
  core_.net.lose_stream(a, b);
}

CAUSEWAY_DECL void world::set_clock_rate(host_index host, double rate) {
  change_clock(host, 12, [rate](host_clock& c) { c.set_rate(rate); });
}

CAUSEWAY_DECL void world::jump_clock(host_index host, duration forward) {
  change_clock(host, 13, [forward](host_clock& c) { c.jump(forward); });
}

CAUSEWAY_DECL void world::limit_connections(host_index host, std::uint64_t most) {
  core_.events.record({event_kind::fault, host, 14});
  core_.net.at(host).most_connections = most;
}

CAUSEWAY_DECL void world::wait_for_disk(host_index host, duration d) {
  detail::machine& m = core_.net.at(host);
  if (m.aside != nullptr) {
    *m.aside += d;
    return;
  }
  process* const caller = core_.running != nullptr && core_.running->host() == host ? core_.running : nullptr;
  if (caller == nullptr) return hold_up(host, d);
  if (m.locks != 0) core_.net.wires().freeze(host, detail::standstill::disk_held);  // until it gives the lock back
  caller->sleep_world(d);
}

CAUSEWAY_DECL void world::set_no_memory(host_index host, double chance) {
  core_.events.record({event_kind::fault, host, 15});
  core_.net.at(host).no_memory = chance;
}

CAUSEWAY_DECL void world::at(time_point when, std::function<void()> what) {
  core_.events.at(when, {event_kind::script, no_host, 0}, std::move(what));
}

CAUSEWAY_DECL bool world::run_until(time_point end) {
  ended_ = false;
  run_ready();
  while (!ended_ && core_.events.next_time() <= end) step();
  if (!ended_) core_.events.advance_to(end);
  return !core_.events.empty();
}

CAUSEWAY_DECL bool world::run() {
  ended_ = false;
  run_ready();
  while (!ended_ && !core_.events.empty()) step();
  for (const host_state& s : hosts_) {
    if (s.running) return false;
  }
  return true;
}

CAUSEWAY_DECL void world::go_on(host_index host, unsigned causes) {
  core_.net.wires().thaw(host, causes);
  host_state& s = hosts_[host];
  if (s.running && may_run(host) && std::exchange(s.overdue, false)) s.running->make_ready();
}

CAUSEWAY_DECL bool world::may_run(host_index host) {
  const detail::machine& m = core_.net.at(host);
  return m.frozen == 0 || (m.frozen == detail::standstill::disk_held && m.locks != 0);
}

CAUSEWAY_DECL void world::hold_up(host_index host, duration d) {
  detail::machine& m = core_.net.at(host);
  m.disk_until = std::max(m.disk_until, now()) + d;
  core_.net.wires().freeze(host, detail::standstill::disk_held);
  core_.events.at(m.disk_until, {event_kind::fault, host, 16}, [this, host] {
    if (core_.net.at(host).disk_until <= now()) go_on(host, detail::standstill::disk_held);
  });
}

CAUSEWAY_DECL void world::soon(host_index host, std::uint64_t what, std::function<void()> f) {
  core_.events.at(now(), {event_kind::fault, host, what}, std::move(f));
}

CAUSEWAY_DECL void world::start(host_index host) {
  host_state& s = hosts_[host];
  CAUSEWAY_EXPECT(s.main != nullptr);
  end_process(host, true);
  core_.net.power_on(host);
  ++core_.net.at(host).boots;
  s.running = std::make_unique<process>(core_, host, ++s.incarnations, s.disk, s.main);
  s.running->make_ready();
}

CAUSEWAY_DECL void world::end_process(host_index host, bool killed) {
  host_state& s = hosts_[host];
  if (!s.running) return;
  core_.net.at(host).backlog.clear();
  if (killed) s.running->kill();
  if (!killed) s.running->let_go(false);
  const std::exception_ptr failure = s.running->failure();
  s.running.reset();
  s.overdue = false;
  core_.net.wires().thaw(host, detail::standstill::stopped | detail::standstill::disk_held);  // a new process is neither
  core_.net.at(host).disk_until = {};
  if (failure && !killed) std::rethrow_exception(failure);
}

CAUSEWAY_DECL void world::step() {
  core_.events.run_next();
  run_ready();
}

CAUSEWAY_DECL void world::run_ready() {
  while (!core_.ready.empty()) {
    process* const next = core_.ready.front();
    core_.ready.erase(core_.ready.begin());
    const host_index host = next->host();
    if (!may_run(host)) {
      hosts_[host].overdue = true;
      next->not_ready();
      continue;
    }
    next->run();
    if (next->finished()) end_process(host, false);
  }
}

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_IMPL_WORLD_IPP
