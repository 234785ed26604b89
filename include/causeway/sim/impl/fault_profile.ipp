// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_IMPL_FAULT_PROFILE_IPP
#define CAUSEWAY_SIM_IMPL_FAULT_PROFILE_IPP

#include <causeway/sim/fault_profile.hpp>

#include <numeric>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

CAUSEWAY_DECL fault_profile hostile_profile() {
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

CAUSEWAY_DECL fault_profile harsh_profile() {
  return {
      .kill_every = std::chrono::minutes{20}, .partition_every = std::chrono::hours{1}, .stragglers = 0.05, .slowdown = 3};
}

CAUSEWAY_DECL fault_profile datacentre_profile() {
  return {.kill_every = std::chrono::hours{24},
          .down_least = std::chrono::minutes{2},
          .down_most = std::chrono::minutes{10},
          .partition_every = std::chrono::hours{24},
          .partition_least = std::chrono::seconds{30},
          .partition_most = std::chrono::seconds{30},
          .stragglers = 0.01,
          .slowdown = 1.5};
}

}}}  // namespace causeway::CAUSEWAY_ABI::sim

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

CAUSEWAY_DECL duration between(duration least, duration most, rng& draws) {
  return most <= least
             ? least
             : least +
                   duration{static_cast<std::int64_t>(draws.below(static_cast<std::uint64_t>((most - least).count()) + 1))};
}

CAUSEWAY_DECL plan_writer::plan_writer(const fault_profile& profile, std::uint32_t hosts, duration horizon,
                                       std::uint64_t seed)
    : profile_{profile}, hosts_{hosts}, last_{horizon - duration{1}}, seed_{seed} {}

CAUSEWAY_DECL fault_plan plan_writer::write() {
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

CAUSEWAY_DECL void plan_writer::add(duration at, fault_kind kind, std::vector<std::uint32_t> hosts,
                                    std::vector<std::uint32_t> others, double amount) {
  plan_.faults.push_back({time_point{at}, kind, std::move(hosts), std::move(others), amount});
}

CAUSEWAY_DECL void plan_writer::kills(std::uint32_t host) {
  if (profile_.kill_every <= duration{0}) return;
  rng draws = draws_of(1, host);
  const auto life = [&] { return draw_lifetime(profile_.life, profile_.kill_every, draws); };
  periods(life, profile_.down_least, profile_.down_most, draws, [&](duration begin, duration end) {
    add(begin, uniform(draws) < profile_.power_off ? fault_kind::power_off : fault_kind::kill, {host});
    add(end, fault_kind::restart, {host});
  });
}

CAUSEWAY_DECL void plan_writer::stops(std::uint32_t host) {
  rng draws = draws_of(2, host);
  periods_every(profile_.stop_every, profile_.stop_least, profile_.stop_most, draws, [&](duration begin, duration end) {
    add(begin, fault_kind::stop, {host});
    add(end, fault_kind::resume, {host});
  });
}

CAUSEWAY_DECL void plan_writer::slow_lines(std::uint32_t host) {
  if (hosts_ < 2) return;
  rng draws = draws_of(3, host);
  periods_every(profile_.slow_every, profile_.slow_least, profile_.slow_most, draws, [&](duration begin, duration end) {
    const auto other = static_cast<std::uint32_t>((host + 1 + draws.below(hosts_ - 1)) % hosts_);
    add(begin, fault_kind::slow_link, {host}, {other}, profile_.slow_bytes_per_s);
    add(end, fault_kind::slow_link, {host}, {other}, 0);
  });
}

CAUSEWAY_DECL void plan_writer::disk_faults(std::uint32_t host) {
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

CAUSEWAY_DECL std::uint32_t plan_writer::another(std::uint32_t host, rng& draws) const {
  return static_cast<std::uint32_t>((host + 1 + draws.below(hosts_ - 1)) % hosts_);
}

CAUSEWAY_DECL void plan_writer::messages(std::uint32_t host) {
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

CAUSEWAY_DECL void plan_writer::altered_data(std::uint32_t host) {
  if (hosts_ < 2) return;
  rng draws = draws_of(9, host);
  periods_every(profile_.alter_every, profile_.message_least, profile_.message_most, draws,
                [&](duration begin, duration end) {
                  const std::uint32_t other = another(host, draws);
                  add(begin, fault_kind::alter, {host}, {other}, profile_.message_chance);
                  add(end, fault_kind::alter, {host}, {other}, 0);
                });
}

CAUSEWAY_DECL void plan_writer::slow_disks(std::uint32_t host) {
  rng draws = draws_of(10, host);
  periods_every(profile_.slow_disk_every, profile_.slow_disk_least, profile_.slow_disk_most, draws,
                [&](duration begin, duration end) {
                  const bool sync = draws.below(2) == 0;
                  const double amount = sync ? profile_.sync_seconds * uniform(draws) : profile_.disk_bytes_per_s;
                  add(begin, sync ? fault_kind::slow_sync : fault_kind::slow_disk, {host}, {}, amount);
                  add(end, sync ? fault_kind::slow_sync : fault_kind::slow_disk, {host}, {}, 0);
                });
}

CAUSEWAY_DECL void plan_writer::clocks(std::uint32_t host) {
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

CAUSEWAY_DECL void plan_writer::scarcity(std::uint32_t host) {
  rng draws = draws_of(12, host);
  periods_every(profile_.scarce_every, profile_.scarce_least, profile_.scarce_most, draws,
                [&](duration begin, duration end) {
                  const bool memory = draws.below(2) == 0;
                  const fault_kind kind = memory ? fault_kind::no_memory : fault_kind::descriptors;
                  add(begin, kind, {host}, {}, memory ? profile_.message_chance : 1);
                  add(end, kind, {host}, {}, 0);
                });
}

CAUSEWAY_DECL void plan_writer::stragglers() {
  rng draws = draws_of(5, 0);
  for (std::uint32_t host = 0; host < hosts_; ++host) {
    if (uniform(draws) >= profile_.stragglers) continue;
    add(duration{0}, fault_kind::speed, {host}, {}, 1 / profile_.slowdown);
    add(last_, fault_kind::speed, {host}, {}, 1);
  }
}

CAUSEWAY_DECL void plan_writer::partitions() {
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

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

CAUSEWAY_DECL duration draw_lifetime(lifetime life, duration mean, rng& draws) {
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

CAUSEWAY_DECL fault_plan random_plan(const fault_profile& profile, std::uint32_t hosts, duration horizon,
                                     std::uint64_t seed) {
  CAUSEWAY_EXPECT(horizon > duration{0});
  return detail::plan_writer{profile, hosts, horizon, seed}.write();
}

CAUSEWAY_DECL fault_plan swizzle(std::vector<std::uint32_t> cut, std::uint32_t hosts, time_point begin, duration length,
                                 std::uint64_t seed) {
  rng draws{seed, mix(7)};
  const auto count = static_cast<std::int64_t>(std::max<std::size_t>(cut.size(), 1));
  const duration step = length / (2 * count);
  fault_plan plan;
  const auto go_through = [&](fault_kind kind, time_point at) {
    shuffle(cut, draws);
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

CAUSEWAY_DECL result<fault_plan> parse_preemptions(std::string_view text, const std::string& name) {
  fault_plan plan;
  bool header = false;
  CAUSEWAY_TRY(text::for_each_line(text, name, [&](std::string_view line, const text::place& place) -> result<void> {
    const auto fields = text::split(line, ',');
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

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_IMPL_FAULT_PROFILE_IPP
