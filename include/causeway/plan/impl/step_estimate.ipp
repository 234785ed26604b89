// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_STEP_ESTIMATE_IPP
#define CAUSEWAY_PLAN_IMPL_STEP_ESTIMATE_IPP

#include <causeway/plan/step_estimate.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

/// One replica's two passes; `links`: null for free ones.
CAUSEWAY_DECL double replica_seconds(const step_work& work, const placement& where, std::span<const double> speeds,
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

CAUSEWAY_DECL double stage_average(const link_matrix& links, const placement& where, const step_work& work,
                                   std::size_t stage) {
  return data_parallel_seconds(links, where.group(stage), {where.replicas, where.stages(), work.gradient_bytes[stage], 0});
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL step_estimate estimate_step(const link_matrix& links, const placement& where, std::span<const double> speeds,
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

CAUSEWAY_DECL step_estimate refine_by_swaps(const link_matrix& links, placement& where, std::span<const double> speeds,
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

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_STEP_ESTIMATE_IPP
