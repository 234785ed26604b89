// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_RECOVERY_REDUNDANT_HPP
#define CAUSEWAY_PLAN_RECOVERY_REDUNDANT_HPP

// redundant: Bamboo (Thorpe et al., NSDI 2023). Each peer holds its successor's stage too (the last one the first stage)
// and repeats its forwards in bubbles; when the successor is lost it does both stages from then on, backwards included, and
// the step goes on. After the step the peers regroup, by the rule of Bamboo's simulator, as long as there are enough for a
// pipeline: if spare peers can fill all holes,
// if more than 5 % of the peers are such that another loss would be fatal, or if there are enough peers for one more
// pipeline. Losing a peer and its predecessor is fatal: the step begins again if another pipeline holds the stage, else
// all since the last checkpoint is lost.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/plan/peer_grid.hpp>
#include <causeway/plan/recovery.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::plan {

struct redundant_options {
  std::size_t stages = 1;      ///< of each pipeline; the paper takes 1.5 times as many as without redundancy
  double failover = 0;         ///< seconds until a predecessor has taken over: the lost stage's state back to the device
  double most_at_risk = 0.05;  ///< of the peers, without regrouping
};

class redundant_recovery {
 public:
  static result<redundant_recovery> make(const recovery_job& job, const redundant_options& options) {
    CAUSEWAY_ASSIGN(cut_job cut, cut_job::make(job, options.stages));
    return redundant_recovery{std::move(cut), options};
  }

  recovery_action changed(std::span<const std::uint32_t> lost, std::span<const std::uint32_t> come) {
    const std::size_t broken = grid_.lose(lost).size();
    grid_.add_spares(come);
    const recovery_job& job = cut_.job();
    if (grid_.pipelines() == 0) return revive();
    if (broken == 0) return {};
    if (!fatal()) {
      update();
      return {job.detection + options_.failover};
    }
    const bool held = all_stages_held();
    recovery_action action = regroup();
    action.pause += job.detection;
    action.fate = step_fate::begins_again;
    if (!held) action = {job.detection + job.restart + 2 * cut_.load_seconds(), step_fate::from_checkpoint};
    return action;
  }

  recovery_action boundary() { return must_regroup() ? regroup() : recovery_action{}; }

  [[nodiscard]] double step_seconds() const { return step_; }
  [[nodiscard]] double checkpoint_bytes() const { return cut_.state_bytes(); }
  [[nodiscard]] const peer_grid& grid() const { return grid_; }

 private:
  redundant_recovery(cut_job cut, const redundant_options& options)
      : cut_{std::move(cut)}, options_{options}, grid_{options.stages} {}

  [[nodiscard]] std::size_t before(std::size_t s) const { return s == 0 ? cut_.stages() - 1 : s - 1; }

  /// A hole whose predecessor is a hole has nobody who can do it.
  [[nodiscard]] bool fatal() const {
    for (std::size_t d = 0; d < grid_.pipelines(); ++d) {
      for (std::size_t s = 0; s < cut_.stages(); ++s) {
        if (!grid_.filled(d, s) && !grid_.filled(d, before(s))) return true;
      }
    }
    return false;
  }

  /// A stage is held by its own peers and their predecessors.
  [[nodiscard]] bool all_stages_held() const {
    for (std::size_t s = 0; s < cut_.stages(); ++s) {
      if (grid_.holders(s) + grid_.holders(before(s)) == 0) return false;
    }
    return true;
  }

  [[nodiscard]] bool must_regroup() const {
    if (grid_.peers() < cut_.stages()) return false;  // the last pipeline goes on with peers that do two stages
    const std::size_t doubled = grid_.holes();  // peers with two stages; neither they nor their predecessors may be lost
    const auto active = static_cast<double>(grid_.pipelines() * cut_.stages() - doubled);
    return (doubled > 0 && grid_.spares() >= doubled) ||
           2 * static_cast<double>(doubled) > options_.most_at_risk * active ||
           grid_.peers() / cut_.stages() > grid_.pipelines();
  }

  recovery_action regroup() {
    const std::size_t moved = grid_.rebuild();
    update();
    // A peer with a new stage fetches that and its successor's.
    return {cut_.job().regroup + (moved > 0 ? 2 * cut_.copy_seconds() : 0)};
  }

  /// From nothing, once there are enough peers: only a checkpoint has the weights.
  recovery_action revive() {
    if (grid_.peers() < cut_.stages()) return {};
    regroup();
    return {cut_.job().restart + 2 * cut_.load_seconds(), step_fate::from_checkpoint};
  }

  /// A step takes as long as the slowest pipeline.
  void update() {
    step_ = grid_.pipelines() == 0 ? no_step : 0;
    for (std::size_t d = 0; d < grid_.pipelines(); ++d) step_ = std::max(step_, pipeline_seconds(d));
    step_ += cut_.average_seconds(grid_.pipelines());
  }

  double pipeline_seconds(std::size_t d) {
    const std::size_t m = cut_.share(grid_.pipelines());
    std::vector<std::uint32_t> route(cut_.stages());
    for (std::size_t s = 0; s < route.size(); ++s)
      route[s] = static_cast<std::uint32_t>(grid_.filled(d, s) ? s : before(s));
    const auto [known, fresh] = seconds_.try_emplace({m, route});
    if (fresh) {
      const std::vector<std::vector<std::uint32_t>> routes(m, route);
      known->second = seconds_of({cut_.costs(), routes, static_cast<std::uint32_t>(m), false, true});
    }
    return known->second;
  }

  cut_job cut_;
  redundant_options options_;
  peer_grid grid_;
  double step_ = no_step;
  std::map<std::pair<std::size_t, std::vector<std::uint32_t>>, double> seconds_;  // of (micro-batches, route)
};

}  // namespace causeway::inline CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_RECOVERY_REDUNDANT_HPP
