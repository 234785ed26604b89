// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_VARUNA_SEARCH_IPP
#define CAUSEWAY_PLAN_IMPL_VARUNA_SEARCH_IPP

#include <causeway/plan/varuna_search.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

CAUSEWAY_DECL result<void> check_varuna(const varuna_calibration& c, const varuna_options& o) {
  const auto wrong = [](const char* what) { return fail(errc::invalid_argument, "varuna's search", what); };
  if (c.sizes.empty() || c.sizes[0] == 0 ||
      std::adjacent_find(c.sizes.begin(), c.sizes.end(), [](auto a, auto b) { return a >= b; }) != c.sizes.end())
    return wrong("needs calibrated micro-batch sizes that rise from 1 or more");
  if (c.points.empty()) return wrong("needs a cut-point");
  for (const cut_point& p : c.points) {
    if (p.forward.size() != c.sizes.size() || p.backward.size() != c.sizes.size())
      return wrong("needs a forward and a backward time of each cut-point for each micro-batch size");
  }
  if (o.devices == 0 || o.global_batch == 0) return wrong("needs at least one device and one sample");
  return {};
}

CAUSEWAY_DECL varuna_try::varuna_try(const varuna_calibration& c, const varuna_options& o, std::size_t size)
    : calibration_{c}, options_{o}, size_{size}, samples_{static_cast<double>(c.sizes[size])} {
  for (const cut_point& p : c.points) {
    model_.blocks.push_back({p.gradient_bytes, p.forward[size] + p.backward[size], p.memory, p.activation * samples_});
  }
}

CAUSEWAY_DECL result<varuna_plan> varuna_try::run(std::size_t stages) const {
  const std::size_t replicas = options_.devices / stages;
  const std::size_t share = (options_.global_batch + replicas - 1) / replicas;
  varuna_plan plan{replicas, calibration_.sizes[size_], 0, {}, 0, 0};
  plan.micro_batches = (share + plan.micro_batch - 1) / plan.micro_batch;
  const std::size_t stored =
      std::min(options_.stored_inputs == 0 ? 2 * stages : options_.stored_inputs, plan.micro_batches);
  const double kept = static_cast<double>(stored) * calibration_.boundary_bytes * samples_;
  const std::vector<stage_device> devices(stages, stage_device{1, options_.device_memory - kept, 1});
  CAUSEWAY_ASSIGN(plan.split, split_by_time(model_, devices));
  const stage_costs costs = costs_of(plan.split);
  CAUSEWAY_ASSIGN(const schedule order,
                  varuna(costs, static_cast<std::uint32_t>(plan.micro_batches), static_cast<std::uint32_t>(stored)));
  CAUSEWAY_ASSIGN(const timeline t, timeline_of(order, costs));
  plan.pipeline_seconds = t.makespan;
  plan.average_seconds = average_seconds(plan);
  return plan;
}

CAUSEWAY_DECL stage_costs varuna_try::costs_of(const stage_split& split) const {
  stage_costs costs;
  for (std::size_t s = 0; s < split.stages(); ++s) {
    double forward = 0, backward = 0;
    for (std::size_t i = split.first_block[s]; i < split.end(s); ++i) {
      forward += calibration_.points[i].forward[size_];
      backward += calibration_.points[i].backward[size_];
    }
    costs.stages.push_back({forward, backward / 2, backward / 2, forward});
  }
  const double bytes = calibration_.boundary_bytes * samples_;
  costs.edges.assign(split.stages() - 1, {calibration_.hop.delay, bytes, bytes, calibration_.hop.bandwidth / 8});
  return costs;
}

CAUSEWAY_DECL double varuna_try::average_seconds(const varuna_plan& plan) const {
  const double d = static_cast<double>(plan.replicas);
  double slowest = 0;
  for (std::size_t s = 0; s < plan.stages(); ++s) {
    const block_cost stage = cost_of_stage(model_, plan.split.first_block[s], plan.split.end(s));
    slowest = std::max(slowest, 2 * (d - 1) * calibration_.ring.seconds(stage.parameters / d));
  }
  return slowest;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL std::size_t knee_of(const varuna_calibration& c, double tolerance) {
  std::vector<double> per_sample(c.sizes.size());
  for (std::size_t i = 0; i < per_sample.size(); ++i) {
    for (const cut_point& p : c.points) per_sample[i] += p.forward[i] / static_cast<double>(c.sizes[i]);
  }
  const double best = *std::min_element(per_sample.begin(), per_sample.end());
  std::size_t knee = 0;
  while (per_sample[knee] > best * (1 + tolerance)) ++knee;
  return knee;
}

CAUSEWAY_DECL result<varuna_plan> plan_varuna(const varuna_calibration& calibration, const varuna_options& options) {
  CAUSEWAY_TRY(detail::check_varuna(calibration, options));
  const detail::varuna_try attempt{calibration, options, knee_of(calibration, options.knee)};
  result<varuna_plan> best = fail(errc::out_of_memory, "varuna's search", "nothing was tried");
  for (std::size_t p = 1; p <= std::min(calibration.points.size(), options.devices); ++p) {
    result<varuna_plan> next = attempt.run(p);
    if (!best || (next && next->seconds() < best->seconds())) best = std::move(next);
  }
  return best;
}

CAUSEWAY_DECL std::vector<result<varuna_plan>> morphing_table(const varuna_calibration& calibration,
                                                              varuna_options options) {
  std::vector<result<varuna_plan>> table;
  for (std::size_t devices = options.devices, g = 1; g <= devices; ++g) {
    options.devices = g;
    table.push_back(plan_varuna(calibration, options));
  }
  return table;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_VARUNA_SEARCH_IPP
