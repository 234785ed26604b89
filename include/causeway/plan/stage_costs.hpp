// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_STAGE_COSTS_HPP
#define CAUSEWAY_PLAN_STAGE_COSTS_HPP

// What a pipeline's stages and the links between them cost, in seconds and bytes: the delay and bandwidth model of
// CrossPipe and Varuna's calibration. Also jitter: how much one operation or message differs from that.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/plan/schedule.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// Seconds that one micro-batch takes in one virtual stage.
struct stage_cost {
  double forward = 1;
  double input_gradient = 1;
  double weight_gradient = 1;
  double recompute = 1;

  /// Of one operation; a backward is both halves.
  [[nodiscard]] constexpr double of(work kind) const noexcept {
    switch (kind) {
      case work::forward: return forward;
      case work::backward: return input_gradient + weight_gradient;
      case work::input_gradient: return input_gradient;
      case work::weight_gradient: return weight_gradient;
      case work::recompute: return recompute;
    }
    return 0;
  }
};

/// What it takes from one virtual stage to the next. A message occupies its link for bytes / bytes_per_second and arrives
/// `latency` seconds later. A link carries one message at a time in each direction, and a sender does not wait.
struct edge_cost {
  double latency = 0;         ///< seconds
  double bytes_forward = 0;   ///< activations of one micro-batch
  double bytes_backward = 0;  ///< their gradients
  double bytes_per_second = std::numeric_limits<double>::infinity();
};

/// The costs of a pipeline. Virtual stages of the same rank share its links.
struct stage_costs {
  std::vector<stage_cost> stages;  ///< [virtual stage]
  std::vector<edge_cost> edges;    ///< [v]: between virtual stages v and v + 1; one fewer than stages
};

/// Stages that are all alike, and so are their links.
CAUSEWAY_DECL [[nodiscard]] stage_costs equal_costs(std::uint32_t virtual_stages, const stage_cost& stage = {},
                                                    const edge_cost& edge = {});

/// How far operations and messages take another time than their cost: each has a factor of its own,
/// exp(sigma z - sigma^2 / 2) with z standard normal, so that its mean is 1. The factor depends on the seed and on what it
/// is for, not on when it is drawn: different orders of the same operations meet the same luck.
struct jitter {
  double sigma = 0;  ///< 0: none
  std::uint64_t seed = 0;

  CAUSEWAY_DECL [[nodiscard]] double factor(std::uint32_t stage, const operation& op, bool message) const;
};

/// Whether costs are as many as the stages of a pipeline, none below 0, and none above 1e18 seconds or bytes (so that sums
/// stay finite).
CAUSEWAY_DECL [[nodiscard]] result<void> check(const stage_costs& costs, std::uint32_t virtual_stages);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/stage_costs.ipp>
#endif

#endif  // CAUSEWAY_PLAN_STAGE_COSTS_HPP
