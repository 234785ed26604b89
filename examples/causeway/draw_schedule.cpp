// SPDX-License-Identifier: Apache-2.0
#include "draw_schedule.hpp"

#include <causeway/io/file.hpp>
#include <causeway/io/storage.hpp>
#include <causeway/plan/picture.hpp>
#include <causeway/plan/schedule_greedy.hpp>
#include <causeway/plan/schedule_varuna.hpp>
#include <causeway/plan/schedules.hpp>
#include <causeway/plan/timeline.hpp>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "flags.hpp"

namespace app {
namespace {

namespace plan = causeway::plan;
using causeway::errc;
using causeway::fail;

struct drawing {
  std::string schedule = "1f1b", svg;
  std::uint32_t stages = 4, chunks = 1, micro_batches = 8, room = 0;
  double forward = 1, backward = 2, weight_gradient = -1, recompute = -1, latency = 0, transfer = 0, jitter = 0, column = 0;
  std::uint32_t seed = 1, seeds = 1;
  bool opportunistic = false, recomputing = false, halves = false, help = false;
};

constexpr const char* schedule_names =
    "gpipe, 1f1b, interleaved, zero_bubble, zero_bubble_h2, zero_bubble_v, varuna, asynchronous or greedy";

std::vector<flag> options(drawing& d) {
  return {{"schedule", schedule_names, &d.schedule},
          {"stages", "ranks of the pipeline", &d.stages},
          {"micro-batches", "of one step", &d.micro_batches},
          {"chunks", "of the model on each rank; interleaved and greedy", &d.chunks},
          {"room",
           "sets of activations that a rank has room for (greedy, or with --opportunistic); varuna: stored inputs; 0: see "
           "below",
           &d.room},
          {"halves", "greedy: split backwards into input and weight gradients", &d.halves},
          {"with-recompute", "gpipe, 1f1b, interleaved, zero_bubble[_h2, _v], asynchronous: recompute", &d.recomputing},
          {"forward", "seconds of a forward in a stage (in a chunk)", &d.forward},
          {"backward", "seconds of a backward, both halves", &d.backward},
          {"weight-gradient", "seconds of its second half; -1: half of it", &d.weight_gradient},
          {"recompute", "seconds of a recompute; -1: as a forward", &d.recompute},
          {"latency", "seconds from stage to stage", &d.latency},
          {"transfer", "seconds for which a message occupies its link", &d.transfer},
          {"jitter", "sigma of the log-normal factor on each operation and message", &d.jitter},
          {"seed", "of the jitter", &d.seed},
          {"seeds", "the mean over so many seeds as well", &d.seeds},
          {"opportunistic", "ranks run a later operation when the next one's input is not there", &d.opportunistic},
          {"column", "seconds of a column of the picture; 0: by itself", &d.column},
          {"svg", "also write the picture to this file", &d.svg},
          {"help", "this text", &d.help}};
}

causeway::result<void> validate(const drawing& d) {
  const auto limit = [](bool good, const char* name, const char* message) -> causeway::result<void> {
    if (good) return {};
    return fail(errc::invalid_argument, name, message);
  };
  const bool parts = d.schedule == "interleaved" || d.schedule == "greedy";
  const bool rules = d.schedule == "varuna" || d.schedule == "greedy";
  CAUSEWAY_TRY(limit(d.stages >= 1 && d.stages <= 1000, "--stages", "must be from 1 to 1000"));
  CAUSEWAY_TRY(limit(d.micro_batches >= 1 && d.micro_batches <= 10000, "--micro-batches", "must be from 1 to 10000"));
  CAUSEWAY_TRY(limit(d.chunks >= 1 && d.chunks <= 100, "--chunks", "must be from 1 to 100"));
  CAUSEWAY_TRY(limit(d.chunks == 1 || parts, "--chunks", "is for interleaved and greedy; leave it out"));
  CAUSEWAY_TRY(limit(d.room == 0 || rules || d.opportunistic, "--room", "is for varuna, greedy and --opportunistic"));
  CAUSEWAY_TRY(limit(!d.halves || d.schedule == "greedy", "--halves", "is for greedy; zero_bubble has them by itself"));
  CAUSEWAY_TRY(limit(!d.recomputing || !rules, "--with-recompute", "is not for varuna, which does, nor for greedy"));
  CAUSEWAY_TRY(limit(std::isfinite(d.jitter) && d.jitter >= 0 && d.jitter <= 3, "--jitter", "must be from 0 to 3"));
  CAUSEWAY_TRY(limit(d.weight_gradient <= d.backward, "--weight-gradient", "is a part of --backward, and can't be more"));
  CAUSEWAY_TRY(limit(d.seeds >= 1 && d.seeds <= 1000, "--seeds", "must be from 1 to 1000"));
  return limit(std::isfinite(d.column) && d.column >= 0, "--column", "must be finite seconds, at least 0");
}

std::uint32_t chunks_of(const drawing& d) { return d.schedule == "zero_bubble_v" ? 2 : d.chunks; }

plan::stage_costs costs_of(const drawing& d) {
  const double weight = d.weight_gradient < 0 ? d.backward / 2 : d.weight_gradient;
  const plan::stage_cost stage{d.forward, d.backward - weight, weight, d.recompute < 0 ? d.forward : d.recompute};
  return plan::equal_costs(d.stages * chunks_of(d), stage, {d.latency, d.transfer, d.transfer, 1});
}

causeway::result<plan::schedule> generate(const drawing& d, const plan::stage_costs& costs) {
  if (d.schedule == "gpipe") return plan::gpipe(d.stages, d.micro_batches);
  if (d.schedule == "1f1b") return plan::one_f_one_b(d.stages, d.micro_batches);
  if (d.schedule == "interleaved") return plan::interleaved(d.stages, d.chunks, d.micro_batches);
  if (d.schedule == "zero_bubble_h2") return plan::zero_bubble_h2(d.stages, d.micro_batches);
  if (d.schedule == "zero_bubble_v") return plan::zero_bubble_v(d.stages, d.micro_batches);
  if (d.schedule == "zero_bubble") return plan::zero_bubble(d.stages, d.micro_batches);
  if (d.schedule == "asynchronous") return plan::asynchronous(d.stages, d.micro_batches);
  if (d.schedule == "varuna") return plan::varuna(costs, d.micro_batches, d.room == 0 ? 2 * d.stages : d.room);
  if (d.schedule == "greedy") {
    const std::uint32_t room = d.room == 0 ? d.stages * d.chunks : d.room;
    return plan::greedy(costs, {d.stages, d.chunks, d.micro_batches, room, d.halves});
  }
  return fail(errc::invalid_argument, "--schedule", "'" + d.schedule + "' is none; use " + schedule_names);
}

// What an opportunistic rank may hold: of what it runs ahead with, `room`. None: what its order needs by itself.
std::optional<plan::held_memory> room_of(const drawing& d, const plan::schedule& s) {
  if (d.room == 0 || !d.opportunistic) return std::nullopt;
  if (d.schedule != "varuna" && !d.recomputing) return plan::held_memory{d.room, 0};
  plan::held_memory most;
  for (std::uint32_t r = 0; r < s.ranks; ++r) most = larger(most, plan::peak_memory(s, r));
  return plan::held_memory{most.activations, d.room};
}

void print_figures(const plan::timeline& t) {
  std::printf("\n%.4g s, efficiency %.3f\n\n  rank    bubble  activations  stored inputs\n", t.makespan, t.efficiency());
  for (std::uint32_t r = 0; r < t.ranks.size(); ++r) {
    std::printf("%6u  %8.3f  %11lld  %13lld\n", r, t.bubble(r), static_cast<long long>(t.peaks[r].activations),
                static_cast<long long>(t.peaks[r].inputs));
  }
}

causeway::result<void> print_mean(const drawing& d, const plan::schedule& s, const plan::stage_costs& costs,
                                  plan::timeline_options how) {
  if (d.seeds == 1) return {};
  double sum = 0;
  for (std::uint32_t i = 0; i < d.seeds; ++i, ++how.noise.seed) {
    CAUSEWAY_ASSIGN(const plan::timeline t, plan::timeline_of(s, costs, how));
    sum += t.makespan;
  }
  std::printf("\nmean over %u seeds: %.4g s\n", d.seeds, sum / d.seeds);
  return {};
}

int print_help(drawing& d) {
  std::printf("causeway schedule [--option value ...]: draws what each rank of a pipeline does in one step, and when\n\n");
  for (const flag& f : options(d)) std::printf("  --%-16s %s\n", f.name.c_str(), f.help.c_str());
  std::printf(
      "\nWithout --room varuna stores 2 x stages inputs, greedy has room for stages x chunks sets, and an opportunistic "
      "rank "
      "for\nwhat its order needs.\n");
  std::printf("\ndocs/reference/schedules.md says what the schedules are.\n");
  return 0;
}

}  // namespace

causeway::result<int> draw_schedule(const std::vector<std::string>& arguments) {
  drawing d;
  CAUSEWAY_TRY(read_flags("schedule", arguments, options(d)));
  if (d.help) return print_help(d);
  CAUSEWAY_TRY(validate(d));
  const plan::stage_costs costs = costs_of(d);
  if (const auto fit = plan::check(costs, d.stages * chunks_of(d)); !fit) {
    return fail(errc::invalid_argument, fit.error().where, fit.error().message);  // they came from the command line
  }
  CAUSEWAY_ASSIGN(plan::schedule s, generate(d, costs));
  if (d.recomputing) s = plan::with_recompute(s);

  const auto order = d.opportunistic ? plan::run_order::opportunistic : plan::run_order::strict;
  const plan::timeline_options how{order, {d.jitter, d.seed}, room_of(d, s)};
  CAUSEWAY_ASSIGN(const plan::timeline t, plan::timeline_of(s, costs, how));
  if (d.column > 0 && t.makespan / d.column > 10000)
    return fail(errc::invalid_argument, "--column", "makes more than 10,000 columns; use a longer time");
  std::printf("%s\n%s", plan::text_picture(t, d.column).c_str(), plan::text_legend(t, d.column).c_str());
  print_figures(t);
  CAUSEWAY_TRY(print_mean(d, s, costs, how));
  if (d.svg.empty()) return 0;
  causeway::io::posix_storage storage;
  CAUSEWAY_TRY(storage.write_atomic(d.svg, causeway::io::produce(plan::svg_picture(t, d.schedule))));
  std::printf("\npicture in %s\n", d.svg.c_str());
  return 0;
}

}  // namespace app
