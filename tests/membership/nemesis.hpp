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

/// Few peers, hardly any peace: leaders change many times a round, members restart within a round, messages overtake each
/// other. Rarely makes a round; made to reach what only happens when several things go wrong at once.
inline void make_stormy(cluster& c) {
  c.latency = c.uniform(0.005, 0.2);
  c.training_time = 0.02;
  c.transfer_time = c.uniform(0.01, 0.3);
  c.restart_after = c.uniform(0.15, 1);
  c.mischief.crash = c.uniform(0, 0.15);
  c.mischief.duplicate = c.uniform(0, 0.2);
  c.mischief.reorder = c.uniform(0, 0.5);
  c.mischief.exchange_fails = c.uniform(0, 0.5);
  c.mischief.diverge = c.chance(0.2) ? 0.05 : 0;
}

inline options stormy_options(std::size_t peers) {
  using std::chrono::milliseconds;
  options o;
  o.run = 9;
  o.expected = static_cast<std::uint32_t>(peers);
  o.quota = 24;
  o.heartbeat = milliseconds{200};
  o.silence = {.floor = milliseconds{400}, .cap = milliseconds{900}};
  o.grace = {.floor = milliseconds{50}, .cap = milliseconds{500}};
  o.vote = {.floor = milliseconds{100}, .cap = milliseconds{500}};
  o.exchange = {.floor = milliseconds{300}, .cap = milliseconds{1000}};
  return o;
}

/// One mishap of a storm: a short cut, a split, a crash, or many.
inline void one_squall(cluster& c) {
  const std::size_t n = c.hosts.size();
  const std::size_t a = c.below(n);
  const std::size_t b = c.below(n);
  switch (c.below(6)) {
    case 0: c.crash(*c.hosts[a]); break;
    case 1: c.break_link(a, b, 0.1); break;
    case 2:
      if (a == b) break;
      c.between(a, b).cut = true;
      c.after(c.uniform(0.1, 2), [&c, a, b] {
        c.break_link(a, b, 0.1);
        c.between(a, b).cut = false;
      });
      break;
    case 3: {
      std::vector<bool> side(n);
      for (std::size_t i = 0; i < n; ++i) side[i] = c.chance(0.5);
      cut_all(c, side, true);
      c.after(c.uniform(0.2, 2), [&c] { heal(c); });
      break;
    }
    default: break;
  }
  for (auto& h : c.hosts) {
    if (!h->process && c.chance(0.5)) c.boot(*h);
  }
}

/// All heals; then the run has to go on. Runs with a planted bug end here.
inline outcome aftermath(cluster& c) {
  outcome o;
  const planted bug = c.mischief.bug;
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
  }
  for (auto& h : c.hosts) {
    if (!o.stuck.empty() && h->process) o.stuck += "\n" + h->process->describe(c.now);
  }
  o.violation = c.violation;
  o.crashes = c.crashes;
  o.steps = c.steps;
  return o;
}

using event_log = std::function<void(const event&)>;

inline void start(cluster& c, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) c.add();
  c.boot(*c.hosts[0], true);
  for (std::size_t i = 1; i < n; ++i) c.boot(*c.hosts[i]);
}

inline chaos with(planted bug) {
  chaos c;
  c.bug = bug;
  return c;
}

/// A run with trouble for `troubled` seconds, then peace.
inline outcome rough_ride(std::uint64_t seed, planted bug = planted::nothing, double troubled = 60,
                          const event_log& log = {}) {
  rng draw{seed, 99};
  const std::size_t n = 3 + draw.below(5);
  cluster c{seed, test_options(n), with(bug)};
  c.log = log;
  c.latency = c.uniform(0.001, 0.1);
  c.training_time = c.uniform(0.5, 3);
  c.transfer_time = c.uniform(0.05, 2);
  start(c, n);
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
  return aftermath(c);
}

/// The same in a storm.
inline outcome storm(std::uint64_t seed, planted bug = planted::nothing, double troubled = 30, const event_log& log = {}) {
  rng draw{seed, 98};
  const std::size_t n = 3 + draw.below(3);
  cluster c{seed, stormy_options(n), with(bug)};
  c.log = log;
  start(c, n);
  c.run_for(c.uniform(0, 2));
  make_stormy(c);
  const double pace = c.uniform(0.05, 1);
  const time_point end = c.now + for_seconds(troubled);
  while (c.now < end && c.violation.empty()) {
    c.run_for(c.uniform(0, 2 * pace));
    one_squall(c);
  }
  return aftermath(c);
}

}  // namespace causeway::test

#endif  // CAUSEWAY_TESTS_MEMBERSHIP_NEMESIS_HPP
