// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_FAULT_PROFILE_HPP
#define CAUSEWAY_SIM_FAULT_PROFILE_HPP

// Fault plans from a seed, and from traces of machines that come and go. Whatever a generated plan breaks it also mends,
// early enough before its end that a run can be asked to go on.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/core/table_text.hpp>
#include <causeway/sim/fault_plan.hpp>
#include <causeway/sim/options.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

/// How long a host lives.
enum class lifetime : std::uint8_t {
  memoryless,  ///< exponential
  bathtub,     ///< dies early or at the end of its time, as preemptible machines with a time limit do
};

/// Mean times between faults, of each host unless it says otherwise; 0: never. What lasts is uniform in [least, most].
struct fault_profile {
  duration kill_every{0};
  lifetime life = lifetime::memoryless;
  double power_off = 0.5;  ///< part of the kills that take the machine, and what its disk had not synced
  duration down_least = std::chrono::seconds{30};
  duration down_most = std::chrono::seconds{180};

  duration stop_every{0};  ///< the process stands still
  duration stop_least = std::chrono::seconds{1};
  duration stop_most = std::chrono::seconds{60};

  duration partition_every{0};  ///< of the whole cluster, in two random parts
  duration partition_least = std::chrono::seconds{120};
  duration partition_most = std::chrono::seconds{120};
  double one_way = 0;  ///< part of the partitions that block only one direction

  duration slow_every{0};  ///< the line to one other host
  duration slow_least = std::chrono::seconds{10};
  duration slow_most = std::chrono::seconds{300};
  double slow_bytes_per_s = 125e3;

  double stragglers = 0;  ///< part of the hosts that compute `slowdown` times slower from the start on
  double slowdown = 3;

  duration disk_every{0};  ///< a write or an fsync fails, the disk is full for a while, or a bit flips

  duration message_every{0};  ///< messages to one other host are damaged, repeated or reordered, or a stream is lost
  duration message_least = std::chrono::seconds{1};
  duration message_most = std::chrono::seconds{30};
  double message_chance = 0.05;  ///< part of the messages
  duration alter_every{0};       ///< data to one other host has another value in it, for as long and as often

  duration slow_disk_every{0};  ///< each fsync takes its time, or the disk writes slowly
  duration slow_disk_least = std::chrono::seconds{1};
  duration slow_disk_most = std::chrono::seconds{60};
  double sync_seconds = 30;  ///< at most, for one fsync
  double disk_bytes_per_s = 1e4;

  duration clock_every{0};  ///< a clock jumps forward by at most `clock_jump`, or runs at another rate for a while
  duration clock_jump = std::chrono::seconds{30};
  double clock_drift = 0.01;  ///< how far the rate is off, at most

  duration scarce_every{0};  ///< no descriptors for new connections, or no memory for some messages
  duration scarce_least = std::chrono::seconds{1};
  duration scarce_most = std::chrono::seconds{30};
};

/// Every kind of fault that messages, disks, clocks and resources have, often enough for a run of a minute to meet some.
CAUSEWAY_DECL [[nodiscard]] fault_profile hostile_profile();

/// Volunteers' machines: each lives 20 minutes in the mean and is gone for 30 to 180 s, one in twenty is three times
/// slower, and for two minutes an hour the cluster falls in two.
CAUSEWAY_DECL [[nodiscard]] fault_profile harsh_profile();

/// Rented servers: each dies once a day and is back in 2 to 10 minutes, one in a hundred is half as slow again, and for
/// half a minute a day a part of them cannot be reached.
CAUSEWAY_DECL [[nodiscard]] fault_profile datacentre_profile();

/// A plan for hosts 0 to `hosts` - 1. Faults begin and end within [0, horizon): afterwards all hosts run at their speed,
/// all lines are open, and no disk is full.
CAUSEWAY_DECL [[nodiscard]] fault_plan random_plan(const fault_profile& profile, std::uint32_t hosts, duration horizon,
                                                   std::uint64_t seed);

/// FoundationDB's swizzle: cuts the hosts of `cut` off from all others one by one, in random order, and connects them again
/// in another one. Begins at `begin` and takes `length`.
CAUSEWAY_DECL [[nodiscard]] fault_plan swizzle(std::vector<std::uint32_t> cut, std::uint32_t hosts, time_point begin,
                                               duration length, std::uint64_t seed);

/// A trace of preemptions: CSV `seconds,host,event`, event = preempt or join. A preempted host loses its power. Hosts that
/// the trace leaves preempted stay so.
CAUSEWAY_DECL [[nodiscard]] result<fault_plan> parse_preemptions(std::string_view text, const std::string& name = "trace");

/// A draw from the profile's lifetimes. Bathtub: Kadupitiya et al. 2020, F(t) = A (1 - exp(-t/a) + exp((t - b)/c)), with
/// their shape (a limit of 24 h, a = 1 h, c = 0.8 h, A = 1/2), scaled to `mean`.
CAUSEWAY_DECL [[nodiscard]] duration draw_lifetime(lifetime life, duration mean, rng& draws);

namespace detail {

inline double uniform(rng& draws) { return (static_cast<double>(draws.next() >> 11U) + 0.5) * 0x1.0p-53; }

inline duration exponential(duration mean, rng& draws) { return from_seconds(-seconds(mean) * std::log(uniform(draws))); }

CAUSEWAY_DECL duration between(duration least, duration most, rng& draws);

/// Adds the faults of one profile to a plan. Each host and each kind of fault has draws of its own, so that another rate
/// for one changes nothing for the others.
class plan_writer {
 public:
  CAUSEWAY_DECL plan_writer(const fault_profile& profile, std::uint32_t hosts, duration horizon, std::uint64_t seed);

  CAUSEWAY_DECL fault_plan write();

 private:
  [[nodiscard]] rng draws_of(std::uint64_t purpose, std::uint64_t host) const { return rng{seed_, mix(purpose, host)}; }

  CAUSEWAY_DECL void add(duration at, fault_kind kind, std::vector<std::uint32_t> hosts,
                         std::vector<std::uint32_t> others = {}, double amount = 0);

  // Calls `break_it(begin, end)` for one period after another, none past the end of the plan.
  template <class Gap, class Break>
  void periods(Gap gap, duration least, duration most, rng& draws, Break break_it) {
    for (duration begin = gap(); begin < last_;) {
      const duration end = std::min(begin + between(least, most, draws), last_);
      break_it(begin, end);
      begin = end + gap();
    }
  }

  template <class Break>
  void periods_every(duration mean, duration least, duration most, rng& draws, Break break_it) {
    if (mean > duration{0}) periods([&] { return exponential(mean, draws); }, least, most, draws, break_it);
  }

  CAUSEWAY_DECL void kills(std::uint32_t host);

  CAUSEWAY_DECL void stops(std::uint32_t host);

  CAUSEWAY_DECL void slow_lines(std::uint32_t host);

  CAUSEWAY_DECL void disk_faults(std::uint32_t host);

  CAUSEWAY_DECL [[nodiscard]] std::uint32_t another(std::uint32_t host, rng& draws) const;

  CAUSEWAY_DECL void messages(std::uint32_t host);

  CAUSEWAY_DECL void altered_data(std::uint32_t host);

  CAUSEWAY_DECL void slow_disks(std::uint32_t host);

  CAUSEWAY_DECL void clocks(std::uint32_t host);

  CAUSEWAY_DECL void scarcity(std::uint32_t host);

  CAUSEWAY_DECL void stragglers();

  CAUSEWAY_DECL void partitions();

  fault_profile profile_;
  std::uint32_t hosts_;
  duration last_;
  std::uint64_t seed_;
  fault_plan plan_;
};

}  // namespace detail

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#ifndef CAUSEWAY_COMPILED
#include <causeway/sim/impl/fault_profile.ipp>
#endif

#endif  // CAUSEWAY_SIM_FAULT_PROFILE_HPP
