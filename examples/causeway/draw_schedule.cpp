// SPDX-License-Identifier: Apache-2.0
#include "draw_schedule.hpp"

#include <causeway/io/file.hpp>
#include <causeway/io/storage.hpp>
#include <causeway/plan/picture.hpp>
#include <causeway/plan/schedule_greedy.hpp>
#include <causeway/plan/schedule_varuna.hpp>
#include <causeway/plan/schedules.hpp>
#include <causeway/plan/timeline.hpp>
#include <causeway/plan/two_way_schedules.hpp>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

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
  bool opportunistic = false, recomputing = false, halves = false;
};

std::vector<setting> options(drawing& d) {
  return {
      make_setting("schedule", d.schedule, "the kind of schedule")
          .one_of({"gpipe", "1f1b", "interleaved", "zero_bubble", "zero_bubble_h2", "zero_bubble_v", "chimera", "dual_pipe",
                   "varuna", "asynchronous", "greedy"}),
      make_setting("stages", d.stages, "ranks of the pipeline").at_least(1).up_to(1000),
      make_setting("micro-batches", d.micro_batches, "of one step").at_least(1).up_to(10000),
      make_setting("chunks", d.chunks, "of the model on each rank; interleaved and greedy").at_least(1).up_to(100),
      make_setting(
          "room", d.room,
          "sets of activations that a rank has room for (greedy, or with --opportunistic); varuna: stored inputs; 0: see "
          "below"),
      make_setting("halves", d.halves, "greedy: split backwards into input and weight gradients"),
      make_setting("with-recompute", d.recomputing, "all but varuna and greedy: recompute"),
      make_setting("forward", d.forward, "seconds of a forward in a stage (in a chunk)"),
      make_setting("backward", d.backward, "seconds of a backward, both halves"),
      make_setting("weight-gradient", d.weight_gradient, "seconds of its second half; -1: half of it"),
      make_setting("recompute", d.recompute, "seconds of a recompute; -1: as a forward"),
      make_setting("latency", d.latency, "seconds from stage to stage"),
      make_setting("transfer", d.transfer, "seconds for which a message occupies its link"),
      make_setting("jitter", d.jitter, "sigma of the log-normal factor on each operation and message").at_least(0).up_to(3),
      make_setting("seed", d.seed, "of the jitter"),
      make_setting("seeds", d.seeds, "the mean over so many seeds as well").at_least(1).up_to(1000),
      make_setting("opportunistic", d.opportunistic, "ranks run a later operation when the next one's input is not there"),
      make_setting("column", d.column, "seconds of a column of the picture; 0: by itself").in("seconds").at_least(0),
      make_setting("svg", d.svg, "also write the picture to this file")};
}

causeway::result<void> validate(const drawing& d) {
  const auto limit = [](bool good, const char* name, const char* message) -> causeway::result<void> {
    if (good) return {};
    return fail(errc::invalid_argument, name, message);
  };
  const bool parts = d.schedule == "interleaved" || d.schedule == "greedy";
  const bool rules = d.schedule == "varuna" || d.schedule == "greedy";
  CAUSEWAY_TRY(limit(d.chunks == 1 || parts, "--chunks", "is for interleaved and greedy; leave it out"));
  CAUSEWAY_TRY(limit(d.room == 0 || rules || d.opportunistic, "--room", "is for varuna, greedy and --opportunistic"));
  CAUSEWAY_TRY(limit(!d.halves || d.schedule == "greedy", "--halves", "is for greedy; zero_bubble has them by itself"));
  CAUSEWAY_TRY(limit(!d.recomputing || !rules, "--with-recompute", "is not for varuna, which does, nor for greedy"));
  return limit(d.weight_gradient <= d.backward, "--weight-gradient", "is a part of --backward, and can't be more");
}

std::uint32_t chunks_of(const drawing& d) { return d.schedule == "zero_bubble_v" ? 2 : d.chunks; }

std::uint32_t stages_of(const drawing& d) { return d.stages * chunks_of(d); }

plan::stage_costs costs_of(const drawing& d) {
  const double weight = d.weight_gradient < 0 ? d.backward / 2 : d.weight_gradient;
  const plan::stage_cost stage{d.forward, d.backward - weight, weight, d.recompute < 0 ? d.forward : d.recompute};
  return plan::equal_costs(stages_of(d), stage, {d.latency, d.transfer, d.transfer, 1});
}

causeway::result<plan::schedule> generate(const drawing& d, const plan::stage_costs& costs) {
  if (d.schedule == "gpipe") return plan::gpipe(d.stages, d.micro_batches);
  if (d.schedule == "1f1b") return plan::one_f_one_b(d.stages, d.micro_batches);
  if (d.schedule == "interleaved") return plan::interleaved(d.stages, d.chunks, d.micro_batches);
  if (d.schedule == "zero_bubble_h2") return plan::zero_bubble_h2(d.stages, d.micro_batches);
  if (d.schedule == "zero_bubble_v") return plan::zero_bubble_v(d.stages, d.micro_batches);
  if (d.schedule == "chimera") return plan::chimera(d.stages, d.micro_batches);
  if (d.schedule == "dual_pipe") return plan::dual_pipe(d.stages, d.micro_batches);
  if (d.schedule == "zero_bubble") return plan::zero_bubble(d.stages, d.micro_batches);
  if (d.schedule == "asynchronous") return plan::asynchronous(d.stages, d.micro_batches);
  if (d.schedule == "varuna") return plan::varuna(costs, d.micro_batches, d.room == 0 ? 2 * d.stages : d.room);
  const std::uint32_t room = d.room == 0 ? d.stages * d.chunks : d.room;
  return plan::greedy(costs, {d.stages, d.chunks, d.micro_batches, room, d.halves});
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

}  // namespace

std::vector<setting> schedule_options() {
  static drawing usual;  // the table refers to it
  return options(usual);
}

causeway::result<int> draw_schedule(const command_line& line) {
  drawing d;
  CAUSEWAY_TRY(take_options(line, options(d)));
  CAUSEWAY_TRY(validate(d));
  const plan::stage_costs costs = costs_of(d);
  if (const auto fit = plan::check(costs, stages_of(d)); !fit) {
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
