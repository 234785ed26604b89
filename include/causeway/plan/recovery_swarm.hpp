// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_RECOVERY_SWARM_HPP
#define CAUSEWAY_PLAN_RECOVERY_SWARM_HPP

// Peers that serve stages without being pipelines (SWARM, Ryabinin et al., ICML 2023): each micro-batch goes through any
// peer of each stage, so that what a lost peer did goes to the others of its stage, and the step goes on. Peers that come
// take the stage with the fewest; with rebalancing, a peer moves after a step while a stage has two more than another. A
// stage that lost its last peer stalls all until a peer has come to it, from its checkpoint. Routing is even here: equal
// peers behind queues of expected times (stage/) come to that.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/plan/recovery.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::plan {

struct swarm_options {
  std::size_t stages = 1;
  bool rebalances = true;
};

class swarm_recovery {
 public:
  static result<swarm_recovery> make(const recovery_job& job, const swarm_options& options) {
    CAUSEWAY_ASSIGN(cut_job cut, cut_job::make(job, options.stages));
    return swarm_recovery{std::move(cut), options};
  }

  recovery_action changed(std::span<const std::uint32_t> lost, std::span<const std::uint32_t> come) {
    const bool stalled = fewest() == 0;
    std::size_t broken = 0;
    for (auto& peers : of_stage_) broken += detail::take_out(peers, lost);
    if (fewest() == 0) lost_weights_ = lost_weights_ || !stalled;
    for (const std::uint32_t id : come) of_stage_[extreme(false)].push_back(id);
    update();
    if (stalled || lost_weights_) return resume();
    return {broken > 0 ? cut_.job().detection : 0};
  }

  recovery_action boundary() {
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

  [[nodiscard]] double step_seconds() const { return step_; }
  [[nodiscard]] double checkpoint_bytes() const { return cut_.state_bytes(); }
  [[nodiscard]] std::size_t peers_of(std::size_t stage) const { return of_stage_[stage].size(); }

 private:
  swarm_recovery(cut_job cut, const swarm_options& options)
      : cut_{std::move(cut)}, options_{options}, of_stage_(options.stages) {}

  [[nodiscard]] std::size_t extreme(bool most) const {
    std::size_t found = 0;
    for (std::size_t s = 1; s < of_stage_.size(); ++s) {
      const std::size_t a = of_stage_[s].size(), b = of_stage_[found].size();
      if (most ? a > b : a < b) found = s;
    }
    return found;
  }
  [[nodiscard]] std::size_t fewest() const { return of_stage_[extreme(false)].size(); }

  recovery_action resume() {
    if (fewest() == 0) return {0, step_fate::begins_again};
    lost_weights_ = false;
    return {cut_.load_seconds(), step_fate::from_checkpoint};
  }

  void update() {
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

  [[nodiscard]] std::vector<std::vector<std::uint32_t>> routes(const std::vector<std::size_t>& counts) const {
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

  cut_job cut_;
  swarm_options options_;
  std::vector<std::vector<std::uint32_t>> of_stage_;
  bool lost_weights_ = false;  // a stage had no peer
  double step_ = no_step;
  std::map<std::vector<std::size_t>, double> seconds_;  // of peers of each stage
};

}  // namespace causeway::inline CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_RECOVERY_SWARM_HPP
