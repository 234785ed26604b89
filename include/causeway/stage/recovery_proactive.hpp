// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_RECOVERY_PROACTIVE_HPP
#define CAUSEWAY_STAGE_RECOVERY_PROACTIVE_HPP

// The number of stages and pipelines that is best for the peers that are expected, not for those that are there: Parcae
// (Duan et al., NSDI 2024). What the run's history says of earlier intervals is all that the forecast knows, and it is
// voted on, so all peers plan alike. There is no server for the weights (ParcaePS): blocks come from other peers, and a
// stage that nobody has any more is gone back for, which the plan counts. Intervals are counted in steps; the paper's are
// a minute.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/plan/availability.hpp>
#include <causeway/plan/liveput.hpp>
#include <causeway/plan/recovery.hpp>
#include <causeway/plan/stage_split.hpp>
#include <causeway/stage/layout.hpp>
#include <causeway/stage/recovery.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage { namespace recovery {

/// Equal on all peers.
struct proactive_options {
  /// Costs of blocks, links and of a change of the layout; micro-batches are the run's. Without blocks: each takes a
  /// second and memory of 1, links cost nothing, and a change takes a second.
  plan::recovery_job job{};
  double device_memory = std::numeric_limits<double>::infinity();  ///< bytes of parameters, gradients, optimizer state
  std::size_t most_peers = 16;                                     ///< that the run may have; more are spare
  std::uint64_t interval = 10;                                     ///< steps between plans, at least 1
  std::size_t lookahead = 4;                                       ///< intervals that are forecast
  double repeated_steps = 50;                                      ///< that are lost when nobody has a stage any more
  std::size_t samples = 64;                                        ///< sets of lost peers that are tried
};

/// Every `interval` steps, and when a peer of a pipeline is lost, the shapes of the next intervals are chosen that are
/// expected to train most (plan::plan_liveput), for the number of peers that the history makes likely
/// (plan::forecast); the first of them is taken. Peers that come in between are spare until then. Which peers go is drawn,
/// from a seed that all have: the name of the run's state. The shape that is left is that of the last step that was taken;
/// what an attempt that failed since then has moved is not counted as done.
class proactive {
 public:
  static constexpr std::string_view name = "proactive";
  static constexpr recovery_traits traits{.cut_alike = true};

  CAUSEWAY_DECL explicit proactive(proactive_options options = {});

  [[nodiscard]] std::uint64_t interval() const noexcept { return options_.interval; }

  CAUSEWAY_DECL result<layout> arrange(const cluster_snapshot& g);

 private:
  CAUSEWAY_DECL [[nodiscard]] result<plan::recovery_job> job_for(const cluster_snapshot& g) const;

  // Of the last step; none before the first, and where the history is of another run.
  CAUSEWAY_DECL [[nodiscard]] plan::pipeline_shape last_shape(const cluster_snapshot& g) const;

  CAUSEWAY_DECL [[nodiscard]] result<plan::pipeline_shape> planned(const cluster_snapshot& g, const plan::recovery_job& job,
                                                                   const plan::pipeline_shape& now) const;

  CAUSEWAY_DECL [[nodiscard]] plan::migration_costs costs_of_change(const plan::recovery_job& job,
                                                                    const plan::pipeline_shape& now) const;

  static constexpr std::uint64_t liveput_stream = 0x6C697665;

  proactive_options options_;
};
static_assert(Recovery<proactive>);

}}}}  // namespace causeway::CAUSEWAY_ABI::stage::recovery

#ifndef CAUSEWAY_COMPILED
#include <causeway/stage/impl/recovery_proactive.ipp>
#endif

#endif  // CAUSEWAY_STAGE_RECOVERY_PROACTIVE_HPP
