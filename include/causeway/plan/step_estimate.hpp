// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_STEP_ESTIMATE_HPP
#define CAUSEWAY_PLAN_STEP_ESTIMATE_HPP

// How long a training step takes on given devices and links, and where the time goes. Each replica runs its micro-batches
// through its stages as in GPipe: all forward, then all backward. Stages and links are machines that each micro-batch takes
// alike, so a pass takes the first one's way through all of them and the slowest machine's time for each further one: exact
// (a flow shop of equal jobs). Links carry both directions at once and do not disturb one another. When the slowest replica
// is through, each stage's replicas average their gradients as in DTFM's model (placement.hpp). Nothing of the average is
// overlapped.

#include <causeway/config/config.hpp>
#include <causeway/plan/link_matrix.hpp>
#include <causeway/plan/placement.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::plan {

/// What a step consists of. Seconds are those of a device of speed 1.
struct step_work {
  std::vector<double> forward;         ///< of one micro-batch, each stage
  std::vector<double> backward;        ///< with what is recomputed
  std::vector<double> gradient_bytes;  ///< of each stage
  double message_bytes = 0;            ///< of one micro-batch between two stages, and its gradient back
  std::size_t micro_batches = 1;       ///< of one replica, at least 1
};

/// Seconds of a step, in parts that add up.
struct step_estimate {
  double compute = 0;               ///< that the busiest device of the slowest replica computes
  double bubble = 0;                ///< that it waits for other stages' work
  double activations = 0;           ///< that the replica's messages add to that: exposed communication
  double averaging = 0;             ///< of gradients: exposed communication too
  std::size_t replica = 0;          ///< the slowest
  std::size_t averaging_stage = 0;  ///< whose average takes the longest

  [[nodiscard]] double exposed() const noexcept { return activations + averaging; }
  [[nodiscard]] double total() const noexcept { return compute + bubble + activations + averaging; }
};

namespace detail {

/// One replica's two passes; `links`: null for free ones.
inline double replica_seconds(const step_work& work, const placement& where, std::span<const double> speeds,
                              const link_matrix* links, std::size_t replica) {
  double down = 0, up = 0, slowest_down = 0, slowest_up = 0;
  const auto add = [](double seconds, double latency, double& sum, double& slowest) {
    sum += seconds + latency;
    slowest = std::max(slowest, seconds);
  };
  for (std::size_t s = 0; s < where.stages(); ++s) {
    const std::size_t device = where.device(s, replica);
    add(work.forward[s] / speeds[device], 0, down, slowest_down);
    add(work.backward[s] / speeds[device], 0, up, slowest_up);
    if (links == nullptr || s + 1 == where.stages()) continue;
    const link_cost& out = (*links)(device, where.device(s + 1, replica));
    const link_cost& back = (*links)(where.device(s + 1, replica), device);
    add(8 * work.message_bytes / out.bandwidth, out.delay, down, slowest_down);
    add(8 * work.message_bytes / back.bandwidth, back.delay, up, slowest_up);
  }
  return down + up + static_cast<double>(work.micro_batches - 1) * (slowest_down + slowest_up);
}

inline double stage_average(const link_matrix& links, const placement& where, const step_work& work, std::size_t stage) {
  return data_parallel_seconds(links, where.group(stage), {where.replicas, where.stages(), work.gradient_bytes[stage], 0});
}

}  // namespace detail

/// The step of `where`; device d computes at `speeds[d]`, which is above 0.
inline step_estimate estimate_step(const link_matrix& links, const placement& where, std::span<const double> speeds,
                                   const step_work& work) {
  CAUSEWAY_EXPECT(speeds.size() == links.size() && work.forward.size() == where.stages() && work.micro_batches > 0);
  step_estimate e;
  double slowest = 0;
  for (std::size_t r = 0; r < where.replicas; ++r) {
    const double seconds = detail::replica_seconds(work, where, speeds, &links, r);
    if (seconds > slowest) slowest = seconds, e.replica = r;
  }
  for (std::size_t s = 0; s < where.stages(); ++s) {
    const double busy =
        static_cast<double>(work.micro_batches) * (work.forward[s] + work.backward[s]) / speeds[where.device(s, e.replica)];
    e.compute = std::max(e.compute, busy);
    const double average = detail::stage_average(links, where, work, s);
    if (average > e.averaging) e.averaging = average, e.averaging_stage = s;
  }
  const double without_links = detail::replica_seconds(work, where, speeds, nullptr, e.replica);
  e.bubble = without_links - e.compute;
  e.activations = slowest - without_links;
  return e;
}

/// Swaps devices of `where` with one another, and with those that it leaves out, as long as that makes the step shorter;
/// at most `evaluations` tries. DTFM's cost takes all devices as equally fast and a batch as one message: this does not.
inline step_estimate refine_by_swaps(const link_matrix& links, placement& where, std::span<const double> speeds,
                                     const step_work& work, std::size_t evaluations) {
  std::vector<char> used(links.size());
  for (const std::size_t d : where.devices) used[d] = 1;
  std::vector<std::size_t> all = where.devices;
  for (std::size_t d = 0; d < links.size(); ++d) {
    if (used[d] == 0) all.push_back(d);
  }
  const std::size_t placed = where.devices.size();
  step_estimate best = estimate_step(links, where, speeds, work);
  for (bool helped = true; helped && evaluations > 0;) {
    helped = false;
    for (std::size_t a = 0; a < placed; ++a) {
      for (std::size_t b = a + 1; b < all.size() && evaluations > 0; ++b, --evaluations) {
        std::swap(all[a], all[b]);
        where.devices[a] = all[a];
        if (b < placed) where.devices[b] = all[b];
        const step_estimate next = estimate_step(links, where, speeds, work);
        if (next.total() < best.total() * (1 - 1e-9)) {
          best = next;
          helped = true;
          continue;
        }
        std::swap(all[a], all[b]);
        where.devices[a] = all[a];
        if (b < placed) where.devices[b] = all[b];
      }
    }
  }
  return best;
}

}  // namespace causeway::inline CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_STEP_ESTIMATE_HPP
