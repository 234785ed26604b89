// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_RECOVERY_REROUTE_HPP
#define CAUSEWAY_STAGE_RECOVERY_REROUTE_HPP

// A lost peer's micro-batches go to the peers of the same stage in other pipelines, while its own pipeline goes on with its
// other stages: ReCycle (Gandhi et al., SOSP 2024). No block moves. Backwards are split then, so that weight gradients
// fill what would be bubbles, and a good part of the additional work costs no time. Not here is the staggered optimizer
// step, which lets a stage begin the next step before the others have ended this one: no parameter moves before all
// gradients are complete and the run has taken the step.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/plan/routed_schedule.hpp>
#include <causeway/plan/routed_time.hpp>
#include <causeway/plan/stage_costs.hpp>
#include <causeway/stage/layout.hpp>
#include <causeway/stage/recovery.hpp>
#include <causeway/stage/schedules.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage { namespace recovery {

/// Pipelines of `stages` even stages. Spare peers take stages without a peer; where losses leave one stage two peers more
/// than another, a peer changes over (the paper's failure normalization). A stage that no pipeline has any more, or peers
/// enough for another pipeline: all are laid out anew as by `regroup`.
///
/// Memory: a peer keeps the activations of at most `stages` micro-batches, as many as one of the first stage does in 1F1B.
class reroute {
 public:
  static constexpr std::string_view name = "reroute";
  static constexpr recovery_traits traits{.cut_alike = true};

  /// `costs`: of the stages and the links between them, equal on all peers; none: stages are alike, links cost nothing.
  CAUSEWAY_DECL explicit reroute(std::int64_t stages = 2, plan::stage_costs costs = {});

  /// It does not look back.
  [[nodiscard]] std::uint64_t interval() const noexcept { return 0; }

  CAUSEWAY_DECL result<layout> arrange(const cluster_snapshot& g);

  /// What all peers of a layout with stages without a peer do: their places are those of layout::assigned.
  CAUSEWAY_DECL [[nodiscard]] result<plan::routed_schedule> order(const layout& l) const;

  /// What its forwards and backwards take, by the costs.
  CAUSEWAY_DECL [[nodiscard]] result<double> seconds(const layout& l) const;

 private:
  using grid = std::vector<std::vector<std::uint64_t>>;  // [replica][stage]: peer

  // Pipelines of which somebody is left, with those who were assigned to them and have what they compute. Others are spare.
  CAUSEWAY_DECL static grid last_assignments(const cluster_snapshot& g, const std::vector<nn::block_range>& row,
                                             std::vector<const present_peer*>& spare);

  // Who holds most of what is missing goes first.
  CAUSEWAY_DECL static void fill(grid& assignments, const std::vector<nn::block_range>& row,
                                 std::vector<const present_peer*>& spare);

  CAUSEWAY_DECL static std::size_t filled(const grid& assignments, std::size_t stage);
  CAUSEWAY_DECL [[nodiscard]] bool has_all_stages(const grid& assignments) const;

  // Until no stage has two peers more than another.
  CAUSEWAY_DECL void even_out(grid& assignments) const;

  CAUSEWAY_DECL [[nodiscard]] result<plan::routed_step> step_of(const layout& l) const;

  std::int64_t stages_;
  plan::stage_costs costs_;
  regroup even_;
};
static_assert(Rerouting<reroute>);

}}}}  // namespace causeway::CAUSEWAY_ABI::stage::recovery

#ifndef CAUSEWAY_COMPILED
#include <causeway/stage/impl/recovery_reroute.ipp>
#endif

#endif  // CAUSEWAY_STAGE_RECOVERY_REROUTE_HPP
