// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_BENCH_TRACES_POLICIES_HPP
#define CAUSEWAY_BENCH_TRACES_POLICIES_HPP

// Replays of one trace with every policy.

#include <causeway/plan/preemption_replay.hpp>
#include <causeway/plan/recovery_morph.hpp>
#include <causeway/plan/recovery_neighbour.hpp>
#include <causeway/plan/recovery_proactive.hpp>
#include <causeway/plan/recovery_redundant.hpp>
#include <causeway/plan/recovery_reroute.hpp>
#include <causeway/plan/recovery_restart.hpp>
#include <causeway/plan/recovery_swarm.hpp>
#include <causeway/plan/recovery_templates.hpp>

#include <string>
#include <utility>
#include <vector>

#include "jobs.hpp"

namespace traces {

/// The parameter of neighbour_init that no replay can know: CheckFree's paper has no such number. Derived, and shown beside
/// 0.
inline constexpr double repeated_steps = 20;

inline replay_options options() { return {bamboo_preparation, spot_dollars}; }

/// The job of a policy that does not live on checkpoints: it writes them in the background, if at all.
inline recovery_job with_regroup(const setting& s, double seconds) {
  recovery_job job = s.job;
  job.regroup = seconds;
  job.checkpoint_stall = 0;
  return job;
}

/// What a peer holds: as much as the largest of the stages without redundancy, and a little for rounding. It stands for the
/// device's memory, so that all policies need as many stages.
inline double device_memory(const setting& s) { return cut_job::make(s.job, s.stages)->state_bytes() * 1.001; }

inline replay_result restart(const preemption_trace& t, const setting& s, double restart_seconds) {
  recovery_job job = s.job;
  job.restart = restart_seconds;
  return replay(t, job, options(), *restart_recovery::make(job, s.stages));
}

inline replay_result redundant(const preemption_trace& t, const setting& s, std::size_t stages, double regroup) {
  const recovery_job job = with_regroup(s, regroup);
  const double failover = cut_job::make(job, stages)->state_bytes() / host_bytes_per_second;
  return replay(t, job, options(), *redundant_recovery::make(job, {stages, failover}));
}

inline replay_result templates(const preemption_trace& t, const setting& s, double regroup) {
  const recovery_job job = with_regroup(s, regroup);
  template_peers kind;
  kind.memory = device_memory(s);
  const std::size_t most = summary_of(t).most;
  const auto set = make_templates(job.model, kind, most, 1, job.micro_batches * s.stages / most);
  return replay(t, job, options(), template_recovery{job, *set});
}

inline replay_result reroute(const preemption_trace& t, const setting& s, double regroup) {
  const recovery_job job = with_regroup(s, regroup);
  return replay(t, job, options(), *reroute_recovery::make(job, s.stages));
}

inline replay_result morph(const preemption_trace& t, const setting& s) {
  // Its schedule keeps inputs to recompute from beside the state: two micro-batches for each stage.
  const double inputs = 2 * static_cast<double>(s.stages) * s.job.boundary_bytes;
  return replay(t, s.job, options(), morph_recovery{s.job, device_memory(s) + inputs});
}

inline replay_result neighbour(const preemption_trace& t, const setting& s, double repeated) {
  const recovery_job job = with_regroup(s, s.regroup);
  return replay(t, job, options(), *neighbour_recovery::make(job, {s.stages, repeated}));
}

inline replay_result proactive(const preemption_trace& t, const setting& s) {
  const recovery_job job = with_regroup(s, parcae_rendezvous);
  proactive_options o;
  o.most_stages = s.redundant_stages;
  o.device_memory = device_memory(s);
  return replay(t, job, options(), proactive_recovery{job, o});
}

inline replay_result swarm(const preemption_trace& t, const setting& s) {
  const recovery_job job = with_regroup(s, s.regroup);
  return replay(t, job, options(), *swarm_recovery::make(job, {s.stages}));
}

using row = std::pair<std::string, replay_result>;

/// The rows that `restart`, `redundant` and so on give; the first is checkpoint_restart.
inline std::vector<row> all_policies(const preemption_trace& t, const setting& s) {
  const std::string more = std::to_string(s.redundant_stages);
  return {{"checkpoint_restart", restart(t, s, s.job.restart)},
          {"redundant, " + more + " stages", redundant(t, s, s.redundant_stages, s.redundant_regroup)},
          {"redundant, " + std::to_string(s.stages) + " stages", redundant(t, s, s.stages, s.redundant_regroup)},
          {"templates", templates(t, s, s.regroup)},
          {"reroute", reroute(t, s, s.regroup)},
          {"morph", morph(t, s)},
          {"neighbour_init, 0 steps", neighbour(t, s, 0)},
          {"neighbour_init, 20 steps", neighbour(t, s, repeated_steps)},
          {"proactive", proactive(t, s)},
          {"swarm", swarm(t, s)}};
}

}  // namespace traces

#endif  // CAUSEWAY_BENCH_TRACES_POLICIES_HPP
