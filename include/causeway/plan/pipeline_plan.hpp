// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_PIPELINE_PLAN_HPP
#define CAUSEWAY_PLAN_PIPELINE_PLAN_HPP

// A whole plan for training a transformer on devices that are linked unequally: how many stages and replicas, which device
// holds which stage of which replica, where the model is cut, and what a step takes. For each shape DTFM places the stages
// (dtfm.hpp), the cut follows the devices' speed and memory (stage_split.hpp), and swaps against the predicted step follow
// (step_estimate.hpp). Where the shape is open, all are searched a little and the better ones more.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/plan/dtfm.hpp>
#include <causeway/plan/link_matrix.hpp>
#include <causeway/plan/placement.hpp>
#include <causeway/plan/stage_split.hpp>
#include <causeway/plan/step_estimate.hpp>
#include <causeway/plan/transformer_cost.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// A device: operations per second that training reaches on it (not those of the data sheet), and bytes.
struct compute_device {
  double speed = 1e12;
  double memory = std::numeric_limits<double>::infinity();
};

struct pipeline_plan_options {
  std::size_t global_batch = 1;  ///< sequences in a step
  std::size_t micro_batch = 1;   ///< sequences
  std::size_t stages = 0;        ///< 0: any
  std::size_t replicas = 0;      ///< 0: as many as go on the devices, or a half, a quarter, ... of that
  training_bytes bytes{};
  dtfm_options search{};
  bool refine = true;  ///< with swaps against the predicted step
};

struct pipeline_plan {
  placement where;
  stage_split split;
  step_work work;
  step_estimate step;
  placement_cost dtfm;  ///< of `where` in DTFM's model
  std::uint64_t evaluations = 0;

  [[nodiscard]] std::size_t stages() const noexcept { return where.stages(); }
};

/// The plan with the shortest step that the search finds. errc::out_of_memory: the model fits in no shape;
/// errc::invalid_argument: sizes that do not go together. The same input and seed give the same plan.
CAUSEWAY_DECL result<pipeline_plan> plan_pipeline(const transformer_shape& shape, const link_matrix& links,
                                                  std::span<const compute_device> devices,
                                                  const pipeline_plan_options& options);

/// What placements take that know nothing of the links, with the shape of `like` and the devices' own cut.
struct blind_steps {
  double mean = 0;        ///< of `draws` random placements
  double median = 0;      ///<
  double by_stage = 0;    ///< the devices in the order of their list, stage by stage
  double by_replica = 0;  ///< replica by replica: round robin over the stages
  double dtfm = 0;        ///< the mean cost of random placements in DTFM's model
};

/// Placements whose devices cannot hold what they get are left out; 0 where none can.
CAUSEWAY_DECL blind_steps estimate_blind(const transformer_shape& shape, const link_matrix& links,
                                         std::span<const compute_device> devices, const pipeline_plan_options& options,
                                         std::size_t replicas, std::size_t stages, std::size_t draws = 200);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/pipeline_plan.ipp>
#endif

#endif  // CAUSEWAY_PLAN_PIPELINE_PLAN_HPP
