// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_RECOVERY_SWARM_IPP
#define CAUSEWAY_PLAN_IMPL_RECOVERY_SWARM_IPP

#include <causeway/plan/recovery_swarm.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL swarm_recovery::swarm_recovery(cut_job cut, const swarm_options& options)
    : cut_{std::move(cut)}, options_{options}, of_stage_(options.stages) {}

CAUSEWAY_DECL result<swarm_recovery> swarm_recovery::make(const recovery_job& job, const swarm_options& options) {
  CAUSEWAY_ASSIGN(cut_job cut, cut_job::make(job, options.stages));
  return swarm_recovery{std::move(cut), options};
}

CAUSEWAY_DECL recovery_action swarm_recovery::changed(std::span<const std::uint32_t> lost,
                                                      std::span<const std::uint32_t> come) {
  const bool stalled = fewest() == 0;
  std::size_t broken = 0;
  for (auto& peers : of_stage_) broken += detail::take_out(peers, lost);
  if (fewest() == 0) lost_weights_ = lost_weights_ || !stalled;
  for (const std::uint32_t id : come) of_stage_[extreme(false)].push_back(id);
  update();
  if (stalled || lost_weights_) return resume();
  return {broken > 0 ? cut_.job().detection : 0};
}

CAUSEWAY_DECL recovery_action swarm_recovery::boundary() {
  if (!options_.rebalances || fewest() == 0) return {};
  std::size_t moved = 0;
  for (;; ++moved) {
    auto &rich = of_stage_[extreme(true)], &poor = of_stage_[extreme(false)];
    if (rich.size() < poor.size() + 2) break;
    poor.push_back(rich.back());
    rich.pop_back();
  }
  if (moved > 0) update();
  return {moved > 0 ? cut_.copy_seconds() : 0};  // weights of the new stage, all that move at once
}

CAUSEWAY_DECL std::size_t swarm_recovery::extreme(bool most) const {
  std::size_t found = 0;
  for (std::size_t s = 1; s < of_stage_.size(); ++s) {
    const std::size_t a = of_stage_[s].size(), b = of_stage_[found].size();
    if (most ? a > b : a < b) found = s;
  }
  return found;
}

CAUSEWAY_DECL recovery_action swarm_recovery::resume() {
  if (fewest() == 0) return {0, step_fate::begins_again};
  lost_weights_ = false;
  return {cut_.load_seconds(), step_fate::from_checkpoint};
}

CAUSEWAY_DECL void swarm_recovery::update() {
  if (fewest() == 0) {
    step_ = no_step;
    return;
  }
  std::vector<std::size_t> counts;
  for (const auto& peers : of_stage_) counts.push_back(peers.size());
  const auto [known, fresh] = seconds_.try_emplace(counts);
  if (fresh) known->second = seconds_of({cut_.costs(), routes(counts), 1});  // share 1: queues, not a memory bound
  step_ = known->second + cut_.average_seconds(*std::max_element(counts.begin(), counts.end()));
}

CAUSEWAY_DECL std::vector<std::vector<std::uint32_t>> swarm_recovery::routes(const std::vector<std::size_t>& counts) const {
  std::vector<std::vector<std::uint32_t>> all(cut_.job().micro_batches);
  for (std::size_t m = 0; m < all.size(); ++m) {
    std::size_t first = 0;  // peer of the stage
    for (const std::size_t n : counts) {
      all[m].push_back(static_cast<std::uint32_t>(first + m % n));
      first += n;
    }
  }
  return all;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_RECOVERY_SWARM_IPP
