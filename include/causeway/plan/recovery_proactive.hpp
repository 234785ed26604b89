// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_RECOVERY_PROACTIVE_HPP
#define CAUSEWAY_PLAN_RECOVERY_PROACTIVE_HPP

// proactive: Parcae (Duan et al., NSDI 2024). Every interval, and at every loss, the number of peers is forecast from how
// many there were (availability.hpp), and pipelines take the shape that is best for what is expected (liveput.hpp), before
// peers go. A peer that is lost is made good from its own stage first, then by spares and peers of stages that have too
// many. The weights are also on a server that is not taken away (ParcaePS), whose cost is not counted: no checkpoint is
// gone back to, the step under way begins again. Intervals are counted in steps; the paper's are a minute.

#include <causeway/config/config.hpp>
#include <causeway/plan/availability.hpp>
#include <causeway/plan/liveput.hpp>
#include <causeway/plan/recovery.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

struct proactive_options {
  std::size_t most_stages = 1;                                     ///< of a shape
  double device_memory = std::numeric_limits<double>::infinity();  ///< bytes of parameters and optimizer state
  double interval = 60;                                            ///< seconds between plans, in whole steps
  std::size_t lookahead = 4;                                       ///< intervals
  std::size_t history = 60;                                        ///< intervals that the forecast is fitted to
  liveput_options draws{16, 1};
};

class proactive_recovery {
 public:
  CAUSEWAY_DECL proactive_recovery(const recovery_job& job, const proactive_options& options);

  CAUSEWAY_DECL recovery_action changed(std::span<const std::uint32_t> lost, std::span<const std::uint32_t> come);

  CAUSEWAY_DECL recovery_action boundary();

  [[nodiscard]] double step_seconds() const { return step_; }
  [[nodiscard]] double checkpoint_bytes() const { return 0; }
  [[nodiscard]] const pipeline_shape& shape() const { return shape_; }

 private:
  CAUSEWAY_DECL [[nodiscard]] std::size_t peers() const;

  /// What a step of a shape takes; infinite if it does not fit.
  CAUSEWAY_DECL double seconds(const pipeline_shape& s);

  /// From the shape that is, which `before` peers had, to the first of the best sequence for what is forecast.
  CAUSEWAY_DECL pipeline_shape next_shape(std::size_t before);

  CAUSEWAY_DECL [[nodiscard]] double largest_stage();

  /// Moves peers so that there are pipelines of this shape: seconds.
  CAUSEWAY_DECL double take(const pipeline_shape& next, bool broken);

  /// Stages with too few peers take spares, and from stages with too many. How many peers changed.
  CAUSEWAY_DECL std::size_t deal();

  const recovery_job* job_;
  proactive_options options_;
  pipeline_shape shape_;
  std::vector<std::vector<std::uint32_t>> of_stage_;  // of some more peers than the shape has replicas, after it shrank
  std::vector<std::uint32_t> spare_;
  std::vector<std::size_t> history_;
  double step_ = no_step, elapsed_ = 0;
  std::map<std::pair<std::size_t, std::size_t>, double> seconds_;  // of (replicas, stages)
  std::map<std::vector<std::size_t>, pipeline_shape> planned_;     // of the shape, what it had, and the forecast
};

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/recovery_proactive.ipp>
#endif

#endif  // CAUSEWAY_PLAN_RECOVERY_PROACTIVE_HPP
