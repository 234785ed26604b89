// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_BENCH_TRACES_JOBS_HPP
#define CAUSEWAY_BENCH_TRACES_JOBS_HPP

// Two jobs and what going on costs them, each number with its source. "Derived": no source says it, we had to choose.

#include <causeway/plan/recovery.hpp>

#include <cstddef>

namespace traces {

using namespace causeway::plan;  // NOLINT: a benchmark's own header

/// A job, and how the policies run it. What going on costs in `job` is checkpoint_restart's and morph's.
struct setting {
  const char* name;
  recovery_job job;
  std::size_t stages;            ///< of a pipeline without redundancy
  std::size_t redundant_stages;  ///< Bamboo takes 1.5 times as many (NSDI 2023, section 5)
  double redundant_regroup;      ///< s of redundant's reconfigurations
  double regroup;                ///< s of all others', without the copies
};

// Bamboo's authors measured a model of 4 B parameters on 16 to 64 instances (github.com/uclasystem/bamboo,
// simulation/profiling-runs/run-86):
inline constexpr double bamboo_reload = 50;        // s to load a checkpoint (44 to 58; load_times_0.csv)
inline constexpr double bamboo_restart = 90;       // s of a reconfiguration with its load (62 to 138; reconfig.csv)
inline constexpr double bamboo_write = 88;         // s to write a checkpoint in the background (82 to 97)
inline constexpr double bamboo_preparation = 180;  // s until a new instance can train (checkpoint-simulation-framework.py)
inline constexpr double bamboo_parameters = 4e9;   // its README
inline constexpr std::size_t bamboo_stages = 16;   // the same program: pipeline_depth
inline constexpr double state_bytes_per_parameter = 16;  // f16 weights and gradients, f32 weights and two moments of Adam

// Parcae's authors measured links of 10 Gbit/s and GPT-2 with 1.5 B parameters, on a V100 (github.com/JF-D/Parcae,
// liveput/cost.py and cost_cfg.py):
inline constexpr double parcae_latency = 143e-6;            // s of a small message
inline constexpr double parcae_bytes_per_second = 0.896e9;  // 1 GiB in 1.198 s
inline constexpr double parcae_rendezvous = 6.6;            // s
// Oobleck's authors' simulator (github.com/SymbioticLab/Oobleck, tools/simulator):
inline constexpr double oobleck_regroup = 2;  // s of a reconfiguration of GPT-2, copies included; here without them
inline constexpr double bamboo_regroup = 20;  // s of Bamboo's "local rendezvous" for GPT-2 and BERT
inline constexpr double spot_dollars = 0.91;  // for a p3.2xlarge and hour
// Derived:
inline constexpr double detection = 5;                 // s until a lost neighbour is noticed
inline constexpr double host_bytes_per_second = 12e9;  // PCIe 3 with 16 lanes, for Bamboo's failover

/// What going on costs. Bamboo's loads and writes are of a stage of 4 B / 16 parameters: 4 GB.
inline void set_costs(recovery_job& job) {
  const double stage = bamboo_parameters / static_cast<double>(bamboo_stages) * state_bytes_per_parameter;
  job.link = {parcae_latency, 8 * parcae_bytes_per_second};
  job.detection = detection;
  job.restart = bamboo_restart - bamboo_reload;
  job.read_bytes_per_second = stage / bamboo_reload;
  job.write_bytes_per_second = stage / bamboo_write;
}

/// Bamboo's model. A global batch of 64 micro-batches, 0.225 s of each stage and f16 gradients are fitted: they give the
/// steps that were measured (17.9, 11.2, 9.2 and 8.3 s on 16, 32, 48 and 64 instances) within 5 %. 48 blocks: derived.
inline setting four_billion() {
  recovery_job job;
  const double parameters = bamboo_parameters / 48;
  job.model.blocks.assign(48, {parameters, 0.225 / 3, parameters * state_bytes_per_parameter, 0});
  job.forward_share = 1.0 / 3;  // derived: a backward takes as long as two forwards
  job.micro_batches = 64;
  job.boundary_bytes = 1024 * 2560 * 2;  // derived: 1,024 tokens, width 2,560, f16
  set_costs(job);
  return {"4 B parameters (Bamboo's profile)", job, bamboo_stages, 24, bamboo_regroup, oobleck_regroup};
}

/// GPT-2 with 1.5 B parameters: Parcae's profile of its blocks for one sample of 1,024 tokens, and its global batch. 8
/// stages without redundancy and 12 with it are Bamboo's.
inline setting gpt2() {
  recovery_job job;
  job.model.blocks.assign(48, {30740800, 6.510e-3 + 13.448e-3, 30740800 * state_bytes_per_parameter, 0});
  job.model.embedding = {82124800, 0.752e-3 + 0.798e-3, 82124800 * state_bytes_per_parameter, 0};
  job.model.head = {0, 11.238e-3 + 23.762e-3, 0, 0};  // the table is the embedding's
  job.forward_share = 6.510 / (6.510 + 13.448);
  job.micro_batches = 128;
  job.boundary_bytes = 1024 * 1600 * 2;
  set_costs(job);
  return {"GPT-2 1.5 B (Parcae's profile)", job, 8, 12, bamboo_regroup, oobleck_regroup};
}

/// GPT-3 with 2.7 B parameters: Parcae's profile of its blocks, four samples at a time, and a global batch of 512 and all
/// costs from Oobleck's simulator. There only restarting systems write checkpoints: 50 s every 10 steps.
inline setting gpt3() {
  recovery_job job;
  job.model.blocks.assign(32, {78676480, 4 * (13.487e-3 + 28.031e-3), 78676480 * state_bytes_per_parameter, 0});
  job.model.embedding = {131399680, 4 * (0.625e-3 + 1.015e-3), 131399680 * state_bytes_per_parameter, 0};
  job.model.head = {0, 4 * (17.830e-3 + 37.045e-3), 0, 0};
  job.forward_share = 13.487 / (13.487 + 28.031);
  job.micro_batches = 128;
  job.micro_batch = 4;
  job.boundary_bytes = 4 * 1024 * 2560 * 2;
  set_costs(job);
  job.restart = 515;                  // with the load
  job.read_bytes_per_second = 1e18;   // in the restart
  job.write_bytes_per_second = 1e18;  // in the stall
  job.checkpoint_stall = 50;
  job.checkpoint_steps = 10;
  return {"GPT-3 2.7 B (Oobleck's costs)", job, 8, 12, 230, 6};
}

}  // namespace traces

#endif  // CAUSEWAY_BENCH_TRACES_JOBS_HPP
