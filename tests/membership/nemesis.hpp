// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_MEMBERSHIP_NEMESIS_HPP
#define CAUSEWAY_TESTS_MEMBERSHIP_NEMESIS_HPP

// Everything that can go wrong, drawn from a seed: crashes, disks, splits, black holes, newcomers, leavers. Then all heals,
// and the run has to go on.

#include "membership/cluster.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace causeway::test {

struct outcome {
  std::string violation;     ///< what the checker said
  std::string stuck;         ///< why the run did not go on after everything had healed
  std::uint64_t rounds = 0;  ///< committed while things went wrong
  std::uint64_t crashes = 0;
  std::uint64_t steps = 0;
  double recovery = 0;  ///< seconds from healing to the next commit
};

inline options test_options(std::size_t peers) {
  options o;
  o.run = 9;
  o.expected = static_cast<std::uint32_t>(peers);
  o.quota = 24;
  o.grace.cap = std::chrono::seconds{20};
  return o;
}

inline void cut_all(cluster& c, const std::vector<bool>& side, bool cut) {
  for (std::size_t a = 0; a < c.hosts.size(); ++a) {
    for (std::size_t b = a + 1; b < c.hosts.size(); ++b) {
      if (side[a] == side[b]) continue;
      c.between(a, b).cut = cut;
      if (cut && c.chance(0.5)) c.break_link(a, b, 1);
    }
  }
}

inline void heal(cluster& c) {
  for (std::size_t a = 0; a < c.hosts.size(); ++a) {
    for (std::size_t b = a + 1; b < c.hosts.size(); ++b) {
      if (c.between(a, b).cut) c.break_link(a, b, 0.1);  // a connection does not survive a hole of this kind
      c.between(a, b).cut = false;
    }
  }
}

inline void one_mishap(cluster& c, std::size_t most) {
  const std::size_t n = c.hosts.size();
  host& h = *c.hosts[c.below(n)];
  switch (c.below(9)) {
    case 0:
    case 1:
      c.crash(h);
      c.after(c.uniform(0.1, 20), [&c, &h] { c.boot(h); });
      break;
    case 2: {
      const std::size_t other = c.below(n);
      if (other == h.index) break;
      c.between(h.index, other).cut = true;
      c.after(c.uniform(0.5, 20), [&c, a = h.index, other] {
        c.break_link(a, other, 0.1);
        c.between(a, other).cut = false;
      });
      break;
    }
    case 3:
    case 4: {
      std::vector<bool> side(n);
      for (std::size_t i = 0; i < n; ++i) side[i] = c.chance(0.5);
      cut_all(c, side, true);
      c.after(c.uniform(1, 20), [&c] { heal(c); });
      break;
    }
    case 5: c.break_link(h.index, c.below(n), 0.5); break;
    case 6:
      if (n < most) c.boot(c.add());
      break;
    case 7:
      if (n > 4 && c.chance(0.2)) h.wants_out = true;
      break;
    case 8:  // several at once
      for (std::size_t i = 0; i < 1 + n / 2; ++i) {
        host& victim = *c.hosts[c.below(n)];
        c.crash(victim);
        c.after(c.uniform(0.1, 10), [&c, &victim] { c.boot(victim); });
      }
      break;
    default: break;
  }
}

/// A run with trouble for `troubled` seconds, then peace. `bug`: planted; such a run ends with the chaos.
inline outcome rough_ride(std::uint64_t seed, planted bug = planted::nothing, double troubled = 60,
                          const std::function<void(const event&)>& log = {}) {
  rng draw{seed, 99};
  const std::size_t n = 3 + draw.below(5);
  chaos mischief;
  mischief.bug = bug;
  cluster c{seed, test_options(n), mischief};
  c.log = log;
  c.latency = c.uniform(0.001, 0.1);
  c.training_time = c.uniform(0.5, 3);
  c.transfer_time = c.uniform(0.05, 2);
  for (std::size_t i = 0; i < n; ++i) c.add();
  c.boot(*c.hosts[0], true);
  for (std::size_t i = 1; i < n; ++i) c.boot(*c.hosts[i]);
  c.run_for(c.uniform(1, 8));

  if (c.chance(0.6)) c.mischief.crash = c.uniform(0, 0.05);
  if (c.chance(0.3)) c.mischief.disk = c.uniform(0, 0.02);
  if (c.chance(0.4)) c.mischief.duplicate = c.uniform(0, 0.1);
  if (c.chance(0.5)) c.mischief.exchange_fails = c.uniform(0, 0.2);
  if (c.chance(0.3)) c.mischief.slow = c.uniform(0, 0.2);
  if (c.chance(0.1)) c.mischief.diverge = c.uniform(0, 0.05);
  const double pace = c.uniform(0.3, 6);
  const time_point end = c.now + for_seconds(troubled);
  while (c.now < end && c.violation.empty()) {
    c.run_for(c.uniform(0, 2 * pace));
    one_mishap(c, n + 3);
  }

  outcome o;
  c.mischief = {};
  c.mischief.bug = bug;
  heal(c);
  c.peace = true;
  for (auto& h : c.hosts) c.come_back(*h);
  o.rounds = c.newest;
  const time_point healed = c.now;
  const std::uint64_t before = c.newest;
  if (c.violation.empty() && bug == planted::nothing) {
    if (!c.run_until_true(120, [&] { return c.newest > before + 1; })) o.stuck = "no new commit";
    o.recovery = seconds(c.now - healed);
    if (o.stuck.empty() && !c.run_until_true(120, [&] { return c.agreed(); })) o.stuck = "not all caught up";
    if (!o.stuck.empty()) {
      for (auto& h : c.hosts) {
        if (h->process) o.stuck += "\n" + h->process->describe(c.now);
      }
    }
  }
  o.violation = c.violation;
  o.crashes = c.crashes;
  o.steps = c.steps;
  return o;
}

}  // namespace causeway::test

#endif  // CAUSEWAY_TESTS_MEMBERSHIP_NEMESIS_HPP
