// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_PROCESS_HPP
#define CAUSEWAY_SIM_PROCESS_HPP

// One run of a program on a simulated host: ordinary blocking code on a fiber. While it blocks, virtual time passes and
// other things happen; while it runs, no time passes. Killing it throws a type of its own out of the call it blocks in, so
// that every object on its stack is destroyed; calls that would block meanwhile (from destructors) return at once.

#include <causeway/core/clock.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/io/storage.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/sim/fiber.hpp>
#include <causeway/sim/network.hpp>
#include <causeway/sim/options.hpp>
#include <causeway/sim/scheduler.hpp>

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

class process;
class transport;

/// Takes the lines that processes log, with virtual time and host.
using world_log = std::function<void(time_point, host_index, severity, std::string_view)>;

namespace detail {

/// Unwinds a killed process. Not a std::exception: nobody should take it for an error that can be handled.
struct process_killed {};

/// Something of a process that the network knows, and that must let go of it when the process ends.
class endpoint {
 public:
  virtual ~endpoint() = default;
  /// The process is over. From now on calls give errors and reach nothing of the world.
  virtual void process_ended(bool killed) = 0;
  /// The host's clock has jumped, or runs at another rate.
  virtual void clock_changed() {}
};

/// What all parts of a world share.
struct core {
  CAUSEWAY_DECL explicit core(const world_options& o);

  world_options options;
  scheduler events;
  network net;
  stack_pool stacks;
  std::vector<process*> ready;  ///< in the order in which they became so
  process* running = nullptr;
  world_log log;
};

}  // namespace detail

/// Why a process that waited goes on.
enum class wake_reason : std::uint8_t {
  woken,     ///< somebody called wake
  deadline,  ///< the time has come
  dying,     ///< the process is being unwound: do not wait
};

class process {
 public:
  CAUSEWAY_DECL process(detail::core& shared, host_index host, std::uint32_t incarnation, io::any_storage storage,
                        std::function<void(process&)> program);
  process(const process&) = delete;
  process& operator=(const process&) = delete;

  ~process();

  // ---- for the program -------------------------------------------------------------------------------------------------

  [[nodiscard]] host_index host() const noexcept { return host_; }
  /// 1 for the host's first process, one more for each later.
  [[nodiscard]] std::uint32_t incarnation() const noexcept { return incarnation_; }
  /// The host's, which may go wrong: see world::set_clock_rate. Deadlines are times of this clock.
  [[nodiscard]] any_clock clock() const { return any_clock{core_.net.at(host_).clock}; }
  [[nodiscard]] time_point now() const noexcept { return core_.net.at(host_).clock.now(); }
  /// Its own draws: the same for equal (seed of the world, host, incarnation).
  [[nodiscard]] rng& random() noexcept { return random_; }

  void sleep(duration d) { sleep_till(now() + d); }

  /// The same for what takes its time whatever the host's clock says.
  CAUSEWAY_DECL void sleep_world(duration d);

  CAUSEWAY_DECL void sleep_till(time_point when);

  /// Takes `nominal` divided by the host's speed; while the process is stopped, nothing gets done.
  CAUSEWAY_DECL void compute(duration nominal);

  /// A fabric for the peer `id`, at the next free port of this host: "<name>:1", "<name>:2", ... Everything that it starts
  /// ends with this process.
  [[nodiscard]] std::shared_ptr<net::fabric> make_fabric(net::peer_id id);

  /// A network of fixed membership: this host must be one of `peers`, and its place among them is its index. Blocks until
  /// all connections stand; errc::timeout names who did not come within `patience`.
  CAUSEWAY_DECL [[nodiscard]] result<transport> make_transport(std::vector<host_index> peers,
                                                               duration patience = std::chrono::minutes{10});

  /// The host's disk; what is on it stays when the process ends.
  [[nodiscard]] io::any_storage storage() const { return storage_; }

  /// Its lines go to the world's log.
  CAUSEWAY_DECL [[nodiscard]] log_sink log() const;

  /// The world asked it to end, as with SIGTERM; calls of fabric::block give errc::cancelled.
  [[nodiscard]] bool asked_to_stop() const noexcept { return asked_to_stop_; }

  // ---- for what blocks on its behalf -----------------------------------------------------------------------------------

  /// Blocks until wake() or `deadline`. Only from the process itself.
  wake_reason park(time_point deadline) { return park_until(core_.net.at(host_).clock.world(deadline)); }

  /// The same with a time of the world.
  CAUSEWAY_DECL wake_reason park_until(time_point deadline);

  /// The process goes on, as soon as what happens now is over.
  CAUSEWAY_DECL void wake();

  [[nodiscard]] detail::core& shared() noexcept { return core_; }
  CAUSEWAY_DECL void add(detail::endpoint* e);
  CAUSEWAY_DECL void remove(const detail::endpoint* e);

  // ---- for the world ---------------------------------------------------------------------------------------------------

  /// Lets it run until it blocks or ends.
  CAUSEWAY_DECL void run();

  /// Unwinds it. Only from outside of it.
  CAUSEWAY_DECL void kill();

  /// Its fabrics and transports let go of the world.
  CAUSEWAY_DECL void let_go(bool killed);

  CAUSEWAY_DECL void ask_to_stop();

  /// Whoever waits looks at the clock again.
  CAUSEWAY_DECL void clock_changed();

  CAUSEWAY_DECL void make_ready();

  void not_ready() noexcept { ready_ = false; }

  [[nodiscard]] bool finished() const noexcept { return fiber_.finished(); }
  [[nodiscard]] const std::exception_ptr& failure() const noexcept { return fiber_.failure(); }

 private:
  detail::core& core_;
  host_index host_;
  std::uint32_t incarnation_;
  io::any_storage storage_;
  rng random_;
  std::vector<detail::endpoint*> endpoints_;
  scheduler::ticket timer_ = 0;
  bool ready_ = false;
  bool woken_ = false;
  bool killed_ = false;
  bool asked_to_stop_ = false;
  fiber fiber_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#ifndef CAUSEWAY_COMPILED
#include <causeway/sim/impl/process.ipp>
#endif

#endif  // CAUSEWAY_SIM_PROCESS_HPP
