// SPDX-License-Identifier: Apache-2.0
// Hunts for seeds under which a run whose peers come and go breaks a promise. Every seed is a whole cluster in virtual
// time: real trainers, membership, transfers and disks, with machines that die, stand still, lose their network or their
// disk. Every event goes through the checker; afterwards, when all faults are over, the run must come to its end, and all
// peers to the same parameters.

#include <causeway/comm/every_step.hpp>
#include <causeway/comm/periodic.hpp>
#include <causeway/compress/block_int8.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/presets/compressed.hpp>
#include <causeway/presets/gossip.hpp>
#include <causeway/presets/local_updates.hpp>
#include <causeway/presets/overlapped.hpp>
#include <causeway/sim/fault_apply.hpp>
#include <causeway/sim/fault_plan.hpp>
#include <causeway/sim/fault_profile.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "membership/lies.hpp"
#include "support/blocky.hpp"
#include "support/elastic.hpp"

namespace {

using namespace causeway;
using namespace std::chrono_literals;

struct arguments {
  std::uint64_t seeds = 1000;
  std::uint64_t first = 1;
  unsigned jobs = 1;
  std::uint32_t peers = 8;
  std::string plan = "random";
  std::string plan_file;
  std::string policy = "all";
  std::string lies;
  bool twice = false;
  bool shrink = false;
  bool trace = false;
  std::string history;
};

constexpr const char* help =
    R"(usage: hunt [--seeds N] [--first SEED] [--jobs J] [--peers P]
            [--plan random|harsh|hostile|partitions|swizzle|lies|none]
            [--plan-file FILE] [--policy all|NAME] [--twice] [--shrink] [--trace] [--history FILE]
            [--lies NAME,NAME|all]

Runs N simulated clusters and stops at the first that breaks a promise, with the line that replays it.
  --policy       diloco, local_sgd, int8, every_step, streaming, by_change, sparta, demo, des_loc, fedavg, eager,
                 distro, power_sgd, noloco, moshpit, bacombo, dedloc, cocktail or sparta_diloco; all: in turn, but for
                 the last
  --plan lies    instead of a whole cluster its memberships alone, one of which lies
  --lies         what it lies about; without it some of what the membership is known to withstand
  --twice        runs every seed twice and compares everything that happened, byte for byte
  --plan-file    faults from a file instead (docs/reference/simulation_files.md)
  --shrink       takes faults out of the plan of a failing seed as long as it fails, and prints what is left
  --trace        prints what the peers log
  --history      writes every event of the (last) run
)";

/// What goes wrong in a run of about a minute: each host dies about once, stands still, loses its line or its disk.
sim::fault_profile minute_profile() {
  return {.kill_every = 40s,
          .down_least = 500ms,
          .down_most = 10s,
          .stop_every = 60s,
          .stop_least = 200ms,
          .stop_most = 15s,
          .partition_every = 20s,
          .partition_least = 1s,
          .partition_most = 12s,
          .one_way = 0.4,
          .slow_every = 60s,
          .slow_least = 1s,
          .slow_most = 10s,
          .slow_bytes_per_s = 100,
          .stragglers = 0.1,
          .slowdown = 3,
          .disk_every = 60s};
}

sim::fault_profile partition_profile() {
  return {.partition_every = 4s, .partition_least = 300ms, .partition_most = 8s, .one_way = 0.3};
}

constexpr duration horizon = 40s;
constexpr duration patience = 20min;  ///< from the end of all faults to the end of the run

sim::fault_plan plan_of(const arguments& a, std::uint64_t seed) {
  if (!a.plan_file.empty()) {
    std::ifstream file{a.plan_file};
    std::stringstream text;
    text << file.rdbuf();
    return sim::fault_plan::parse(text.str(), a.plan_file).value();
  }
  if (a.plan == "none") return {};
  if (a.plan == "hostile") return sim::random_plan(sim::hostile_profile(), a.peers, horizon, seed);
  if (a.plan == "harsh") return sim::random_plan(sim::harsh_profile(), a.peers, horizon, seed);
  if (a.plan == "partitions") return sim::random_plan(partition_profile(), a.peers, horizon, seed);
  if (a.plan == "swizzle") {
    rng draws{seed, 0x7377697A};
    std::vector<std::uint32_t> cut;
    for (std::uint32_t i = 0; i < a.peers; ++i) {
      if (draws.below(2) == 0) cut.push_back(i);
    }
    return sim::swizzle(cut, a.peers, time_point{2s}, horizon - 2s, seed);
  }
  return sim::random_plan(minute_profile(), a.peers, horizon, seed);
}

struct outcome {
  std::string problem;  ///< empty: all promises were kept
  bool stuck = false;   ///< nothing went wrong, but the run did not end
  std::uint64_t history = 0;
  std::uint64_t events = 0;
  std::uint64_t rounds = 0;
};

template <class Inner = optim::sgd, class M = support::quadratic, class MakeComm>
outcome run(const arguments& a, std::uint64_t seed, const sim::fault_plan& plan, MakeComm make) {
  support::elastic_options o;
  o.peers = a.peers;
  o.seed = seed;
  o.rounds = 12;
  o.world.link.latency = std::chrono::milliseconds{1 + static_cast<std::int64_t>(mix(seed, 1) % 40)};
  o.world.link.jitter = std::chrono::milliseconds{static_cast<std::int64_t>(mix(seed, 2) % 20)};
  o.world.link.loss = mix(seed, 3) % 4 == 0 ? 0.01 : 0;
  o.world.repeat_after_reconnect = 0.2;
  o.step_time = std::chrono::milliseconds{100 + static_cast<std::int64_t>(mix(seed, 4) % 900)};
  if (a.trace) {
    o.trace = [](std::string_view line) { std::printf("%.*s\n", static_cast<int>(line.size()), line.data()); };
  }
  if (std::is_same_v<M, support::blocky>) o.size = 4;
  support::elastic_cluster<MakeComm, Inner, M> cluster{make, o};
  cluster.keep_history = !a.history.empty();
  outcome result;
  const auto applied = sim::apply(plan, cluster.world(), [&](std::uint32_t host) { return cluster.disk(host); });
  if (!applied) return {.problem = applied.error().text()};
  cluster.boot();
  const bool done = cluster.run(horizon + patience);
  result.history = cluster.world().history_hash();
  result.events = cluster.world().event_count();
  result.rounds = cluster.commits().size();
  if (!a.history.empty()) {
    std::ofstream out{a.history};
    for (const auto& line : cluster.history()) out << line << '\n';
  }
  if (cluster.violation()) {
    result.problem = *cluster.violation();
  } else if (!done) {
    result.stuck = true;
    result.problem = "the run did not end: " + std::to_string(cluster.finished()) + " of " + std::to_string(a.peers) +
                     " peers finished, " + std::to_string(result.rounds) + " rounds, last commit at " +
                     std::to_string(seconds(cluster.last_commit().since_start)) + " s";
    for (std::uint32_t i = 0; i < a.peers; ++i) {
      if (!cluster.error(i).empty()) result.problem += "; peer " + std::to_string(i) + ": " + cluster.error(i);
    }
  } else {
    for (std::uint32_t i = 1; i < a.peers; ++i) {
      if (cluster.parameters(i) != cluster.parameters(0)) {
        result.problem = "peers 0 and " + std::to_string(i) + " ended with different parameters";
      }
    }
  }
  return result;
}

outcome run(const arguments& a, std::uint64_t seed, const sim::fault_plan& plan) {
  const std::vector<std::string> all{"diloco",    "int8",   "every_step", "local_sgd", "streaming", "by_change",
                                     "sparta",    "demo",   "des_loc",    "fedavg",    "eager",     "distro",
                                     "power_sgd", "noloco", "moshpit",    "bacombo",   "dedloc",    "cocktail"};
  const std::string policy = a.policy == "all" ? all[seed % all.size()] : a.policy;
  const comm::periodic_options periodic{.local_steps = 3};
  if (policy == "every_step") return run(a, seed, plan, [] { return comm::every_step<>{}; });
  if (policy == "local_sgd") {
    return run(a, seed, plan, [=] { return comm::periodic<optim::sgd>{{.local_steps = 3, .outer_learning_rate = 1.0F}}; });
  }
  if (policy == "int8")
    return run(a, seed, plan, [=] { return comm::periodic<optim::nesterov, compress::block_int8>{periodic}; });
  if (policy == "streaming") {
    return run<optim::sgd, support::blocky>(a, seed, plan, [seed] {
      return presets::make(presets::streaming_diloco_options{
          .local_steps = 6, .blocks_in_fragment = 2, .overlap_steps = 1 + static_cast<std::uint32_t>(mix(seed, 5) % 4)});
    });
  }
  if (policy == "by_change") {
    return run<optim::sgd, support::blocky>(a, seed, plan, [] {
      return presets::make(presets::cocodc_options{.local_steps = 6, .blocks_in_fragment = 2, .overlap_steps = 2});
    });
  }
  if (policy == "sparta") return run(a, seed, plan, [] { return presets::make(presets::sparta_options{.share = 0.1}); });
  if (policy == "sparta_diloco") {
    return run(a, seed, plan,
               [] { return presets::make(presets::sparta_diloco_options{.sparta = {.share = 0.1}, .local_steps = 3}); });
  }
  if (policy == "demo") return run(a, seed, plan, [] { return presets::make(presets::demo_options{}); });
  if (policy == "des_loc") {
    return run<optim::adamw>(a, seed, plan, [] {
      return presets::make(
          presets::des_loc_options{.parameters_every = 2, .first_moment_every = 4, .second_moment_every = 6});
    });
  }
  if (policy == "eager") {
    return run(a, seed, plan, [] { return presets::make(presets::eager_diloco_options{.local_steps = 3}); });
  }
  if (policy == "dedloc") return run(a, seed, plan, [] { return presets::make(presets::dedloc_options{.batch = 12}); });
  if (policy == "cocktail") {
    return run(a, seed, plan, [] { return presets::make(presets::cocktail_sgd_options{.mask_share = 0.5, .k = 2048}); });
  }
  if (policy == "distro") return run(a, seed, plan, [] { return presets::make(presets::distro_options{}); });
  if (policy == "noloco")
    return run(a, seed, plan, [] { return presets::make(presets::noloco_options{.local_steps = 4}); });
  if (policy == "moshpit") {
    return run(a, seed, plan,
               [] { return presets::make(presets::moshpit_sgd_options{.local_steps = 4, .side = 3, .dimensions = 2}); });
  }
  if (policy == "bacombo") {
    return run<optim::sgd, support::blocky>(
        a, seed, plan, [] { return presets::make(presets::bacombo_options{.local_steps = 4, .segments = 2}); });
  }
  if (policy == "power_sgd") {
    return run<optim::sgd, support::blocky>(a, seed, plan,
                                            [] { return presets::make(presets::power_sgd_options{.rank = 2}); });
  }
  if (policy == "fedavg") {
    return run(a, seed, plan, [] { return presets::make(presets::fedavg_options{.local_steps = 3, .share = 0.5}); });
  }
  return run(a, seed, plan, [=] { return comm::periodic<>{periodic}; });
}

/// The same without damage at rest: a bit that flips in the only copy of something is lost for good.
sim::fault_plan without_flips(sim::fault_plan plan) {
  std::erase_if(plan.faults, [](const sim::fault& f) { return f.kind == sim::fault_kind::flip; });
  return plan;
}

/// Some of what is withstood, others for each seed, or what was asked for.
test::lies lies_of(const arguments& a, std::uint64_t seed) {
  test::lies some;
  for (std::size_t i = 0; i < test::lie_names.size(); ++i) {
    const auto l = static_cast<test::lie>(i);
    const bool asked =
        a.lies == "all" || (',' + a.lies + ',').find(',' + std::string{to_string(l)} + ',') != std::string::npos;
    const bool drawn = a.lies.empty() && test::withstood.contains(l) && mix(seed, i) % 3 == 0;
    if (asked || drawn) some.insert(l);
  }
  return some;
}

/// All that was noted in a run, and how it ended.
std::string lying_history(const arguments& a, std::uint64_t seed, std::string& problem) {
  std::string all;
  const auto note = [&](const membership::event& e) {
    if (a.twice || !a.history.empty()) all += to_line(e) + '\n';
    if (a.trace) std::printf("%s\n", to_line(e).c_str());
  };
  const test::outcome o = test::lying_ride(seed, lies_of(a, seed), note);
  problem = o.violation + o.stuck;
  if (!a.history.empty()) std::ofstream{a.history} << all;
  return all + std::to_string(o.steps);
}

bool hunt_lies(const arguments& a, std::uint64_t seed) {
  std::string problem;
  const std::string history = lying_history(a, seed, problem);
  if (problem.empty() && a.twice && lying_history(a, seed, problem) != history) problem = "two runs of this seed differ";
  if (problem.empty()) return true;
  std::printf("seed %llu: %s\n  hunt --first %llu --seeds 1 --plan lies%s%s --trace\n",
              static_cast<unsigned long long>(seed), problem.c_str(), static_cast<unsigned long long>(seed),
              a.lies.empty() ? "" : " --lies ", a.lies.c_str());
  std::fflush(stdout);
  return false;
}

bool hunt_one(const arguments& a, std::uint64_t seed) {
  if (a.plan == "lies") return hunt_lies(a, seed);
  sim::fault_plan plan = plan_of(a, seed);
  outcome first = run(a, seed, plan);
  if (first.stuck && without_flips(plan) != plan) {
    plan = without_flips(plan);
    first = run(a, seed, plan);
  }
  if (first.problem.empty() && a.twice) {
    const outcome second = run(a, seed, plan);
    if (second.history != first.history || second.events != first.events) {
      first.problem = "two runs of this seed differ: " + std::to_string(first.events) + " and " +
                      std::to_string(second.events) + " events";
    }
  }
  if (first.problem.empty()) return true;
  std::printf("seed %llu: %s\n  hunt --first %llu --seeds 1 --peers %u --plan %s --policy %s --trace\n",
              static_cast<unsigned long long>(seed), first.problem.c_str(), static_cast<unsigned long long>(seed), a.peers,
              a.plan.c_str(), a.policy.c_str());
  if (a.shrink) {
    const auto least = sim::shrink(plan, [&](const sim::fault_plan& p) { return !run(a, seed, p).problem.empty(); });
    std::printf("with these faults alone: %s\n%s", run(a, seed, least).problem.c_str(), least.text().c_str());
  }
  std::fflush(stdout);
  return false;
}

/// Every jobs-th seed from `offset` on. Gives how many were run; negative: one failed.
bool hunt_some(const arguments& a, unsigned offset) {
  const auto begin = std::chrono::steady_clock::now();
  auto said = begin;
  for (std::uint64_t i = offset; i < a.seeds; i += a.jobs) {
    if (!hunt_one(a, a.first + i)) return false;
    const auto now = std::chrono::steady_clock::now();
    if (offset == 0 && now - said > 10s) {
      said = now;
      std::printf("%llu of %llu seeds\n", static_cast<unsigned long long>(i + 1), static_cast<unsigned long long>(a.seeds));
      std::fflush(stdout);
    }
  }
  return true;
}

bool parse(int count, char** values, arguments& a) {
  for (int i = 1; i < count; ++i) {
    const std::string_view name = values[i];
    const auto value = [&]() -> std::string { return i + 1 < count ? values[++i] : ""; };
    if (name == "--seeds")
      a.seeds = std::stoull(value());
    else if (name == "--first")
      a.first = std::stoull(value());
    else if (name == "--jobs")
      a.jobs = static_cast<unsigned>(std::stoul(value()));
    else if (name == "--peers")
      a.peers = static_cast<std::uint32_t>(std::stoul(value()));
    else if (name == "--plan")
      a.plan = value();
    else if (name == "--plan-file")
      a.plan_file = value();
    else if (name == "--policy")
      a.policy = value();
    else if (name == "--lies")
      a.lies = value();
    else if (name == "--history")
      a.history = value();
    else if (name == "--twice")
      a.twice = true;
    else if (name == "--shrink")
      a.shrink = true;
    else if (name == "--trace")
      a.trace = true;
    else
      return false;
  }
  return a.jobs > 0 && a.peers > 1;
}

}  // namespace

int main(int count, char** values) {
  arguments a;
  if (!parse(count, values, a)) {
    std::fputs(help, stdout);
    return 2;
  }
  const auto begin = std::chrono::steady_clock::now();
  std::vector<pid_t> others;
  for (unsigned job = 1; job < a.jobs; ++job) {
    const pid_t pid = fork();
    if (pid == 0) std::_Exit(hunt_some(a, job) ? 0 : 1);
    others.push_back(pid);
  }
  bool good = hunt_some(a, 0);
  for (const pid_t pid : others) {
    int status = 0;
    waitpid(pid, &status, 0);
    good = good && status == 0;
  }
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("%llu seeds from %llu, %u peers, %s faults: %s, %.1f s\n", static_cast<unsigned long long>(a.seeds),
              static_cast<unsigned long long>(a.first), a.peers, a.plan.c_str(), good ? "all promises kept" : "FAILED",
              took);
  return good ? 0 : 1;
}
