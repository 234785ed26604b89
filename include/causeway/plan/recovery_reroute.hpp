// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_RECOVERY_REROUTE_HPP
#define CAUSEWAY_PLAN_RECOVERY_REROUTE_HPP

// reroute: ReCycle (Gandhi et al., SOSP 2024). The micro-batches of a lost peer go to the peers that have the same stage in
// other pipelines, in turn; backwards are split, so that weight gradients fill bubbles. No redundant work and no spare
// memory for it. The step begins again: the lost peer's gradients are gone. After the step losses are evened out among the
// stages (the paper's failure normalization), spare peers fill holes, and once there are peers for one more pipeline it is
// made. A stage without any peer: from the checkpoint, with whole pipelines of those that are left.

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

class reroute_recovery {
 public:
  static result<reroute_recovery> make(const recovery_job& job, std::size_t stages) {
    CAUSEWAY_ASSIGN(cut_job cut, cut_job::make(job, stages));
    return reroute_recovery{std::move(cut)};
  }

  recovery_action changed(std::span<const std::uint32_t> lost, std::span<const std::uint32_t> come) {
    const std::size_t broken = grid_.lose(lost).size();
    grid_.add_spares(come);
    const recovery_job& job = cut_.job();
    if (broken == 0 && grid_.pipelines() > 0) return {};
    if (grid_.pipelines() == 0 || fewest() == 0) {
      const bool wait = grid_.pipelines() == 0 && grid_.peers() < cut_.stages();
      grid_.rebuild();
      update();
      if (wait) return {};
      return {job.detection + job.restart + cut_.load_seconds(), step_fate::from_checkpoint};
    }
    update();
    return {job.detection, step_fate::begins_again};
  }

  recovery_action boundary() {
    std::size_t moved = 0;
    if (grid_.peers() / cut_.stages() > grid_.pipelines())
      moved = grid_.rebuild();
    else
      moved = grid_.fill() + even_out();
    if (moved == 0) return {};
    update();
    return {cut_.job().regroup + cut_.copy_seconds()};
  }

  [[nodiscard]] double step_seconds() const { return step_; }
  [[nodiscard]] double checkpoint_bytes() const { return cut_.state_bytes(); }
  [[nodiscard]] const peer_grid& grid() const { return grid_; }

 private:
  explicit reroute_recovery(cut_job cut) : cut_{std::move(cut)}, grid_{cut_.stages()} {}

  [[nodiscard]] std::size_t fewest() const {
    std::size_t least = grid_.pipelines();
    for (std::size_t s = 0; s < cut_.stages(); ++s) least = std::min(least, grid_.holders(s));
    return least;
  }

  /// Until no stage has two peers more than another. How many peers moved.
  std::size_t even_out() {
    for (std::size_t moved = 0;; ++moved) {
      std::size_t rich = 0, poor = 0;
      for (std::size_t s = 1; s < cut_.stages(); ++s) {
        if (grid_.holders(s) > grid_.holders(rich)) rich = s;
        if (grid_.holders(s) < grid_.holders(poor)) poor = s;
      }
      if (grid_.holders(rich) < grid_.holders(poor) + 2) return moved;
      grid_.move(place(rich, true), place(poor, false));
    }
  }

  [[nodiscard]] peer_grid::place place(std::size_t stage, bool filled) const {
    std::size_t d = 0;
    while (grid_.filled(d, stage) != filled) ++d;
    return {d, stage};
  }

  void update() {
    const std::size_t replicas = grid_.pipelines();
    if (replicas == 0 || fewest() == 0) {
      step_ = no_step;
      return;
    }
    std::vector<std::uint32_t> alive;
    for (std::size_t s = 0; s < cut_.stages(); ++s) {
      for (std::size_t d = 0; d < replicas; ++d) alive.push_back(grid_.filled(d, s) ? 1 : 0);
    }
    const auto [known, fresh] = seconds_.try_emplace(alive);
    if (fresh) {
      routed_step step{cut_.costs(), routes(), static_cast<std::uint32_t>(cut_.share(replicas))};
      step.halves = true;
      known->second = seconds_of(step);
    }
    step_ = known->second + cut_.average_seconds(replicas);
  }

  /// Micro-batch m belongs to pipeline m mod D; where that has a hole, the twins take its micro-batches in turn.
  [[nodiscard]] std::vector<std::vector<std::uint32_t>> routes() const {
    const std::size_t replicas = grid_.pipelines(), stages = cut_.stages();
    std::vector<std::vector<std::uint32_t>> all;
    std::vector<std::size_t> turn(stages);
    for (std::size_t m = 0; m < cut_.job().micro_batches; ++m) {
      all.emplace_back();
      for (std::size_t s = 0; s < stages; ++s) {
        std::size_t d = m % replicas;
        if (!grid_.filled(d, s)) {
          do d = turn[s]++ % replicas;
          while (!grid_.filled(d, s));
        }
        all.back().push_back(static_cast<std::uint32_t>(d * stages + s));
      }
    }
    return all;
  }

  cut_job cut_;
  peer_grid grid_;
  double step_ = no_step;
  std::map<std::vector<std::uint32_t>, double> seconds_;  // of which places are filled
};

}  // namespace causeway::inline CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_RECOVERY_REROUTE_HPP
