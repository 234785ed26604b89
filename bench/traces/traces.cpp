// SPDX-License-Identifier: Apache-2.0
// How much is trained while instances come and go: traces of preemptions replayed with every policy against lost stages.
//
// usage: bench_traces_traces [--write FOLDER] [--seconds | TRACE.csv ...]
//
// Without a trace: the synthetic ones of bench/traces (given as they were made here, so that no file is needed), and what
// papers published beside ours. --write FOLDER writes these traces. --seconds: times of traces without names of columns are
// in seconds, not milliseconds. Deterministic. docs/benchmarks-traces.md has the results. Exit status 1 when something that
// it claims no longer holds.

#include <causeway/plan/preemption_trace_text.hpp>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "policies.hpp"
#include "published_share.hpp"
#include "tables/report.hpp"

namespace {

using namespace traces;

struct named_trace {
  std::string name;
  preemption_trace trace;
};

std::vector<named_trace> synthetic() {
  std::vector<named_trace> all;
  for (const int percent : {1, 10, 16, 33}) all.push_back({"hourly" + std::to_string(percent), day_of_losses(percent, 1)});
  return all;
}

void print_trace(const named_trace& t) {
  const trace_summary s = summary_of(t.trace);
  std::printf("\n%s: %.1f h, %.1f instances (%zu to %zu), %zu losses at %zu moments, %.1f %% an hour\n", t.name.c_str(),
              t.trace.seconds / 3600, s.mean_instances, s.fewest, s.most, s.losses, s.bulks, 100 * s.hourly_loss_share);
}

void print_rows(const std::vector<row>& rows) {
  std::printf("  %-26s %9s %7s %7s %7s %7s %7s %9s\n", "policy", "samples/s", "times", "share", "thrown", "paused",
              "stalled", "$/1000");
  for (const auto& [name, r] : rows) {
    const double base = rows[0].second.throughput();
    std::printf("  %-26s %9.3f %7.2f %6.1f%% %6.1f%% %6.1f%% %6.1f%% %9.2f\n", name.c_str(), r.throughput(),
                base > 0 ? r.throughput() / base : 0, 100 * r.share(),
                r.computed > 0 ? 100 * r.thrown_away / r.computed : 0, 100 * r.paused / r.seconds,
                100 * r.stalled / r.seconds, 1000 * r.dollars_per_sample());
  }
}

double of(const std::vector<row>& rows, std::size_t policy) { return rows[policy].second.throughput(); }

/// Seconds of a restart, its load not counted, at which `times` the throughput of checkpoint_restart is what `other` has.
double restart_for(const preemption_trace& t, const setting& s, double other, double times) {
  double low = 0, high = 36000;
  while (high - low > 1) {
    const double middle = (low + high) / 2;
    (other >= times * restart(t, s, middle).throughput() ? high : low) = middle;
  }
  return high;
}

void measured_steps(tables::report& out) {
  out.section("step", "4 B parameters: steps that Bamboo's authors measured, and those of our timeline");
  tables::report::heading();
  const setting s = four_billion();
  const auto cut = cut_job::make(s.job, s.stages);
  const double published[] = {17.9, 11.2, 9.2, 8.3};
  for (std::size_t d = 1; d <= 4; ++d) {
    const std::string what = std::to_string(16 * d) + " instances";
    out.compare(what.c_str(), published[d - 1], cut->step_seconds(d), 0.05, "s");
  }
}

void compare(tables::report& out, const setting& s, const named_trace& t, const std::vector<row>& rows) {
  tables::report::heading();
  out.compare("redundant / checkpoint_restart (Bamboo)", 3.7, of(rows, 1) / of(rows, 0), 0.19, "times");
  out.compare("templates / morph (Oobleck over Varuna; up to)", 29.6, of(rows, 3) / of(rows, 5), 0.25, "times");
  out.compare("reroute / templates (ReCycle over Oobleck)", 1.46, of(rows, 4) / of(rows, 3), 0.1, "times");
  out.compare("reroute / redundant (ReCycle over Bamboo)", 1.64, of(rows, 4) / of(rows, 1), 0.1, "times");
  std::printf(
      "  redundant is 3.0 (3.7) times checkpoint_restart if a restart takes %.0f (%.0f) s beside its load; here %.0f s\n",
      restart_for(t.trace, s, of(rows, 1), 3), restart_for(t.trace, s, of(rows, 1), 3.7), s.job.restart);
  std::printf("  templates, if they regroup as slowly as redundant (%.0f s): %.2f times redundant\n", s.redundant_regroup,
              templates(t.trace, s, s.redundant_regroup).throughput() / of(rows, 1));
  out.claim(of(rows, 1) > of(rows, 0), "redundant is ahead of checkpoint_restart");
  out.claim(of(rows, 3) >= of(rows, 1), "templates are at least as good as redundant");
  out.claim(of(rows, 4) > of(rows, 1), "reroute is ahead of redundant");
}

/// S7 with restarts that cost what Bamboo's authors saw: 23 % of the time is progress.
void published_progress(tables::report& out, const setting& s) {
  out.section("S7", (std::string{s.name} + ", restarts that leave 23 % of the time for progress (Bamboo)").c_str());
  const preemption_trace day = bamboo_day(1);
  print_trace({"p3", day});
  const double seconds = restart_for_progress(day, s, bamboo_progress);
  std::printf("  a restart takes %.0f s beside its load\n", seconds);
  tables::report::heading();
  out.compare("moments at which instances are lost", bamboo_moments, static_cast<double>(summary_of(day).bulks), 0.05, "");
  out.compare("redundant / checkpoint_restart", 3.7, redundant_over(day, s, seconds), 0.05, "times");
  const auto [least, most] = redundant_over_ten_days(s);
  std::printf("  on ten such days, each with its own restart: %.2f to %.2f times\n", least, most);
  out.claim(least >= 3, "redundant has at least 3 times the throughput of checkpoint_restart on each of them");
  for (const named_trace& t : synthetic())
    std::printf("  %-10s with the same restart: %.2f times\n", t.name.c_str(), redundant_over(t.trace, s, seconds));
}

/// S10: SWARM.
void swarm_losses(tables::report& out) {
  out.section("S10",
              "swarm: throughput kept when peers leave, 4 B parameters, 64 peers for 16 stages, 1,024 micro-batches");
  setting s = four_billion();
  s.job.micro_batches = 1024;
  bool kept = true;
  for (const std::uint32_t lost : {8U, 16U, 32U, 44U}) {
    auto p = *swarm_recovery::make(s.job, {s.stages});
    std::vector<std::uint32_t> all, gone;
    for (std::uint32_t i = 0; i < 64; ++i) all.push_back(i);
    p.changed({}, all);
    const double before = p.step_seconds();
    for (std::uint32_t i = 0; i < lost; ++i) gone.push_back(i);
    p.changed(gone, {});
    p.boundary();
    const double rate = before / p.step_seconds(), live = (64.0 - lost) / 64;
    std::printf("  %2u of 64 lost: %5.1f %% of the throughput with %5.1f %% of the peers\n", lost, 100 * rate, 100 * live);
    kept = kept && rate >= 0.9 * static_cast<double>((64 - lost) / 16 * 16) / 64;
  }
  out.claim(kept, "throughput is within 10 % of what the peers of the poorest stage could do");
  auto p = *swarm_recovery::make(s.job, {s.stages});
  std::vector<std::uint32_t> all;
  for (std::uint32_t i = 0; i < 64; ++i) all.push_back(i);
  p.changed({}, all);
  p.changed(std::vector<std::uint32_t>{3, 19, 35, 51}, {});
  out.claim(p.step_seconds() == no_step, "4 of 64 lost, all of one stage: nothing is trained");
}

int run_synthetic() {
  tables::report out;
  measured_steps(out);
  for (const setting& s : {four_billion(), gpt2(), gpt3()}) {
    out.section("S7", s.name);
    for (const named_trace& t : synthetic()) {
      print_trace(t);
      const auto rows = all_policies(t.trace, s);
      print_rows(rows);
      if (t.name != "hourly1") compare(out, s, t, rows);
      if (t.name == "hourly33" && s.job.restart > 500)
        out.claim(of(rows, 1) >= 3 * of(rows, 0), "redundant has at least 3 times the throughput of checkpoint_restart");
    }
  }
  for (const setting& s : {gpt2(), four_billion()}) published_progress(out, s);
  swarm_losses(out);
  return out.failed() ? 1 : 0;
}

int write_all(const std::string& folder) {
  for (const named_trace& t : synthetic()) {
    std::ofstream file{folder + "/" + t.name + ".csv", std::ios::binary};
    file << "# Synthetic: bench_traces_traces --write. docs/reference/traces.md says what the columns are.\n"
         << write_trace(t.trace);
    if (!file.flush()) return std::fprintf(stderr, "%s cannot be written\n", folder.c_str()), 2;
  }
  return 0;
}

int run_file(const std::string& path, const trace_text_options& options) {
  std::ifstream file{path, std::ios::binary};
  std::stringstream text;
  text << file.rdbuf();
  if (!file) return std::fprintf(stderr, "%s cannot be read\n", path.c_str()), 2;
  const auto trace = read_trace(text.str(), options);
  if (!trace) return std::fprintf(stderr, "%s\n", trace.error().text().c_str()), 2;
  print_trace({path, *trace});
  for (const setting& s : {four_billion(), gpt2(), gpt3()}) {
    if (summary_of(*trace).most < 2 * s.stages) {
      std::printf("\n%s: at most %zu instances, two pipelines take %zu\n", s.name, summary_of(*trace).most, 2 * s.stages);
      continue;
    }
    std::printf("\n%s\n", s.name);
    print_rows(all_policies(*trace, s));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  causeway::plan::trace_text_options options;
  bool files = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--write" && i + 1 < argc) return write_all(argv[i + 1]);
    if (argument == "--seconds") {
      options.per_second = 1;
      continue;
    }
    files = true;
    options.name = argument;
    if (const int status = run_file(argv[i], options); status != 0) return status;
  }
  return files ? 0 : run_synthetic();
}
