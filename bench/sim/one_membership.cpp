// SPDX-License-Identifier: Apache-2.0
// A swarm whose peers are one membership, with a record for each step of all stages, against one membership for each stage,
// where a step is over when every stage has committed it. The membership's own protocol on virtual time; trainers are a
// wait. Of the losses half are killed, which their neighbours' connections tell; half fall silent.

#include "membership/nemesis.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace causeway::test;

struct history {
  std::vector<double> seconds;  ///< of each round
  std::uint64_t messages = 0;
  std::uint64_t most_sent = 0;  ///< bytes, by one peer
  std::uint64_t losses = 0;
};

void lose_one(cluster& c) {
  host& h = *c.hosts[c.below(c.hosts.size())];
  if (c.chance(0.5)) {
    c.crash(h);
    return c.after(c.uniform(30, 90), [&c, &h] { c.boot(h); });
  }
  const auto cut = [&c, &h](bool silent) {
    for (std::size_t other = 0; other < c.hosts.size(); ++other) {
      if (!silent) c.break_link(h.index, other, 0.1);  // no connection survives it
      if (other != h.index) c.between(h.index, other).cut = silent;
    }
  };
  cut(true);
  c.after(c.uniform(30, 90), [cut] { cut(false); });
}

/// Of `peers` that train for two seconds a round, of whom so many a minute are lost, and come back after a minute or so.
history rounds_of(std::size_t peers, double minutes, double lost_a_minute, std::uint64_t seed) {
  options o = test_options(peers);
  o.quota = 64;
  cluster c{seed, o};
  c.restart_after = 0;
  c.brings = 4;
  start(c, peers);
  if (!c.run_until_true(120, [&] { return c.newest >= 2 && c.agreed(); })) std::exit(1);
  history seen;
  double last = causeway::seconds(c.now.since_start);
  c.log = [&, newest = c.newest](const event& e) mutable {
    if (e.what != event::commit || e.round <= newest) return;
    newest = e.round;
    seen.seconds.push_back(causeway::seconds(c.now.since_start) -
                           std::exchange(last, causeway::seconds(c.now.since_start)));
  };
  const auto messages = c.messages;
  const std::function<void()> lose = [&] {
    if (lost_a_minute <= 0) return;
    c.after(-60 / lost_a_minute * std::log(c.uniform(1e-6, 1)), [&] {
      ++seen.losses;
      lose_one(c);
      lose();
    });
  };
  lose();
  c.run_for(60 * minutes);
  if (!c.violation.empty()) std::printf("%s\n", c.violation.c_str());
  seen.messages = c.messages - messages;
  for (const auto& h : c.hosts) seen.most_sent = std::max(seen.most_sent, h->sent);
  return seen;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

/// The steps of a swarm of these stages.
std::vector<double> steps_of(const std::vector<history>& stages) {
  std::vector<double> steps = stages.front().seconds;
  for (const history& stage : stages) {
    steps.resize(std::min(steps.size(), stage.seconds.size()));
    for (std::size_t i = 0; i < steps.size(); ++i) steps[i] = std::max(steps[i], stage.seconds[i]);
  }
  return steps;
}

double longest(const std::vector<double>& values) { return values.empty() ? 0 : *std::ranges::max_element(values); }

void compare(std::size_t peers, std::size_t stages, double minutes, double share) {
  const history one = rounds_of(peers, minutes, share * static_cast<double>(peers), 1);
  std::vector<history> each;
  std::uint64_t messages = 0;
  for (std::size_t i = 0; i < stages; ++i) {
    const std::size_t part = peers / stages;
    each.push_back(rounds_of(part, minutes, share * static_cast<double>(part), 10 + i));
    messages += each.back().messages;
  }
  const auto steps = steps_of(each);
  const auto rounds = static_cast<double>(one.seconds.size());
  std::printf("| %zu | %zu | %.0f %% (%llu) | %.2f (%.1f) | %.0f | %.0f | %.2f (%.1f) | %.0f |\n", peers, stages,
              100 * share, static_cast<unsigned long long>(one.losses), mean(one.seconds), longest(one.seconds),
              static_cast<double>(one.messages) / rounds, static_cast<double>(one.most_sent) / 1e3 / rounds, mean(steps),
              longest(steps), static_cast<double>(messages) / static_cast<double>(steps.size()));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const double minutes = argc > 1 ? std::atof(argv[1]) : 10;
  std::printf("%.0f virtual minutes; in brackets: losses, the longest step\n\n", minutes);
  std::printf(
      "| peers | stages | lost a minute | one membership: step, s | messages | busiest peer, kB | "
      "one for each stage: step, s | messages |\n|---|---|---|---|---|---|---|---|\n");
  for (const std::size_t peers : {std::size_t{64}, std::size_t{200}}) {
    for (const double share : {0.0, 0.01, 0.05}) compare(peers, 8, minutes, share);
  }
}
