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

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

/// Not thread-safe, and tied to the thread that runs it. All functions may be called before a run, from its script (`at`,
/// `after`) and from the programs; what would end or start a process happens then as an event of its own, at once.
class world {
 public:
  using program = std::function<void(process&)>;
  using host_set = std::vector<host_index>;

  CAUSEWAY_DECL explicit world(const world_options& options = {});
  world(const world&) = delete;
  world& operator=(const world&) = delete;

  /// Kills what still runs.
  ~world();

  // ---- what it is made of ----------------------------------------------------------------------------------------------

  CAUSEWAY_DECL host_index add_host(host_options options = {});

  [[nodiscard]] std::uint32_t hosts() const noexcept { return static_cast<std::uint32_t>(hosts_.size()); }
  [[nodiscard]] const host_options& options_of(host_index host) { return core_.net.at(host).options; }
  /// Where the first fabric of a host's process is dialled.
  [[nodiscard]] std::string address(host_index host) { return detail::address_text(core_.net, host, 1); }

  /// The line from `from` to `to`; the other direction keeps what it has.
  void set_link(host_index from, host_index to, const link_options& o) { core_.net.wires().links().set(from, to, o); }
  /// All lines from hosts of one region to hosts of another (or the same), but those set by set_link.
  CAUSEWAY_DECL void set_region_link(std::uint32_t from, std::uint32_t to, const link_options& options);
  CAUSEWAY_DECL [[nodiscard]] link_options link(host_index from, host_index to);
  void set_speed(host_index host, double speed) { core_.net.at(host).options.speed = speed; }
  /// The host's disk, from its next process on. None was set: an io::memory_storage.
  void set_storage(host_index host, io::any_storage disk) { hosts_[host].disk = std::move(disk); }
  [[nodiscard]] io::any_storage storage(host_index host) { return hosts_[host].disk; }
  CAUSEWAY_DECL void set_log(world_log log);

  // ---- processes -------------------------------------------------------------------------------------------------------

  /// Starts a process that runs `main` and ends when it returns. One that runs there already is killed first. An exception
  /// out of `main` comes out of run or run_until.
  CAUSEWAY_DECL void boot(host_index host, program main);
  /// As boot, with what was booted last.
  CAUSEWAY_DECL void restart(host_index host);

  /// SIGKILL: the process ends between two blocking calls, its memory is freed, and others hear of it one latency later.
  CAUSEWAY_DECL void kill(host_index host);
  /// The power goes off: as kill, but nobody hears of it before the host is started again.
  CAUSEWAY_DECL void power_off(host_index host);
  /// SIGTERM: process::asked_to_stop becomes true, and what blocks in a fabric gives errc::cancelled.
  CAUSEWAY_DECL void ask_to_stop(host_index host);
  /// SIGSTOP: the process stands still; its kernel accepts connections, and bytes up to a socket buffer.
  CAUSEWAY_DECL void stop(host_index host);
  /// SIGCONT: what came meanwhile happens first.
  CAUSEWAY_DECL void resume(host_index host);

  [[nodiscard]] bool alive(host_index host) const { return hosts_[host].running != nullptr; }
  [[nodiscard]] bool stopped(host_index host) { return core_.net.at(host).frozen != 0; }
  [[nodiscard]] std::uint32_t incarnation(host_index host) const { return hosts_[host].incarnations; }
  /// The process whose code is running right now; nullptr in the script and in handlers of fabrics.
  [[nodiscard]] process* running() noexcept { return core_.running; }

  // ---- the network's faults --------------------------------------------------------------------------------------------

  /// A black hole in one direction: what is sent waits, and comes out after unblock, with up to a second of delay. Calls
  /// count: as many unblocks as blocks open it again.
  CAUSEWAY_DECL void block(host_index from, host_index to);
  CAUSEWAY_DECL void unblock(host_index from, host_index to);
  /// Blocks every line from `a` to `b`, and back unless `one_way`. heal with the same arguments undoes it.
  CAUSEWAY_DECL void partition(const host_set& a, const host_set& b, bool one_way = false);
  CAUSEWAY_DECL void heal(const host_set& a, const host_set& b, bool one_way = false);
  /// Opens every line, however often it was blocked.
  CAUSEWAY_DECL void heal_all();
  /// What a connection on this line carries at most from now on; `unlimited` ends it.
  CAUSEWAY_DECL void slow_link(host_index from, host_index to, double bytes_per_s);

  /// From now on part `chance` of the messages from `from` to `to` meets with it; 0 ends it. Nothing of it changes what is
  /// on other lines.
  CAUSEWAY_DECL void set_mishap(host_index from, host_index to, mishap what, double chance);
  /// One TCP stream of the connections between two hosts dies. Data on its way is lost; control messages, on a stream of
  /// their own, still arrive until the link ends, a round trip later.
  CAUSEWAY_DECL void lose_stream(host_index a, host_index b);

  // ---- a host's faults -------------------------------------------------------------------------------------------------

  /// A second of the world is `rate` seconds of its clock; 1: as usual.
  CAUSEWAY_DECL void set_clock_rate(host_index host, double rate);
  /// Its clock goes forward at once, as that of a virtual machine that was held up.
  CAUSEWAY_DECL void jump_clock(host_index host, duration forward);
  /// It has descriptors for so many connections: no dial or accept beyond them. Those that stand stay. 0: no limit.
  CAUSEWAY_DECL void limit_connections(host_index host, std::uint64_t most);
  /// Its disk takes so long, from now on. The process waits in its call; if it holds the lock of a fabric, nothing reaches
  /// that host meanwhile and nothing leaves it. For sim::disk::set_waiter.
  CAUSEWAY_DECL void wait_for_disk(host_index host, duration d);
  /// Part `chance` of the messages that arrive there find no memory: the link that they came on ends.
  CAUSEWAY_DECL void set_no_memory(host_index host, double chance);

  // ---- time ------------------------------------------------------------------------------------------------------------

  CAUSEWAY_DECL void at(time_point when, std::function<void()> what);
  CAUSEWAY_DECL void after(duration delay, std::function<void()> what);

  [[nodiscard]] time_point now() const noexcept { return core_.events.now(); }
  [[nodiscard]] any_clock clock() const { return any_clock{core_.events.clock()}; }

  /// Runs everything up to and including `end`, and sets the clock to it. False: nothing is left to happen after it.
  CAUSEWAY_DECL bool run_until(time_point end);
  bool run_for(duration d) { return run_until(now() + d); }

  /// Runs until nothing is left to happen, or end_run. True: every process has ended; else some wait for ever.
  CAUSEWAY_DECL bool run();

  /// The run under way returns after the present event.
  void end_run() noexcept { ended_ = true; }

  /// Of everything that happened so far: time, kind, host and size of each event.
  [[nodiscard]] std::uint64_t history_hash() const noexcept { return core_.events.history_hash(); }
  [[nodiscard]] std::uint64_t event_count() const noexcept { return core_.events.executed(); }

  /// For tests of the simulator, and for what is built on it.
  [[nodiscard]] detail::core& shared() noexcept { return core_; }

 private:
  struct host_state {
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

  CAUSEWAY_DECL void go_on(host_index host, unsigned causes);

  /// Who waits for its disk with the lock held is cut off, but goes on once the disk is done.
  CAUSEWAY_DECL [[nodiscard]] bool may_run(host_index host);

  CAUSEWAY_DECL void hold_up(host_index host, duration d);

  template <class F>
  void change_clock(host_index host, std::uint64_t what, F f) {
    core_.events.record({event_kind::fault, host, what});
    f(core_.net.at(host).clock);
    if (hosts_[host].running) hosts_[host].running->clock_changed();
  }

  /// Processes are started and ended between events, never inside of one.
  CAUSEWAY_DECL void soon(host_index host, std::uint64_t what, std::function<void()> f);

  CAUSEWAY_DECL void start(host_index host);

  CAUSEWAY_DECL void end_process(host_index host, bool killed);

  CAUSEWAY_DECL void step();

  /// Lets every process run that can.
  CAUSEWAY_DECL void run_ready();

  detail::core core_;
  std::deque<host_state> hosts_;
  bool ended_ = false;
};

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#ifndef CAUSEWAY_COMPILED
#include <causeway/sim/impl/world.ipp>
#endif

#endif  // CAUSEWAY_SIM_WORLD_HPP
