// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_FAULT_PROFILE_HPP
#define CAUSEWAY_SIM_FAULT_PROFILE_HPP

// Fault plans from a seed, and from traces of machines that come and go. Whatever a generated plan breaks it also mends,
// early enough before its end that a run can be asked to go on.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/sim/fault_plan.hpp>
#include <causeway/sim/table_text.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::sim {

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
[[nodiscard]] inline fault_profile hostile_profile() {
  using std::chrono::milliseconds;
  using std::chrono::seconds;
  return {.kill_every = seconds{60},
          .down_least = milliseconds{500},
          .down_most = seconds{10},
          .partition_every = seconds{60},
          .partition_least = seconds{1},
          .partition_most = seconds{5},
          .one_way = 0.4,
          .disk_every = seconds{120},
          .message_every = seconds{20},
          .message_most = seconds{10},
          .alter_every = seconds{120},
          .slow_disk_every = seconds{60},
          .slow_disk_most = seconds{20},
          .clock_every = seconds{60},
          .scarce_every = seconds{60},
          .scarce_most = seconds{10}};
}

/// Volunteers' machines: each lives 20 minutes in the mean and is gone for 30 to 180 s, one in twenty is three times
/// slower, and for two minutes an hour the cluster falls in two.
[[nodiscard]] inline fault_profile harsh_profile(lifetime life = lifetime::memoryless) {
  return {.kill_every = std::chrono::minutes{20},
          .life = life,
          .partition_every = std::chrono::hours{1},
          .stragglers = 0.05,
          .slowdown = 3};
}

/// Rented servers: each dies once a day and is back in 2 to 10 minutes, one in a hundred is half as slow again, and for
/// half a minute a day a part of them cannot be reached.
[[nodiscard]] inline fault_profile datacentre_profile(lifetime life = lifetime::memoryless) {
  return {.kill_every = std::chrono::hours{24},
          .life = life,
          .down_least = std::chrono::minutes{2},
          .down_most = std::chrono::minutes{10},
          .partition_every = std::chrono::hours{24},
          .partition_least = std::chrono::seconds{30},
          .partition_most = std::chrono::seconds{30},
          .stragglers = 0.01,
          .slowdown = 1.5};
}

/// A plan for hosts 0 to `hosts` - 1. Faults begin and end within [0, horizon): afterwards all hosts run at their speed,
/// all lines are open, and no disk is full.
[[nodiscard]] inline fault_plan random_plan(const fault_profile& profile, std::uint32_t hosts, duration horizon,
                                            std::uint64_t seed);

/// FoundationDB's swizzle: cuts the hosts of `cut` off from all others one by one, in random order, and connects them again
/// in another one. Begins at `begin` and takes `length`.
[[nodiscard]] inline fault_plan swizzle(std::vector<std::uint32_t> cut, std::uint32_t hosts, time_point begin,
                                        duration length, std::uint64_t seed);

/// A trace of preemptions: CSV `seconds,host,event`, event = preempt or join. A preempted host loses its power. Hosts that
/// the trace leaves preempted stay so.
[[nodiscard]] inline result<fault_plan> parse_preemptions(std::string_view text, const std::string& name = "trace");

/// A draw from the profile's lifetimes. Bathtub: Kadupitiya et al. 2020, F(t) = A (1 - exp(-t/a) + exp((t - b)/c)), with
/// their shape (a limit of 24 h, a = 1 h, c = 0.8 h, A = 1/2), scaled to `mean`.
[[nodiscard]] inline duration draw_lifetime(lifetime life, duration mean, rng& draws);

namespace detail {

inline double uniform(rng& draws) { return (static_cast<double>(draws.next() >> 11U) + 0.5) * 0x1.0p-53; }

inline duration exponential(duration mean, rng& draws) { return from_seconds(-seconds(mean) * std::log(uniform(draws))); }

inline duration between(duration least, duration most, rng& draws) {
  return most <= least
             ? least
             : least +
                   duration{static_cast<std::int64_t>(draws.below(static_cast<std::uint64_t>((most - least).count()) + 1))};
}

inline void shuffle(std::vector<std::uint32_t>& items, rng& draws) {
  for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[draws.below(i)]);
}

/// Adds the faults of one profile to a plan. Each host and each kind of fault has draws of its own, so that another rate
/// for one changes nothing for the others.
class plan_writer {
 public:
  plan_writer(const fault_profile& profile, std::uint32_t hosts, duration horizon, std::uint64_t seed)
      : profile_{profile}, hosts_{hosts}, last_{horizon - duration{1}}, seed_{seed} {}

  fault_plan write() {
    for (std::uint32_t host = 0; host < hosts_; ++host) {
      kills(host);
      stops(host);
      slow_lines(host);
      disk_faults(host);
      messages(host);
      altered_data(host);
      slow_disks(host);
      clocks(host);
      scarcity(host);
    }
    stragglers();
    partitions();
    plan_.sort();
    return std::move(plan_);
  }

 private:
  [[nodiscard]] rng draws_of(std::uint64_t purpose, std::uint64_t host) const { return rng{seed_, mix(purpose, host)}; }

  void add(duration at, fault_kind kind, std::vector<std::uint32_t> hosts, std::vector<std::uint32_t> others = {},
           double amount = 0) {
    plan_.faults.push_back({time_point{at}, kind, std::move(hosts), std::move(others), amount});
  }

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

  void kills(std::uint32_t host) {
    if (profile_.kill_every <= duration{0}) return;
    rng draws = draws_of(1, host);
    const auto life = [&] { return draw_lifetime(profile_.life, profile_.kill_every, draws); };
    periods(life, profile_.down_least, profile_.down_most, draws, [&](duration begin, duration end) {
      add(begin, uniform(draws) < profile_.power_off ? fault_kind::power_off : fault_kind::kill, {host});
      add(end, fault_kind::restart, {host});
    });
  }

  void stops(std::uint32_t host) {
    rng draws = draws_of(2, host);
    periods_every(profile_.stop_every, profile_.stop_least, profile_.stop_most, draws, [&](duration begin, duration end) {
      add(begin, fault_kind::stop, {host});
      add(end, fault_kind::resume, {host});
    });
  }

  void slow_lines(std::uint32_t host) {
    if (hosts_ < 2) return;
    rng draws = draws_of(3, host);
    periods_every(profile_.slow_every, profile_.slow_least, profile_.slow_most, draws, [&](duration begin, duration end) {
      const auto other = static_cast<std::uint32_t>((host + 1 + draws.below(hosts_ - 1)) % hosts_);
      add(begin, fault_kind::slow_link, {host}, {other}, profile_.slow_bytes_per_s);
      add(end, fault_kind::slow_link, {host}, {other}, 0);
    });
  }

  void disk_faults(std::uint32_t host) {
    rng draws = draws_of(4, host);
    const duration least = std::chrono::seconds{1};
    const duration most = std::chrono::seconds{60};
    periods_every(profile_.disk_every, least, most, draws, [&](duration begin, duration end) {
      switch (draws.below(4)) {
        case 0: return add(begin, fault_kind::fail_write, {host}, {}, static_cast<double>(1 + draws.below(10)));
        case 1: return add(begin, fault_kind::fail_sync, {host}, {}, 1);
        case 2: return add(begin, fault_kind::flip, {host});
        default: add(begin, fault_kind::disk_full, {host}, {}, 1); add(end, fault_kind::disk_full, {host}, {}, 0);
      }
    });
  }

  [[nodiscard]] std::uint32_t another(std::uint32_t host, rng& draws) const {
    return static_cast<std::uint32_t>((host + 1 + draws.below(hosts_ - 1)) % hosts_);
  }

  void messages(std::uint32_t host) {
    if (hosts_ < 2) return;
    rng draws = draws_of(8, host);
    constexpr std::array kinds{fault_kind::damage, fault_kind::repeat, fault_kind::reorder, fault_kind::lose_stream};
    periods_every(profile_.message_every, profile_.message_least, profile_.message_most, draws,
                  [&](duration begin, duration end) {
                    const fault_kind kind = kinds[draws.below(kinds.size())];
                    const std::uint32_t other = another(host, draws);
                    if (kind == fault_kind::lose_stream) return add(begin, kind, {host}, {other});
                    add(begin, kind, {host}, {other}, profile_.message_chance);
                    add(end, kind, {host}, {other}, 0);
                  });
  }

  void altered_data(std::uint32_t host) {
    if (hosts_ < 2) return;
    rng draws = draws_of(9, host);
    periods_every(profile_.alter_every, profile_.message_least, profile_.message_most, draws,
                  [&](duration begin, duration end) {
                    const std::uint32_t other = another(host, draws);
                    add(begin, fault_kind::alter, {host}, {other}, profile_.message_chance);
                    add(end, fault_kind::alter, {host}, {other}, 0);
                  });
  }

  void slow_disks(std::uint32_t host) {
    rng draws = draws_of(10, host);
    periods_every(profile_.slow_disk_every, profile_.slow_disk_least, profile_.slow_disk_most, draws,
                  [&](duration begin, duration end) {
                    const bool sync = draws.below(2) == 0;
                    const double amount = sync ? profile_.sync_seconds * uniform(draws) : profile_.disk_bytes_per_s;
                    add(begin, sync ? fault_kind::slow_sync : fault_kind::slow_disk, {host}, {}, amount);
                    add(end, sync ? fault_kind::slow_sync : fault_kind::slow_disk, {host}, {}, 0);
                  });
  }

  void clocks(std::uint32_t host) {
    rng draws = draws_of(11, host);
    const duration least = std::chrono::seconds{1};
    const duration most = std::chrono::minutes{5};
    periods_every(profile_.clock_every, least, most, draws, [&](duration begin, duration end) {
      if (draws.below(2) == 0) {
        return add(begin, fault_kind::clock_jump, {host}, {}, seconds(profile_.clock_jump) * uniform(draws));
      }
      add(begin, fault_kind::clock_rate, {host}, {}, 1 + profile_.clock_drift * (2 * uniform(draws) - 1));
      add(end, fault_kind::clock_rate, {host}, {}, 1);
    });
  }

  void scarcity(std::uint32_t host) {
    rng draws = draws_of(12, host);
    periods_every(profile_.scarce_every, profile_.scarce_least, profile_.scarce_most, draws,
                  [&](duration begin, duration end) {
                    const bool memory = draws.below(2) == 0;
                    const fault_kind kind = memory ? fault_kind::no_memory : fault_kind::descriptors;
                    add(begin, kind, {host}, {}, memory ? profile_.message_chance : 1);
                    add(end, kind, {host}, {}, 0);
                  });
  }

  void stragglers() {
    rng draws = draws_of(5, 0);
    for (std::uint32_t host = 0; host < hosts_; ++host) {
      if (uniform(draws) >= profile_.stragglers) continue;
      add(duration{0}, fault_kind::speed, {host}, {}, 1 / profile_.slowdown);
      add(last_, fault_kind::speed, {host}, {}, 1);
    }
  }

  void partitions() {
    if (hosts_ < 2) return;
    rng draws = draws_of(6, 0);
    periods_every(profile_.partition_every, profile_.partition_least, profile_.partition_most, draws,
                  [&](duration begin, duration end) {
                    std::vector<std::uint32_t> one(hosts_);
                    std::iota(one.begin(), one.end(), 0U);
                    shuffle(one, draws);
                    const auto cut = one.begin() + static_cast<std::ptrdiff_t>(1 + draws.below(hosts_ - 1));
                    std::vector<std::uint32_t> other(cut, one.end());
                    one.erase(cut, one.end());
                    const bool one_way = uniform(draws) < profile_.one_way;
                    add(begin, one_way ? fault_kind::block : fault_kind::partition, one, other);
                    add(end, one_way ? fault_kind::unblock : fault_kind::heal, one, other);
                  });
  }

  fault_profile profile_;
  std::uint32_t hosts_;
  duration last_;
  std::uint64_t seed_;
  fault_plan plan_;
};

}  // namespace detail

inline duration draw_lifetime(lifetime life, duration mean, rng& draws) {
  if (life == lifetime::memoryless) return detail::exponential(mean, draws);
  const double wanted = detail::uniform(draws);
  const auto died_by = [](double t) { return 0.5 * (1 - std::exp(-t) + std::exp((t - 24) / 0.8)); };
  double low = 0;
  double high = 24;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (died_by(middle) < wanted ? low : high) = middle;
  }
  constexpr double mean_of_shape = 12.1;  // hours: half die after one in the mean, half 0.8 before the limit
  return detail::from_seconds(seconds(mean) * low / mean_of_shape);
}

inline fault_plan random_plan(const fault_profile& profile, std::uint32_t hosts, duration horizon, std::uint64_t seed) {
  CAUSEWAY_EXPECT(horizon > duration{0});
  return detail::plan_writer{profile, hosts, horizon, seed}.write();
}

inline fault_plan swizzle(std::vector<std::uint32_t> cut, std::uint32_t hosts, time_point begin, duration length,
                          std::uint64_t seed) {
  rng draws{seed, mix(7)};
  const auto count = static_cast<std::int64_t>(std::max<std::size_t>(cut.size(), 1));
  const duration step = length / (2 * count);
  fault_plan plan;
  const auto go_through = [&](fault_kind kind, time_point at) {
    detail::shuffle(cut, draws);
    for (const std::uint32_t host : cut) {
      std::vector<std::uint32_t> others;
      for (std::uint32_t other = 0; other < hosts; ++other) {
        if (other != host) others.push_back(other);
      }
      plan.faults.push_back({at, kind, {host}, std::move(others), 0});
      at = at + step;
    }
  };
  go_through(fault_kind::partition, begin);
  go_through(fault_kind::heal, begin + step * count);
  return plan;
}

inline result<fault_plan> parse_preemptions(std::string_view text, const std::string& name) {
  fault_plan plan;
  bool header = false;
  CAUSEWAY_TRY(
      detail::for_each_line(text, name, [&](std::string_view line, const detail::text_place& place) -> result<void> {
        const auto fields = detail::split(line, ',');
        if (!std::exchange(header, true)) {
          if (fields == std::vector<std::string_view>{"seconds", "host", "event"}) return {};
          return place.wrong("the first line must be \"seconds,host,event\"");
        }
        if (fields.size() != 3) return place.wrong("wants three fields: seconds,host,event");
        fault f;
        CAUSEWAY_ASSIGN(f.at, detail::moment_from(fields[0], place));
        CAUSEWAY_ASSIGN(f.hosts, detail::hosts_from(fields[1], place));
        if (fields[2] != "preempt" && fields[2] != "join") return place.wrong("the event must be preempt or join");
        f.kind = fields[2] == "join" ? fault_kind::restart : fault_kind::power_off;
        plan.faults.push_back(std::move(f));
        return {};
      }));
  plan.sort();
  return plan;
}

}  // namespace causeway::inline CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_FAULT_PROFILE_HPP
