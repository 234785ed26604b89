// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_BENCH_TRACES_PUBLISHED_SHARE_HPP
#define CAUSEWAY_BENCH_TRACES_PUBLISHED_SHARE_HPP

// Bamboo's 3.7 times, from the other thing that its authors say of checkpoints: how little of the time is progress with
// them. A restart's cost is fitted to the one figure, the other is then what our replays predict.

#include <algorithm>
#include <cstdint>

#include "policies.hpp"

namespace traces {

// GPT-2 on 64 p3 instances for a day, under checkpoints (Bamboo, NSDI 2023, motivation; recalled):
inline constexpr double bamboo_progress = 0.23;  // of the time; the rest were restarts, and steps done again
inline constexpr double bamboo_moments = 127;    // at which instances were lost

/// 64 instances for a day, `percent` of them lost in an hour. Sizes of bulks and the delay until a replacement comes are
/// those of the trace that Parcae and Oobleck publish (p3, 11.4 hours: 167 losses at 79 moments, 24.0 of 32 there).
inline preemption_trace day_of_losses(double percent, std::uint64_t seed) {
  trace_options o;
  o.instances = 64;
  o.hourly_loss_share = percent / 100;
  o.bulk = 2.1;
  o.replacement = 1950;
  return make_trace(o, seed);
}

/// 17.8 % an hour: with seed 1 instances are lost at 128 moments.
inline preemption_trace bamboo_day(std::uint64_t seed) { return day_of_losses(17.8, seed); }

/// The part of the time in which samples were computed that count.
inline double progress(const replay_result& r) {
  return r.computed > 0 ? (1 - (r.paused + r.stalled) / r.seconds) * r.committed / r.computed : 0;
}

/// Seconds of a restart, its load not counted, from which on checkpoint_restart makes no more than `share` progress.
inline double restart_for_progress(const preemption_trace& t, const setting& s, double share) {
  double low = 0, high = 36000;
  while (high - low > 1) {
    const double middle = (low + high) / 2;
    (progress(restart(t, s, middle)) <= share ? high : low) = middle;
  }
  return high;
}

/// Redundant's throughput in terms of checkpoint_restart's with such restarts.
inline double redundant_over(const preemption_trace& t, const setting& s, double restart_seconds) {
  const replay_result shadowed = redundant(t, s, s.redundant_stages, s.redundant_regroup);
  return shadowed.throughput() / restart(t, s, restart_seconds).throughput();
}

/// The least and the most of `redundant_over` on ten days, each with the restart that fits it.
struct spread {
  double least, most;
};
inline spread redundant_over_ten_days(const setting& s) {
  spread out{1e9, 0};
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const preemption_trace t = bamboo_day(seed);
    const double times = redundant_over(t, s, restart_for_progress(t, s, bamboo_progress));
    out = {std::min(out.least, times), std::max(out.most, times)};
  }
  return out;
}

}  // namespace traces

#endif  // CAUSEWAY_BENCH_TRACES_PUBLISHED_SHARE_HPP
