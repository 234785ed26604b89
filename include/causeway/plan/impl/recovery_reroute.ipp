// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_RECOVERY_REROUTE_IPP
#define CAUSEWAY_PLAN_IMPL_RECOVERY_REROUTE_IPP

#include <causeway/plan/recovery_reroute.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL reroute_recovery::reroute_recovery(cut_job cut) : cut_{std::move(cut)}, grid_{cut_.stages()} {}

CAUSEWAY_DECL result<reroute_recovery> reroute_recovery::make(const recovery_job& job, std::size_t stages) {
  CAUSEWAY_ASSIGN(cut_job cut, cut_job::make(job, stages));
  return reroute_recovery{std::move(cut)};
}

CAUSEWAY_DECL recovery_action reroute_recovery::changed(std::span<const std::uint32_t> lost,
                                                        std::span<const std::uint32_t> come) {
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

CAUSEWAY_DECL recovery_action reroute_recovery::boundary() {
  std::size_t moved = 0;
  if (grid_.peers() / cut_.stages() > grid_.pipelines())
    moved = grid_.rebuild();
  else
    moved = grid_.fill() + even_out();
  if (moved == 0) return {};
  update();
  return {cut_.job().regroup + cut_.copy_seconds()};
}

CAUSEWAY_DECL std::size_t reroute_recovery::fewest() const {
  std::size_t least = grid_.pipelines();
  for (std::size_t s = 0; s < cut_.stages(); ++s) least = std::min(least, grid_.holders(s));
  return least;
}

CAUSEWAY_DECL std::size_t reroute_recovery::even_out() {
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

CAUSEWAY_DECL peer_grid::place reroute_recovery::place(std::size_t stage, bool filled) const {
  std::size_t d = 0;
  while (grid_.filled(d, stage) != filled) ++d;
  return {d, stage};
}

CAUSEWAY_DECL void reroute_recovery::update() {
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

CAUSEWAY_DECL std::vector<std::vector<std::uint32_t>> reroute_recovery::routes() const {
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

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_RECOVERY_REROUTE_IPP
