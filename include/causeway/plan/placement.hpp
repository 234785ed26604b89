// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_PLACEMENT_HPP
#define CAUSEWAY_PLAN_PLACEMENT_HPP

// Which device holds which stage of which replica, and what that costs on the links in the model of DTFM (Yuan et al.,
// NeurIPS 2022, arXiv 2206.01288): the stage's gradients are averaged by a sharded parameter server within its group of
// devices, and each hop between two stages waits for its slowest pair.

#include <causeway/config/config.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/plan/link_matrix.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::plan {

/// What is to be placed: `replicas` pipelines of `stages` stages.
struct pipeline_task {
  std::size_t replicas = 1;     ///< D_DP, at least 1
  std::size_t stages = 1;       ///< D_PP, at least 1
  double stage_bytes = 0;       ///< of a stage's gradients, that its replicas average: c_dp
  double activation_bytes = 0;  ///< of a replica's activations between two stages in a step: c_pp
};

/// A device for each (stage, replica).
struct placement {
  std::size_t replicas = 0;
  std::vector<std::size_t> devices;  ///< stage by stage

  [[nodiscard]] std::size_t stages() const noexcept { return replicas == 0 ? 0 : devices.size() / replicas; }
  [[nodiscard]] std::size_t device(std::size_t stage, std::size_t replica) const {
    CAUSEWAY_EXPECT(replica < replicas && stage < stages());
    return devices[stage * replicas + replica];
  }
  /// The devices that hold `stage`.
  [[nodiscard]] std::span<const std::size_t> group(std::size_t stage) const {
    CAUSEWAY_EXPECT(stage < stages());
    return std::span{devices}.subspan(stage * replicas, replicas);
  }

  friend bool operator==(const placement&, const placement&) = default;
};

/// Seconds on the links in a step.
struct placement_cost {
  double data_parallel = 0;  ///< the slowest device of all groups
  double pipeline = 0;       ///< one direction, all hops

  /// Forward and backward, and the average.
  [[nodiscard]] double total() const noexcept { return data_parallel + 2 * pipeline; }
};

namespace detail {

/// What one of a group of `replicas` devices pays for another: its share of the other's gradients, and back.
inline double exchange_seconds(const link_matrix& links, std::size_t a, std::size_t b, const pipeline_task& task) {
  return 2 * links.mean_seconds(a, b, task.stage_bytes / static_cast<double>(task.replicas));
}

}  // namespace detail

/// Seconds in which the devices `group` average the gradients of their stage:
///   max over d of the sum over d' != d of 2 (A(d,d') + c_dp / (D_DP B(d,d'))).
/// Where the directions of a link differ, 2 x is both directions.
inline double data_parallel_seconds(const link_matrix& links, std::span<const std::size_t> group,
                                    const pipeline_task& task) {
  double slowest = 0;
  for (const std::size_t d : group) {
    double sum = 0;
    for (const std::size_t other : group) {
      if (other != d) sum += detail::exchange_seconds(links, d, other, task);
    }
    slowest = std::max(slowest, sum);
  }
  return slowest;
}

/// What `where` costs as it stands: nothing is paired or ordered anew.
inline placement_cost cost_of(const link_matrix& links, const placement& where, const pipeline_task& task) {
  CAUSEWAY_EXPECT(where.replicas == task.replicas && where.stages() == task.stages);
  placement_cost cost;
  for (std::size_t s = 0; s < task.stages; ++s) {
    cost.data_parallel = std::max(cost.data_parallel, data_parallel_seconds(links, where.group(s), task));
    double hop = 0;
    for (std::size_t r = 0; s + 1 < task.stages && r < task.replicas; ++r) {
      hop = std::max(hop, links.mean_seconds(where.device(s, r), where.device(s + 1, r), task.activation_bytes));
    }
    cost.pipeline += hop;
  }
  return cost;
}

/// Devices 0, 1, 2, ... fill the first stage, then the second: ranks of a stage are neighbours.
inline placement placed_by_stage(const pipeline_task& task) {
  placement p{task.replicas, std::vector<std::size_t>(task.replicas * task.stages)};
  std::iota(p.devices.begin(), p.devices.end(), std::size_t{0});
  return p;
}

/// Devices 0, 1, 2, ... fill the first replica, then the second: round robin over the stages.
inline placement placed_by_replica(const pipeline_task& task) {
  placement p = placed_by_stage(task);
  for (std::size_t s = 0; s < task.stages; ++s) {
    for (std::size_t r = 0; r < task.replicas; ++r) p.devices[s * task.replicas + r] = r * task.stages + s;
  }
  return p;
}

/// Blind to the network: each place gets a device at random.
inline placement placed_at_random(const pipeline_task& task, std::size_t devices, rng& draw) {
  CAUSEWAY_EXPECT(devices >= task.replicas * task.stages);
  std::vector<std::size_t> all(devices);
  std::iota(all.begin(), all.end(), std::size_t{0});
  for (std::size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[draw.below(i)]);
  all.resize(task.replicas * task.stages);
  return {task.replicas, std::move(all)};
}

}  // namespace causeway::inline CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_PLACEMENT_HPP
