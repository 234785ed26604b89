// SPDX-License-Identifier: Apache-2.0
#include "replay_trace.hpp"

#include <causeway/plan/preemption_replay.hpp>
#include <causeway/plan/preemption_trace_text.hpp>
#include <causeway/plan/recovery_morph.hpp>
#include <causeway/plan/recovery_neighbour.hpp>
#include <causeway/plan/recovery_proactive.hpp>
#include <causeway/plan/recovery_redundant.hpp>
#include <causeway/plan/recovery_reroute.hpp>
#include <causeway/plan/recovery_restart.hpp>
#include <causeway/plan/recovery_swarm.hpp>
#include <causeway/plan/recovery_templates.hpp>
#include <causeway/plan/transformer_cost.hpp>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace app {
namespace {

namespace plan = causeway::plan;
using causeway::errc;
using causeway::fail;

struct request {
  std::string trace, model = "gpt2-xl";
  std::uint64_t stages = 8, redundant_stages = 0, global_batch = 128, micro_batch = 1, failures = 1, seed = 0;
  std::uint64_t checkpoint_steps = 1;
  double tflop_s = 20, link_mbit_s = 7000, link_ms = 0.15, detection = 5, restart = 60, regroup = 10;
  double load_mb_s = 80, save_mb_s = 45, preparation = 180, dollars = 0, repeated_steps = 0;
  bool in_seconds = false;
};

std::vector<setting> flags_of(request& r) {
  return {make_setting("trace", r.trace, "CSV: docs/reference/traces.md"),
          make_setting("in-seconds", r.in_seconds, "times without a named column are in seconds, not milliseconds"),
          make_setting("seed", r.seed, "of who leaves, in traces that only count"),
          make_setting("model", r.model, "gpt2-xl, llama-7b, ...; an unknown one lists all"),
          make_setting("stages", r.stages, "of a pipeline; a device holds the largest of them and no more"),
          make_setting("redundant-stages", r.redundant_stages, "with redundancy; 0: half as many again"),
          make_setting("global-batch", r.global_batch, "sequences in a step"),
          make_setting("micro-batch", r.micro_batch, "sequences in a micro-batch"),
          make_setting("tflop-s", r.tflop_s, "that a device reaches, 10^12 operations per second"),
          make_setting("link-mbit-s", r.link_mbit_s, "between any two devices"),
          make_setting("link-ms", r.link_ms, "delay between any two devices"),
          make_setting("failures", r.failures, "at once that templates survive"),
          make_setting("detection", r.detection, "seconds until a loss is noticed"),
          make_setting("restart", r.restart, "seconds of a restart, without loading"),
          make_setting("regroup", r.regroup, "seconds to change neighbours without a restart"),
          make_setting("load-mb-s", r.load_mb_s, "of a checkpoint, by each device"),
          make_setting("save-mb-s", r.save_mb_s, "of a checkpoint, by each device, in the background"),
          make_setting("checkpoint-steps", r.checkpoint_steps, "between checkpoints, at least"),
          make_setting("preparation", r.preparation, "seconds from an instance's arrival until it trains"),
          make_setting("repeated-steps", r.repeated_steps, "that make up for a stage made up from its neighbours"),
          make_setting("dollars", r.dollars, "for an instance and hour")};
}

causeway::result<plan::preemption_trace> trace_from(const request& r) {
  if (r.trace.empty())
    return fail(errc::invalid_argument, "--trace", "names no file; `causeway replay --help` lists all options");
  std::ifstream file{r.trace, std::ios::binary};
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return fail(errc::not_found, r.trace, "cannot be read; give a file with --trace");
  plan::trace_text_options o;
  o.name = r.trace;
  o.per_second = r.in_seconds ? 1 : 1000;
  o.seed = r.seed;
  return plan::read_trace(text.str(), o);
}

causeway::result<void> check(const request& r) {
  const auto positive = [](double x) { return x > 0 && x <= 1e12; };
  const auto whole = [](std::uint64_t n, std::uint64_t most) { return n >= 1 && n <= most; };
  const auto wrong = [](const char* what, const char* why) { return fail(errc::invalid_argument, what, why); };
  if (!whole(r.global_batch, 1'000'000) || !whole(r.micro_batch, r.global_batch) || r.global_batch % r.micro_batch != 0)
    return wrong("--global-batch", "must be up to 1,000,000 and a multiple of --micro-batch");
  if (!whole(r.stages, 1000) || r.redundant_stages > 1000) return wrong("--stages", "must be from 1 to 1,000");
  if (!whole(r.checkpoint_steps, 1'000'000)) return wrong("--checkpoint-steps", "must be from 1 to 1,000,000");
  if (r.failures > 100) return wrong("--failures", "must be at most 100");
  if (!positive(r.tflop_s) || !positive(r.link_mbit_s) || !positive(r.load_mb_s) || !positive(r.save_mb_s))
    return wrong("speeds", "of devices, links and checkpoints must be above 0");
  for (const double x : {r.link_ms, r.detection, r.restart, r.regroup, r.preparation, r.repeated_steps, r.dollars}) {
    if (!(x >= 0 && x <= 1e9)) return wrong("costs", "must be from 0 to 1e9");
  }
  return {};
}

causeway::result<plan::recovery_job> job_of(const request& r) {
  const plan::transformer_shape* shape = plan::find_transformer(r.model);
  if (shape == nullptr) {
    std::string names;
    for (const auto& t : plan::transformer_presets) names += (names.empty() ? "" : ", ") + std::string{t.name};
    return fail(errc::invalid_argument, "--model", "'" + r.model + "' is none of " + names);
  }
  const plan::training_bytes bytes{16, 2, 2};
  const double tokens = static_cast<double>(shape->context) * static_cast<double>(r.micro_batch);
  plan::recovery_job job;
  job.model = plan::cost_of(*shape, tokens, bytes);
  for (auto& b : job.model.blocks) b.seconds /= r.tflop_s * 1e12;
  for (auto& b : job.model.blocks) b.activation = 0;  // stages are given: what they take is not looked at again
  job.model.head.seconds /= r.tflop_s * 1e12;
  job.model.head.memory = static_cast<double>(shape->vocabulary) * static_cast<double>(shape->width) * bytes.state;
  job.forward_share = 0.25;  // forward, forward again, and a backward of two
  job.micro_batches = r.global_batch / r.micro_batch;
  job.micro_batch = r.micro_batch;
  job.boundary_bytes = plan::boundary_bytes(*shape, tokens, bytes);
  job.gradient_bytes = bytes.gradient;
  job.link = {r.link_ms / 1000, r.link_mbit_s * 1e6};
  job.detection = r.detection;
  job.restart = r.restart;
  job.regroup = r.regroup;
  job.read_bytes_per_second = r.load_mb_s * 1e6;
  job.write_bytes_per_second = r.save_mb_s * 1e6;
  job.checkpoint_steps = r.checkpoint_steps;
  return job;
}

/// Replays one policy after another and prints a line for each.
class table {
 public:
  table(const plan::preemption_trace& trace, const plan::recovery_job& job, const request& r)
      : trace_{trace}, job_{job}, options_{r.preparation, r.dollars} {
    std::printf("\n%-20s %11s %8s %8s %8s %8s %8s\n", "policy", "sequences/s", "share", "thrown", "paused", "stalled",
                r.dollars > 0 ? "$/1000" : "");
  }

  template <plan::recovery_policy Policy>
  void row(const char* name, Policy policy) {
    const plan::replay_result x = plan::replay(trace_, job_, options_, std::move(policy));
    const auto part = [](double a, double b) { return b > 0 ? 100 * a / b : 0; };
    std::printf("%-20s %11.3f %7.1f%% %7.1f%% %7.1f%% %7.1f%%", name, x.throughput(), 100 * x.share(),
                part(x.thrown_away, x.computed), part(x.paused, x.seconds), part(x.stalled, x.seconds));
    if (options_.dollars_per_instance_hour > 0) std::printf(" %8.2f", 1000 * x.dollars_per_sample());
    std::printf("\n");
  }

  template <plan::recovery_policy Policy>
  void row(const char* name, causeway::result<Policy> policy) {
    if (policy) return row(name, std::move(*policy));
    std::printf("%-20s %s\n", name, policy.error().text().c_str());
  }

 private:
  const plan::preemption_trace& trace_;
  const plan::recovery_job& job_;
  plan::replay_options options_;
};

causeway::result<plan::template_recovery> templates_of(const plan::recovery_job& job, const request& r, std::size_t most,
                                                       double memory) {
  plan::template_peers kind;
  kind.memory = memory;
  const std::size_t share = std::max<std::size_t>(1, job.micro_batches * r.stages / std::max<std::size_t>(most, 1));
  CAUSEWAY_ASSIGN(plan::template_set set, plan::make_templates(job.model, kind, most, r.failures, share));
  return plan::template_recovery{job, std::move(set)};
}

void print_policies(const plan::preemption_trace& trace, const plan::recovery_job& job, const request& r, double memory) {
  const std::size_t redundant = r.redundant_stages != 0 ? r.redundant_stages : r.stages + (r.stages + 1) / 2;
  const double inputs = 2 * static_cast<double>(r.stages) * job.boundary_bytes;  // that Varuna recomputes from
  plan::proactive_options ahead;
  ahead.most_stages = redundant;
  ahead.device_memory = memory;
  table t{trace, job, r};
  t.row("checkpoint_restart", plan::restart_recovery::make(job, r.stages));
  t.row("redundant", plan::redundant_recovery::make(job, {redundant}));
  t.row("templates", templates_of(job, r, plan::summary_of(trace).most, memory));
  t.row("reroute", plan::reroute_recovery::make(job, r.stages));
  t.row("morph", plan::morph_recovery{job, memory + inputs});
  t.row("neighbour_init", plan::neighbour_recovery::make(job, {r.stages, r.repeated_steps}));
  t.row("proactive", plan::proactive_recovery{job, ahead});
  t.row("swarm", plan::swarm_recovery::make(job, {r.stages}));
}

}  // namespace

std::vector<setting> replay_options() {
  static request usual;  // the table refers to it
  return flags_of(usual);
}

causeway::result<int> replay_trace(const command_line& line) {
  request r;
  CAUSEWAY_TRY(take_options(line, flags_of(r)));
  CAUSEWAY_TRY(check(r));
  CAUSEWAY_ASSIGN(const plan::recovery_job job, job_of(r));
  CAUSEWAY_ASSIGN(const plan::preemption_trace trace, trace_from(r));
  CAUSEWAY_ASSIGN(const plan::cut_job cut, plan::cut_job::make(job, r.stages));
  const plan::trace_summary s = plan::summary_of(trace);
  if (s.most > 256 || trace.seconds > 366.0 * 86400)
    return fail(errc::too_large, r.trace, "has more than 256 instances at one time, or is longer than a year; cut it");
  std::printf("%s: %.1f h, %.1f instances (%zu to %zu), %zu losses at %zu moments, %.1f %% an hour\n", r.trace.c_str(),
              trace.seconds / 3600, s.mean_instances, s.fewest, s.most, s.losses, s.bulks, 100 * s.hourly_loss_share);
  std::printf("%s: %llu stages, %zu micro-batches; a step of all %zu instances takes %.3f s in whole pipelines\n",
              r.model.c_str(), static_cast<unsigned long long>(r.stages), job.micro_batches, s.most,
              cut.step_seconds(s.most / r.stages));
  print_policies(trace, job, r, cut.state_bytes() * 1.001);
  return 0;
}

}  // namespace app
