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

namespace detail {

class pipeline_planner {
 public:
  CAUSEWAY_DECL pipeline_planner(const transformer_shape& shape, const link_matrix& links,
                                 std::span<const compute_device> devices, const pipeline_plan_options& options);

  [[nodiscard]] std::span<const double> speeds() const noexcept { return speeds_; }

  CAUSEWAY_DECL [[nodiscard]] pipeline_task task(std::size_t replicas, std::size_t stages) const;

  /// The cut for these devices: each stage is as fast, and as large, as the least of its replicas.
  CAUSEWAY_DECL [[nodiscard]] result<pipeline_plan> cut(placement where) const;

  /// The best plan of this shape, with a search of `search`. DTFM is asked twice: as in the paper, where a replica's
  /// activations cross each hop as one message, and with messages that go on as micro-batches, so that the hops' times
  /// overlap: then a hop costs about 1 / (stages - 1) of that. The order of the list is tried too: it is often by site.
  CAUSEWAY_DECL [[nodiscard]] result<pipeline_plan> run(std::size_t replicas, std::size_t stages,
                                                        const dtfm_options& search) const;

 private:
  [[nodiscard]] std::size_t share(std::size_t replicas) const { return (options_.global_batch + replicas - 1) / replicas; }

  CAUSEWAY_DECL void set_work(pipeline_plan& p) const;

  /// Cut, and refined where that is wanted and helps.
  CAUSEWAY_DECL [[nodiscard]] result<pipeline_plan> arranged(placement where, const dtfm_options& search) const;

  transformer_shape shape_;
  const link_matrix& links_;
  std::vector<compute_device> devices_;
  pipeline_plan_options options_;
  double tokens_ = 0;
  model_cost model_;
  std::vector<double> speeds_;
};

CAUSEWAY_DECL result<void> check_pipeline_plan(const link_matrix& links, std::span<const compute_device> devices,
                                               const pipeline_plan_options& o);

}  // namespace detail

/// The shapes (replicas, stages) that `options` leave open, for a model of `layers` blocks on `devices` devices.
CAUSEWAY_DECL std::vector<std::pair<std::size_t, std::size_t>> pipeline_shapes(std::size_t layers, std::size_t devices,
                                                                               const pipeline_plan_options& options);

namespace detail {

/// Searches each shape a little, the better quarter of them six times as long, and so on (successive halving, Jamieson and
/// Talwalkar 2016): the last ones with the whole of `search`.
CAUSEWAY_DECL result<pipeline_plan> best_of_shapes(const pipeline_planner& planner,
                                                   const std::vector<std::pair<std::size_t, std::size_t>>& shapes,
                                                   const dtfm_options& search);

}  // namespace detail

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
