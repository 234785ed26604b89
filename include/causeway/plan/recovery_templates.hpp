// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_RECOVERY_TEMPLATES_HPP
#define CAUSEWAY_PLAN_RECOVERY_TEMPLATES_HPP

// templates: Oobleck (Jang et al., SOSP 2023). A pipeline that lost peers takes a smaller template, borrows, or is merged
// (template_reaction.hpp); peers copy the blocks that they miss from replicas, all at once, and the step begins again.
// Peers that come wait for the step's end; then the best pipelines of all peers are chosen anew. If too few peers are left
// for f + 1 pipelines, or a block is gone with all its holders, training goes on from the last checkpoint once it can.

#include <causeway/config/config.hpp>
#include <causeway/plan/recovery.hpp>
#include <causeway/plan/template_choice.hpp>
#include <causeway/plan/template_reaction.hpp>
#include <causeway/plan/templates.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

class template_recovery {
 public:
  /// `set`: of the job's model.
  CAUSEWAY_DECL template_recovery(const recovery_job& job, template_set set);

  CAUSEWAY_DECL recovery_action changed(std::span<const std::uint32_t> lost, std::span<const std::uint32_t> come);

  CAUSEWAY_DECL recovery_action boundary();

  [[nodiscard]] double step_seconds() const { return step_; }
  [[nodiscard]] double checkpoint_bytes() const { return largest_stage(set_.of(set_.smallest())); }
  [[nodiscard]] const pipeline_peers& pipelines() const { return pipelines_; }

 private:
  CAUSEWAY_DECL [[nodiscard]] bool holds_any(const std::vector<std::size_t>& ids) const;

  CAUSEWAY_DECL [[nodiscard]] std::size_t peers() const;

  CAUSEWAY_DECL [[nodiscard]] double largest_stage(const pipeline_template& t) const;

  /// Peers of `pipelines_` that neither are lost nor in `after`.
  CAUSEWAY_DECL void keep_spares(const pipeline_peers& after, const std::vector<std::size_t>& gone);

  CAUSEWAY_DECL recovery_action break_down(const std::vector<std::size_t>& gone);

  CAUSEWAY_DECL recovery_action revive(double pause);

  /// Pipelines of these sizes of all peers. Each present pipeline goes on as the nearest size; what it has too many, and
  /// the spares, go where there are too few.
  CAUSEWAY_DECL [[nodiscard]] pipeline_peers arranged(const std::vector<std::size_t>& sizes) const;

  CAUSEWAY_DECL [[nodiscard]] template_choice choice_of(const pipeline_peers& pipelines) const;

  /// All copies at once; a peer sends or takes one after another.
  CAUSEWAY_DECL [[nodiscard]] double copy_seconds(const std::vector<block_copy>& copies) const;

  /// The slowest pipeline's timeline, each with its share of micro-batches, and the average of the gradients.
  CAUSEWAY_DECL void update();

  CAUSEWAY_DECL double pipeline_seconds(std::size_t size, std::size_t micro_batches);

  const recovery_job* job_;
  template_set set_;
  pipeline_peers pipelines_;
  std::vector<std::size_t> spare_;
  double step_ = no_step;
  std::map<std::pair<std::size_t, std::size_t>, double> seconds_;  // of (peers, micro-batches)
};

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/recovery_templates.ipp>
#endif

#endif  // CAUSEWAY_PLAN_RECOVERY_TEMPLATES_HPP
