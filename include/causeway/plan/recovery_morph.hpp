// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_RECOVERY_MORPH_HPP
#define CAUSEWAY_PLAN_RECOVERY_MORPH_HPP

// morph: Varuna (Athlur et al., EuroSys 2022). Whenever the number of peers changes, the number of stages and of pipelines
// is searched anew (varuna_search.hpp: with its schedule, which recomputes activations), the global batch stays, and all
// processes meet again and load the last checkpoint. A change that leaves the plan as it is and hits only spare peers is
// none.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/plan/recovery.hpp>
#include <causeway/plan/varuna_search.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::plan {

/// A job as Varuna's search takes it: each block is a cut-point, the embedding and the head are of the first and the last.
inline varuna_calibration calibration_of(const recovery_job& job) {
  varuna_calibration c{
      {job.micro_batch}, {}, job.boundary_bytes / static_cast<double>(job.micro_batch), job.link, job.link};
  const std::size_t blocks = job.model.blocks.size();
  for (std::size_t b = 0; b < blocks; ++b) {
    block_cost cost = job.model.blocks[b];
    if (b == 0) cost += job.model.embedding;
    if (b + 1 == blocks) cost += job.model.head;
    const double forward = cost.seconds * job.forward_share;
    c.points.push_back({{forward}, {cost.seconds - forward}, cost.parameters * job.gradient_bytes, cost.memory, 0});
  }
  return c;
}

class morph_recovery {
 public:
  /// `device_memory`: bytes for parameters and optimizer state, and the inputs that are kept to be recomputed from.
  explicit morph_recovery(const recovery_job& job, double device_memory = std::numeric_limits<double>::infinity())
      : job_{&job}, calibration_{calibration_of(job)} {
    options_.global_batch = job.micro_batches * job.micro_batch;
    options_.device_memory = device_memory;
  }

  recovery_action changed(std::span<const std::uint32_t> lost, std::span<const std::uint32_t> come) {
    const std::size_t broken = detail::take_out(active_, lost);
    detail::take_out(spare_, lost);
    spare_.insert(spare_.end(), come.begin(), come.end());
    const choice next = best(active_.size() + spare_.size());
    if (broken == 0 && next.stages == now_.stages && next.replicas == now_.replicas) return {};
    now_ = next;
    spare_.insert(spare_.begin(), active_.begin(), active_.end());
    const auto used = spare_.begin() + static_cast<std::ptrdiff_t>(next.stages * next.replicas);
    active_.assign(spare_.begin(), used);
    spare_.erase(spare_.begin(), used);
    return {(broken > 0 ? job_->detection : 0) + job_->restart + next.bytes / job_->read_bytes_per_second,
            step_fate::from_checkpoint};
  }

  recovery_action boundary() { return {}; }
  [[nodiscard]] double step_seconds() const { return now_.seconds; }
  [[nodiscard]] double checkpoint_bytes() const { return now_.bytes; }
  [[nodiscard]] std::size_t stages() const { return now_.stages; }
  [[nodiscard]] std::size_t replicas() const { return now_.replicas; }

 private:
  struct choice {
    std::size_t stages = 0, replicas = 0;
    double seconds = no_step;
    double bytes = 0;  // of the largest stage
  };

  choice best(std::size_t peers) {
    const auto [known, fresh] = known_.try_emplace(peers);
    if (!fresh || peers == 0) return known->second;
    options_.devices = peers;
    const auto plan = plan_varuna(calibration_, options_);
    if (!plan) return known->second;  // too few
    choice& c = known->second;
    c = {plan->stages(), plan->replicas, plan->seconds(), 0};
    for (std::size_t s = 0; s < plan->stages(); ++s) {
      const block_cost stage = cost_of_stage(job_->model, plan->split.first_block[s], plan->split.end(s));
      c.bytes = std::max(c.bytes, stage.memory);
    }
    return c;
  }

  const recovery_job* job_;
  varuna_calibration calibration_;
  varuna_options options_;
  std::vector<std::uint32_t> active_, spare_;
  choice now_;
  std::map<std::size_t, choice> known_;  // [peers]
};

}  // namespace causeway::inline CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_RECOVERY_MORPH_HPP
