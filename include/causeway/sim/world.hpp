// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_WORLD_HPP
#define CAUSEWAY_SIM_WORLD_HPP

// A whole cluster in one thread, on virtual time: hosts, the lines between them, the programs that run on them, and
// everything that can go wrong. Nothing depends on the machine, the clock or an address: the same program and the same seed
// give the same history, event by event (`history_hash`).

#include <causeway/core/clock.hpp>
#include <causeway/io/memory_storage.hpp>
#include <causeway/io/storage.hpp>
#include <causeway/sim/fabric.hpp>
#include <causeway/sim/network.hpp>
#include <causeway/sim/options.hpp>
#include <causeway/sim/process.hpp>
#include <causeway/sim/scheduler.hpp>
#include <causeway/sim/transport.hpp>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::sim {

/// Not thread-safe, and tied to the thread that runs it. All functions may be called before a run, from its script (`at`,
/// `after`) and from the programs; what would end or start a process happens then as an event of its own, at once.
class world {
 public:
  using program = std::function<void(process&)>;
  using host_set = std::vector<host_index>;

  explicit world(const world_options& options = {}) : core_{options} {}
  world(const world&) = delete;
  world& operator=(const world&) = delete;

  /// Kills what still runs.
  ~world() {
    for (host_index h = 0; h < seats_.size(); ++h) end_process(h, true);
  }

  // ---- what it is made of ----------------------------------------------------------------------------------------------

  host_index add_host(host_options options = {}) {
    const auto host = static_cast<host_index>(seats_.size());
    if (options.name.empty()) options.name = "host-" + std::to_string(host);
    CAUSEWAY_EXPECT(options.name.find(':') == std::string::npos);
    core_.net.add_host(options);
    seats_.emplace_back();
    return host;
  }

  [[nodiscard]] std::uint32_t hosts() const noexcept { return static_cast<std::uint32_t>(seats_.size()); }
  [[nodiscard]] const host_options& options_of(host_index host) { return core_.net.at(host).options; }
  /// Where the first fabric of a host's process is dialled.
  [[nodiscard]] std::string address(host_index host) { return detail::address_text(core_.net, host, 1); }

  /// The line from `from` to `to`; the other direction keeps what it has.
  void set_link(host_index from, host_index to, const link_options& o) { core_.net.wires().links().set(from, to, o); }
  /// All lines from hosts of one region to hosts of another (or the same), but those set by set_link.
  void set_region_link(std::uint32_t from, std::uint32_t to, const link_options& options) {
    core_.net.wires().links().set_region(from, to, options);
  }
  [[nodiscard]] link_options link(host_index from, host_index to) {
    return core_.net.wires().links().between(from, to).options;
  }
  void set_speed(host_index host, double speed) { core_.net.at(host).options.speed = speed; }
  /// The host's disk, from its next process on. None was set: an io::memory_storage.
  void set_storage(host_index host, io::any_storage disk) { seats_[host].disk = std::move(disk); }
  [[nodiscard]] io::any_storage storage(host_index host) { return seats_[host].disk; }
  void set_log(world_log log) { core_.log = std::move(log); }

  // ---- processes -------------------------------------------------------------------------------------------------------

  /// Starts a process that runs `main` and ends when it returns. One that runs there already is killed first. An exception
  /// out of `main` comes out of run or run_until.
  void boot(host_index host, program main) {
    seats_[host].main = std::move(main);
    restart(host);
  }
  /// As boot, with what was booted last.
  void restart(host_index host) {
    soon(host, 1, [this, host] { start(host); });
  }

  /// SIGKILL: the process ends between two blocking calls, its memory is freed, and others hear of it one latency later.
  void kill(host_index host) {
    soon(host, 2, [this, host] { end_process(host, true); });
  }
  /// The power goes off: as kill, but nobody hears of it before the host is started again.
  void power_off(host_index host) {
    soon(host, 3, [this, host] {
      core_.net.power_off(host);
      end_process(host, true);
    });
  }
  /// SIGTERM: process::asked_to_stop becomes true, and what blocks in a fabric gives errc::cancelled.
  void ask_to_stop(host_index host) {
    soon(host, 4, [this, host] {
      if (seats_[host].running) seats_[host].running->ask_to_stop();
    });
  }
  /// SIGSTOP: the process stands still; its kernel accepts connections, and bytes up to a socket buffer.
  void stop(host_index host) {
    soon(host, 5, [this, host] { core_.net.wires().freeze(host); });
  }
  /// SIGCONT: what came meanwhile happens first.
  void resume(host_index host) {
    soon(host, 6, [this, host] { go_on(host, detail::standstill::stopped); });
  }

  [[nodiscard]] bool alive(host_index host) const { return seats_[host].running != nullptr; }
  [[nodiscard]] bool stopped(host_index host) { return core_.net.at(host).frozen != 0; }
  [[nodiscard]] std::uint32_t incarnation(host_index host) const { return seats_[host].incarnations; }
  /// The process whose code is running right now; nullptr in the script and in handlers of fabrics.
  [[nodiscard]] process* running() noexcept { return core_.running; }

  // ---- the network's faults --------------------------------------------------------------------------------------------

  /// A black hole in one direction: what is sent waits, and comes out after unblock, with up to a second of delay. Calls
  /// count: as many unblocks as blocks open it again.
  void block(host_index from, host_index to) {
    core_.events.record({event_kind::fault, from, std::uint64_t{to} << 4U | 7U});
    core_.net.block(from, to);
  }
  void unblock(host_index from, host_index to) {
    core_.events.record({event_kind::fault, from, std::uint64_t{to} << 4U | 8U});
    core_.net.unblock(from, to);
  }
  /// Blocks every line from `a` to `b`, and back unless `one_way`. heal with the same arguments undoes it.
  void partition(const host_set& a, const host_set& b, bool one_way = false) {
    for_pairs(a, b, one_way, [this](host_index from, host_index to) { block(from, to); });
  }
  void heal(const host_set& a, const host_set& b, bool one_way = false) {
    for_pairs(a, b, one_way, [this](host_index from, host_index to) { unblock(from, to); });
  }
  /// Opens every line, however often it was blocked.
  void heal_all() {
    for (host_index from = 0; from < hosts(); ++from) {
      for (host_index to = 0; to < hosts(); ++to) {
        while (core_.net.blocked(from, to)) unblock(from, to);
      }
    }
  }
  /// What a connection on this line carries at most from now on; `unlimited` ends it.
  void slow_link(host_index from, host_index to, double bytes_per_s) {
    CAUSEWAY_EXPECT(bytes_per_s > 0);
    core_.events.record({event_kind::fault, from, std::uint64_t{to} << 4U | 9U});
    core_.net.wires().links().slow(from, to, bytes_per_s);
  }

  /// From now on part `chance` of the messages from `from` to `to` meets with it; 0 ends it. Nothing of it changes what is
  /// on other lines.
  void set_mishap(host_index from, host_index to, mishap what, double chance) {
    core_.events.record({event_kind::fault, from, std::uint64_t{to} << 4U | 10U});
    core_.net.wires().links().between(from, to).chances[static_cast<std::size_t>(what)] = chance;
  }
  /// One TCP stream of the connections between two hosts dies. Data on its way is lost; control messages, on a stream of
  /// their own, still arrive until the link ends, a round trip later.
  void lose_stream(host_index a, host_index b) {
    core_.events.record({event_kind::fault, a, std::uint64_t{b} << 4U | 11U});
    core_.net.lose_stream(a, b);
  }

  // ---- a host's faults -------------------------------------------------------------------------------------------------

  /// A second of the world is `rate` seconds of its clock; 1: as usual.
  void set_clock_rate(host_index host, double rate) {
    change_clock(host, 12, [rate](host_clock& c) { c.set_rate(rate); });
  }
  /// Its clock goes forward at once, as that of a virtual machine that was held up.
  void jump_clock(host_index host, duration forward) {
    change_clock(host, 13, [forward](host_clock& c) { c.jump(forward); });
  }
  /// It has descriptors for so many connections: no dial or accept beyond them. Those that stand stay. 0: no limit.
  void limit_connections(host_index host, std::uint64_t most) {
    core_.events.record({event_kind::fault, host, 14});
    core_.net.at(host).most_connections = most;
  }
  /// Its disk takes so long, from now on. The process waits in its call; if it holds the lock of a fabric, nothing reaches
  /// that host meanwhile and nothing leaves it. For sim::disk::set_waiter.
  void wait_for_disk(host_index host, duration d) {
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
  /// Part `chance` of the messages that arrive there find no memory: the link that they came on ends.
  void set_no_memory(host_index host, double chance) {
    core_.events.record({event_kind::fault, host, 15});
    core_.net.at(host).no_memory = chance;
  }

  // ---- time ------------------------------------------------------------------------------------------------------------

  void at(time_point when, std::function<void()> what) {
    core_.events.at(when, {event_kind::script, no_host, 0}, std::move(what));
  }
  void after(duration delay, std::function<void()> what) { at(now() + delay, std::move(what)); }

  [[nodiscard]] time_point now() const noexcept { return core_.events.now(); }
  [[nodiscard]] any_clock clock() const { return any_clock{core_.events.clock()}; }

  /// Runs everything up to and including `end`, and sets the clock to it. False: nothing is left to happen after it.
  bool run_until(time_point end) {
    ended_ = false;
    settle();
    while (!ended_ && core_.events.next_time() <= end) step();
    if (!ended_) core_.events.advance_to(end);
    return !core_.events.empty();
  }
  bool run_for(duration d) { return run_until(now() + d); }

  /// Runs until nothing is left to happen, or end_run. True: every process has ended; else some wait for ever.
  bool run() {
    ended_ = false;
    settle();
    while (!ended_ && !core_.events.empty()) step();
    for (const seat& s : seats_) {
      if (s.running) return false;
    }
    return true;
  }

  /// The run under way returns after the present event.
  void end_run() noexcept { ended_ = true; }

  /// Of everything that happened so far: time, kind, host and size of each event.
  [[nodiscard]] std::uint64_t history_hash() const noexcept { return core_.events.history_hash(); }
  [[nodiscard]] std::uint64_t event_count() const noexcept { return core_.events.executed(); }

  /// For tests of the simulator, and for what is built on it.
  [[nodiscard]] detail::core& shared() noexcept { return core_; }

 private:
  struct seat {
    program main;
    std::unique_ptr<process> running;
    std::uint32_t incarnations = 0;
    bool overdue = false;  ///< became ready while it was stopped
    io::any_storage disk{io::memory_storage{}};
  };

  template <class F>
  static void for_pairs(const host_set& a, const host_set& b, bool one_way, F&& f) {
    for (const host_index from : a) {
      for (const host_index to : b) {
        if (from == to) continue;
        f(from, to);
        if (!one_way) f(to, from);
      }
    }
  }

  void go_on(host_index host, unsigned causes) {
    core_.net.wires().thaw(host, causes);
    seat& s = seats_[host];
    if (s.running && may_run(host) && std::exchange(s.overdue, false)) s.running->make_ready();
  }

  /// Who waits for its disk with the lock held is cut off, but goes on once the disk is done.
  [[nodiscard]] bool may_run(host_index host) {
    const detail::machine& m = core_.net.at(host);
    return m.frozen == 0 || (m.frozen == detail::standstill::disk_held && m.locks != 0);
  }

  void hold_up(host_index host, duration d) {
    detail::machine& m = core_.net.at(host);
    m.disk_until = std::max(m.disk_until, now()) + d;
    core_.net.wires().freeze(host, detail::standstill::disk_held);
    core_.events.at(m.disk_until, {event_kind::fault, host, 16}, [this, host] {
      if (core_.net.at(host).disk_until <= now()) go_on(host, detail::standstill::disk_held);
    });
  }

  template <class F>
  void change_clock(host_index host, std::uint64_t what, F f) {
    core_.events.record({event_kind::fault, host, what});
    f(core_.net.at(host).clock);
    if (seats_[host].running) seats_[host].running->clock_changed();
  }

  /// Processes are started and ended between events, never inside of one.
  void soon(host_index host, std::uint64_t what, std::function<void()> f) {
    core_.events.at(now(), {event_kind::fault, host, what}, std::move(f));
  }

  void start(host_index host) {
    seat& s = seats_[host];
    CAUSEWAY_EXPECT(s.main != nullptr);
    end_process(host, true);
    core_.net.power_on(host);
    ++core_.net.at(host).boots;
    s.running = std::make_unique<process>(core_, host, ++s.incarnations, s.disk, s.main);
    s.running->make_ready();
  }

  void end_process(host_index host, bool killed) {
    seat& s = seats_[host];
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

  void step() {
    core_.events.run_next();
    settle();
  }

  /// Lets every process run that can.
  void settle() {
    while (!core_.ready.empty()) {
      process* const next = core_.ready.front();
      core_.ready.erase(core_.ready.begin());
      const host_index host = next->host();
      if (!may_run(host)) {
        seats_[host].overdue = true;
        next->not_ready();
        continue;
      }
      next->run();
      if (next->finished()) end_process(host, false);
    }
  }

  detail::core core_;
  std::deque<seat> seats_;
  bool ended_ = false;
};

}  // namespace causeway::inline CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_WORLD_HPP
