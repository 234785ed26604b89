// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/templates.hpp>

#include <causeway/core/rng.hpp>
#include <causeway/plan/schedules.hpp>
#include <causeway/plan/timeline.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using plan::model_cost;
using plan::pipeline_template;
using plan::template_peers;

namespace {

/// Whether `peers` is a sum of at least `least` numbers from `smallest` to `largest`, by trying them.
bool adds_up(std::size_t smallest, std::size_t largest, std::size_t least, std::size_t peers) {
  if (peers == 0) return least == 0;
  for (std::size_t s = smallest; s <= std::min(largest, peers); ++s) {
    if (adds_up(smallest, largest, least == 0 ? 0 : least - 1, peers - s)) return true;
  }
  return false;
}

model_cost random_model(rng& draw, std::size_t blocks) {
  model_cost m;
  for (std::size_t b = 0; b < blocks; ++b) m.blocks.push_back({1, 1 + 4 * double(draw.uniform()), 1, 0});
  m.embedding.seconds = double(draw.uniform());
  m.head.seconds = 3 * double(draw.uniform());
  return m;
}

/// The least time of all cuts and all numbers of accelerators, by recursion over the stages.
double by_trying_all(const model_cost& m, const template_peers& kind, std::size_t micro_batches, std::size_t block,
                     std::size_t used, std::size_t all, double sum, double most) {
  if (block == m.blocks.size()) {
    return used == all ? sum + most * double(micro_batches - 1) : std::numeric_limits<double>::infinity();
  }
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t mine = 1; mine <= kind.accelerators - used % kind.accelerators && used + mine <= all; ++mine) {
    for (std::size_t end = block + 1; end <= m.blocks.size(); ++end) {
      const auto cost = plan::cost_of_stage(m, block, end);
      if (cost.memory > kind.memory * double(mine)) break;
      const double seconds = cost.seconds / (1 + kind.sharing * double(mine - 1));
      best = std::min(best, by_trying_all(m, kind, micro_batches, end, used + mine, all,
                                          sum + seconds + (block == 0 ? 0 : kind.hop), std::max(most, seconds)));
    }
  }
  return best;
}

}  // namespace

TEST_CASE("pipelines can be made of every number of peers from (f + 1) n0 to N", "[plan][fast]") {
  std::size_t checked = 0;
  for (std::size_t n0 = 1; n0 <= 6; ++n0) {
    for (std::size_t f = 0; f <= 3; ++f) {
      for (std::size_t all = (f + 1) * n0; all <= 30; ++all) {
        for (std::size_t left = (f + 1) * n0; left <= all; ++left, ++checked) {
          REQUIRE(adds_up(n0, all - f * n0, f + 1, left));
          REQUIRE(plan::covers(n0, all - f * n0, f + 1, left));
        }
      }
    }
  }
  CHECK(checked > 4000);
}

TEST_CASE("what sizes cover is what adds up, also with gaps", "[plan][fast]") {
  for (std::size_t smallest = 1; smallest <= 6; ++smallest) {
    for (std::size_t largest = smallest; largest <= smallest + 3; ++largest) {
      for (std::size_t least = 1; least <= 3; ++least) {
        for (std::size_t n = 1; n <= 22; ++n)
          REQUIRE(plan::covers(smallest, largest, least, n) == adds_up(smallest, largest, least, n));
      }
    }
  }
}

TEST_CASE("the cut of a template is the best of all", "[plan][fast]") {
  rng draw{31};
  for (int round = 0; round < 60; ++round) {
    const model_cost m = random_model(draw, 2 + draw.below(5));
    const template_peers kind{2 + 3 * double(draw.uniform()), 1 + draw.below(3), 0.5 + 0.5 * double(draw.uniform()),
                              draw.below(2) == 0 ? 0 : 0.3};
    const std::size_t micro_batches = 1 + draw.below(12);
    for (std::size_t n = 1; n <= 4; ++n) {
      const double best = by_trying_all(m, kind, micro_batches, 0, 0, n * kind.accelerators, 0, 0);
      const pipeline_template t = plan::detail::template_cutter{m, kind, micro_batches}.best(n);
      if (best == std::numeric_limits<double>::infinity()) {
        REQUIRE(t.stages.empty());
        continue;
      }
      REQUIRE(t.seconds(micro_batches) == Approx(best));
      std::size_t block = 0, accelerators = 0;
      double sum = 0, most = 0;
      for (const auto& s : t.stages) {
        REQUIRE(s.first_block == block);
        REQUIRE(s.peer == accelerators / kind.accelerators);
        block = s.end;
        accelerators += s.accelerators;
        REQUIRE((accelerators - 1) / kind.accelerators == s.peer);
        sum += s.seconds;
        most = std::max(most, s.seconds);
      }
      REQUIRE(block == m.blocks.size());
      REQUIRE(accelerators == n * kind.accelerators);
      REQUIRE(t.fill_drain == Approx(sum + kind.hop * double(t.stages.size() - 1)));
      REQUIRE(t.slowest == Approx(most));
    }
  }
}

TEST_CASE("a template's time bounds the simulated 1F1B iteration, and is it where the last stage is the slowest",
          "[plan][fast]") {
  rng draw{37};
  for (int round = 0; round < 40; ++round) {
    const model_cost m = random_model(draw, 8);
    const std::size_t n = 1 + draw.below(5), micro_batches = n + draw.below(9);
    const pipeline_template t = plan::detail::template_cutter{m, {}, micro_batches}.best(n);
    plan::stage_costs costs;
    for (const auto& s : t.stages) costs.stages.push_back({s.seconds / 3, s.seconds / 3, s.seconds / 3, 0});
    costs.edges.resize(n - 1);
    const auto order = plan::one_f_one_b(std::uint32_t(n), std::uint32_t(micro_batches));
    REQUIRE(order);
    const auto simulated = plan::timeline_of(*order, costs);
    REQUIRE(simulated);
    REQUIRE(simulated->makespan <= t.seconds(micro_batches) * (1 + 1e-12));
    if (t.stages.back().seconds == t.slowest) REQUIRE(simulated->makespan == Approx(t.seconds(micro_batches)));
  }
}

TEST_CASE("the number of micro-batches within a time is the inverse of the time", "[plan][fast]") {
  rng draw{41};
  for (int round = 0; round < 200; ++round) {
    const pipeline_template t{1, {}, double(draw.uniform()), double(draw.below(3)) * double(draw.uniform())};
    for (std::size_t n = 1; n <= 20; ++n) {
      const std::size_t within = t.within(t.seconds(n), 20);
      REQUIRE(within >= n);
      REQUIRE(t.seconds(within) <= t.seconds(n));
      if (within < 20) REQUIRE(t.seconds(within + 1) > t.seconds(n));
    }
    REQUIRE(t.within(t.fill_drain * 0.99, 5) == (t.fill_drain == 0 ? t.within(0, 5) : 0));
  }
}

TEST_CASE("a set begins with the least peers that hold the model and leaves room for the other copies", "[plan][fast]") {
  model_cost m;
  m.blocks.assign(12, {1, 1, 1e9, 0});
  const auto set = plan::make_templates(m, {.memory = 4e9}, 13, 2, 16);
  REQUIRE(set);
  CHECK(set->smallest() == 3);
  CHECK(set->largest() == 7);  // 13 - 2 * 3
  for (std::size_t n = 3; n <= 7; ++n) CHECK(set->of(n).stages.size() == n);

  const auto few = plan::make_templates(m, {.memory = 4e9}, 8, 2, 16);
  REQUIRE_FALSE(few);
  CHECK(few.error().code == errc::out_of_memory);
  CHECK(few.error().message.find("9 peers") != std::string::npos);
  CHECK(plan::make_templates(m, {.memory = 0.5e9}, 8, 0, 16).error().code == errc::out_of_memory);

  model_cost coarse;  // of 4 blocks, 4 or 3 peers each: 5 peers cannot be used
  coarse.blocks.assign(4, {1, 1, 2e9, 0});
  const auto gap = plan::make_templates(coarse, {.memory = 2.5e9}, 10, 0, 4);
  REQUIRE_FALSE(gap);
  CHECK(gap.error().code == errc::invalid_argument);
}
