// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_PLACEMENT_HPP
#define CAUSEWAY_PLAN_PLACEMENT_HPP

// Which device holds which stage of which replica, and what that costs on the links in the model of DTFM (Yuan et al.,
// NeurIPS 2022, arXiv 2206.01288): the stage's gradients are averaged by a sharded parameter server within its group of
// devices, and each hop between two stages waits for its slowest pair.

#include <causeway/config/config.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/plan/link_matrix.hpp>

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

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
  CAUSEWAY_DECL [[nodiscard]] std::size_t device(std::size_t stage, std::size_t replica) const;
  /// The devices that hold `stage`.
  CAUSEWAY_DECL [[nodiscard]] std::span<const std::size_t> group(std::size_t stage) const;

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
CAUSEWAY_DECL double exchange_seconds(const link_matrix& links, std::size_t a, std::size_t b, const pipeline_task& task);

}  // namespace detail

/// Seconds in which the devices `group` average the gradients of their stage:
///   max over d of the sum over d' != d of 2 (A(d,d') + c_dp / (D_DP B(d,d'))).
/// Where the directions of a link differ, 2 x is both directions.
CAUSEWAY_DECL double data_parallel_seconds(const link_matrix& links, std::span<const std::size_t> group,
                                           const pipeline_task& task);

/// What `where` costs as it stands: nothing is paired or ordered anew.
CAUSEWAY_DECL placement_cost cost_of(const link_matrix& links, const placement& where, const pipeline_task& task);

/// Devices 0, 1, 2, ... fill the first stage, then the second: ranks of a stage are neighbours.
CAUSEWAY_DECL placement placed_by_stage(const pipeline_task& task);

/// Devices 0, 1, 2, ... fill the first replica, then the second: round robin over the stages.
CAUSEWAY_DECL placement placed_by_replica(const pipeline_task& task);

/// Blind to the network: each place gets a device at random.
CAUSEWAY_DECL placement placed_at_random(const pipeline_task& task, std::size_t devices, rng& draw);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/placement.ipp>
#endif

#endif  // CAUSEWAY_PLAN_PLACEMENT_HPP
