// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_VARUNA_SEARCH_HPP
#define CAUSEWAY_PLAN_VARUNA_SEARCH_HPP

// How many stages, replicas and micro-batches to train with on G devices: Varuna's search (Athlur et al., EuroSys 2022,
// section 4). Calibration gives numbers that do not depend on G; for each number of stages the schedule is simulated event
// by event; the quickest is taken. When G changes it is asked again: the global batch stays, so that training goes on with
// the same optimisation problem (job morphing).
//
// Devices are alike, and so are links. A step is the pipeline's makespan and then the average of the gradients in each
// stage, by a ring: 2 (D - 1) messages of 1 / D of the stage. Where the global batch does not divide evenly, the replica
// with the most samples is simulated, with its last micro-batch as if it were full.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/plan/link_matrix.hpp>
#include <causeway/plan/schedule_varuna.hpp>
#include <causeway/plan/stage_costs.hpp>
#include <causeway/plan/stage_split.hpp>
#include <causeway/plan/timeline.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::plan {

/// What one cut-point (the part of the model up to the next place where it may be cut) takes, measured once.
struct cut_point {
  std::vector<double> forward;   ///< F(m) in seconds, for each measured micro-batch size
  std::vector<double> backward;  ///< B(m) without recomputing the forward
  double gradient_bytes = 0;     ///< that replicas average
  double memory = 0;             ///< bytes of parameters, gradients and optimizer state
  double activation = 0;         ///< bytes for the backward pass, per sample
};

struct varuna_calibration {
  std::vector<std::size_t> sizes;  ///< of micro-batches in samples, rising, the first at least 1
  std::vector<cut_point> points;
  double boundary_bytes = 0;  ///< of activations between two cut-points, per sample
  link_cost hop;              ///< between stages
  link_cost ring;             ///< between the replicas of a stage
};

struct varuna_options {
  std::size_t devices = 1;                                         ///< G
  std::size_t global_batch = 1;                                    ///< samples per step, M
  double device_memory = std::numeric_limits<double>::infinity();  ///< bytes
  double knee = 0.05;             ///< the micro-batch is the least whose F(m) / m is within this part of the best
  std::size_t stored_inputs = 0;  ///< a rank keeps at most; 0: twice the stages
};

struct varuna_plan {
  std::size_t replicas = 0;       ///< D
  std::size_t micro_batch = 0;    ///< m, samples
  std::size_t micro_batches = 0;  ///< N_m, of the replica with the most samples
  stage_split split;              ///< of the cut-points; its stages are P
  double pipeline_seconds = 0;
  double average_seconds = 0;

  [[nodiscard]] std::size_t stages() const noexcept { return split.stages(); }
  [[nodiscard]] double seconds() const noexcept { return pipeline_seconds + average_seconds; }
};

/// The place in `sizes` of the micro-batch at the knee of F(m) / m, F summed over all cut-points: larger ones would only
/// make the bubble larger.
inline std::size_t knee_of(const varuna_calibration& c, double tolerance) {
  std::vector<double> per_sample(c.sizes.size());
  for (std::size_t i = 0; i < per_sample.size(); ++i) {
    for (const cut_point& p : c.points) per_sample[i] += p.forward[i] / static_cast<double>(c.sizes[i]);
  }
  const double best = *std::min_element(per_sample.begin(), per_sample.end());
  std::size_t knee = 0;
  while (per_sample[knee] > best * (1 + tolerance)) ++knee;
  return knee;
}

namespace detail {

/// One number of stages at one micro-batch size.
class varuna_try {
 public:
  varuna_try(const varuna_calibration& c, const varuna_options& o, std::size_t size)
      : calibration_{c}, options_{o}, size_{size}, samples_{static_cast<double>(c.sizes[size])} {
    for (const cut_point& p : c.points) {
      model_.blocks.push_back({p.gradient_bytes, p.forward[size] + p.backward[size], p.memory, p.activation * samples_});
    }
  }

  [[nodiscard]] result<varuna_plan> run(std::size_t stages) const {
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

 private:
  [[nodiscard]] stage_costs costs_of(const stage_split& split) const {
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

  [[nodiscard]] double average_seconds(const varuna_plan& plan) const {
    const double d = static_cast<double>(plan.replicas);
    double slowest = 0;
    for (std::size_t s = 0; s < plan.stages(); ++s) {
      const block_cost stage = cost_of_stage(model_, plan.split.first_block[s], plan.split.end(s));
      slowest = std::max(slowest, 2 * (d - 1) * calibration_.ring.seconds(stage.parameters / d));
    }
    return slowest;
  }

  const varuna_calibration& calibration_;
  const varuna_options& options_;
  std::size_t size_;
  double samples_;
  model_cost model_;  // its `parameters` are the bytes of gradients
};

inline result<void> check_varuna(const varuna_calibration& c, const varuna_options& o) {
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

}  // namespace detail

/// The quickest (P, D, m, N_m) with P * D <= G. errc::invalid_argument: a calibration that is not complete;
/// errc::out_of_memory: the model fits in no number of stages. Costs a simulation for each number of stages up to G.
inline result<varuna_plan> plan_varuna(const varuna_calibration& calibration, const varuna_options& options) {
  CAUSEWAY_TRY(detail::check_varuna(calibration, options));
  const detail::varuna_try attempt{calibration, options, knee_of(calibration, options.knee)};
  result<varuna_plan> best = fail(errc::out_of_memory, "varuna's search", "nothing was tried");
  for (std::size_t p = 1; p <= std::min(calibration.points.size(), options.devices); ++p) {
    result<varuna_plan> next = attempt.run(p);
    if (!best || (next && next->seconds() < best->seconds())) best = std::move(next);
  }
  return best;
}

/// The plan for each number of devices from 1 to `options.devices`, or why there is none: what to change to when devices
/// come and go.
inline std::vector<result<varuna_plan>> morphing_table(const varuna_calibration& calibration, varuna_options options) {
  std::vector<result<varuna_plan>> table;
  for (std::size_t devices = options.devices, g = 1; g <= devices; ++g) {
    options.devices = g;
    table.push_back(plan_varuna(calibration, options));
  }
  return table;
}

}  // namespace causeway::inline CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_VARUNA_SEARCH_HPP
