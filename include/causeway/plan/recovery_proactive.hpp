// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_RECOVERY_PROACTIVE_HPP
#define CAUSEWAY_PLAN_RECOVERY_PROACTIVE_HPP

// proactive: Parcae (Duan et al., NSDI 2024). Every interval, and at every loss, the number of peers is forecast from how
// many there were (availability.hpp), and pipelines take the shape that is best for what is expected (liveput.hpp), before
// peers go. A peer that is lost is made good from its own stage first, then by spares and peers of stages that have too
// many. The weights are also on a server that is not taken away (ParcaePS), whose cost is not counted: no checkpoint is
// gone back to, the step under way begins again. Intervals are counted in steps; the paper's are a minute.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/plan/availability.hpp>
#include <causeway/plan/liveput.hpp>
#include <causeway/plan/recovery.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::plan {

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
  proactive_recovery(const recovery_job& job, const proactive_options& options) : job_{&job}, options_{options} {}

  recovery_action changed(std::span<const std::uint32_t> lost, std::span<const std::uint32_t> come) {
    const std::size_t before = peers();
    std::size_t broken = 0;
    for (auto& stage : of_stage_) broken += detail::take_out(stage, lost);
    detail::take_out(spare_, lost);
    spare_.insert(spare_.end(), come.begin(), come.end());
    if (broken == 0 && shape_.instances() > 0) return {};  // peers that came wait for the next plan
    const double pause = take(next_shape(before), broken > 0);
    return {pause + (broken > 0 ? job_->detection : 0), step_fate::begins_again};
  }

  recovery_action boundary() {
    elapsed_ += step_;
    if (elapsed_ < options_.interval) return {};
    elapsed_ = 0;
    history_.push_back(peers());
    if (history_.size() > options_.history) history_.erase(history_.begin());
    return {take(next_shape(peers()), false)};
  }

  [[nodiscard]] double step_seconds() const { return step_; }
  [[nodiscard]] double checkpoint_bytes() const { return 0; }
  [[nodiscard]] const pipeline_shape& shape() const { return shape_; }

 private:
  [[nodiscard]] std::size_t peers() const {
    std::size_t n = spare_.size();
    for (const auto& stage : of_stage_) n += stage.size();
    return n;
  }

  /// What a step of a shape takes; infinite if it does not fit.
  double seconds(const pipeline_shape& s) {
    if (s.instances() == 0 || s.stages > job_->model.blocks.size()) return no_step;
    const auto [known, fresh] = seconds_.try_emplace({s.replicas, s.stages}, no_step);
    if (!fresh) return known->second;
    const auto cut = cut_job::make(*job_, s.stages);
    if (cut && cut->state_bytes() <= options_.device_memory) known->second = cut->step_seconds(s.replicas);
    return known->second;
  }

  /// From the shape that is, which `before` peers had, to the first of the best sequence for what is forecast.
  pipeline_shape next_shape(std::size_t before) {
    std::vector<std::size_t> available{peers()};
    for (const std::size_t n : forecast(fit_availability(history_), peers(), options_.lookahead)) available.push_back(n);
    const std::size_t had = std::max(before, shape_.instances());
    std::vector<std::size_t> key{shape_.replicas, shape_.stages, had};
    key.insert(key.end(), available.begin(), available.end());
    const auto [known, fresh] = planned_.try_emplace(std::move(key));
    if (!fresh) return known->second;
    const double copy = job_->link.seconds(largest_stage());
    const migration_costs costs{job_->regroup, job_->regroup + copy, job_->regroup + copy};
    const auto throughput = [&](const pipeline_shape& s) { return job_->samples() / seconds(s); };
    const liveput_plan plan =
        plan_liveput(shape_, had, available, options_.interval, options_.most_stages, costs, throughput, options_.draws);
    return known->second = plan.shapes.front();
  }

  [[nodiscard]] double largest_stage() {
    if (shape_.instances() == 0) return 0;
    return cut_job::make(*job_, shape_.stages)->state_bytes();
  }

  /// Moves peers so that there are pipelines of this shape: seconds.
  double take(const pipeline_shape& next, bool broken) {
    const bool grows = next.replicas > shape_.replicas;
    const bool same = next.stages == shape_.stages && next.instances() > 0;
    if (!same) {
      for (const auto& stage : of_stage_) spare_.insert(spare_.end(), stage.begin(), stage.end());
      of_stage_.assign(next.stages, {});
    }
    shape_ = next;
    step_ = seconds(next);
    if (next.instances() == 0) return 0;
    const std::size_t moved = deal();
    if (moved > 0) return job_->regroup + job_->link.seconds(largest_stage());
    return broken || grows ? job_->regroup : 0;
  }

  /// Stages with too few peers take spares, and from stages with too many. How many peers changed.
  std::size_t deal() {
    std::size_t moved = 0;
    for (auto& stage : of_stage_) {
      for (; stage.size() < shape_.replicas; ++moved) {
        auto* from = &spare_;
        for (auto& other : of_stage_) {
          if (from->empty() && other.size() > shape_.replicas) from = &other;
        }
        CAUSEWAY_EXPECT(!from->empty());  // a shape has at most as many instances as there are
        stage.push_back(from->back());
        from->pop_back();
      }
    }
    return moved;
  }

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

}  // namespace causeway::inline CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_RECOVERY_PROACTIVE_HPP
