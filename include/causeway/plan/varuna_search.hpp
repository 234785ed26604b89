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

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

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
CAUSEWAY_DECL std::size_t knee_of(const varuna_calibration& c, double tolerance);

namespace detail {

/// One number of stages at one micro-batch size.
class varuna_try {
 public:
  CAUSEWAY_DECL varuna_try(const varuna_calibration& c, const varuna_options& o, std::size_t size);

  CAUSEWAY_DECL [[nodiscard]] result<varuna_plan> run(std::size_t stages) const;

 private:
  CAUSEWAY_DECL [[nodiscard]] stage_costs costs_of(const stage_split& split) const;

  CAUSEWAY_DECL [[nodiscard]] double average_seconds(const varuna_plan& plan) const;

  const varuna_calibration& calibration_;
  const varuna_options& options_;
  std::size_t size_;
  double samples_;
  model_cost model_;  // its `parameters` are the bytes of gradients
};

}  // namespace detail

/// The quickest (P, D, m, N_m) with P * D <= G. errc::invalid_argument: a calibration that is not complete;
/// errc::out_of_memory: the model fits in no number of stages. Costs a simulation for each number of stages up to G.
CAUSEWAY_DECL result<varuna_plan> plan_varuna(const varuna_calibration& calibration, const varuna_options& options);

/// The plan for each number of devices from 1 to `options.devices`, or why there is none: what to change to when devices
/// come and go.
CAUSEWAY_DECL std::vector<result<varuna_plan>> morphing_table(const varuna_calibration& calibration,
                                                              varuna_options options);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/varuna_search.ipp>
#endif

#endif  // CAUSEWAY_PLAN_VARUNA_SEARCH_HPP
