// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/dtfm.hpp>

#include <causeway/core/rng.hpp>
#include <causeway/plan/link_fixtures.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using plan::link_matrix;
using plan::pipeline_task;

namespace {

link_matrix random_links(rng& draw, std::size_t n) {
  link_matrix m{n};
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      if (i != j) m.set(i, j, {0.001 + 0.2 * draw.uniform(), 1e8 + 2e9 * draw.uniform()});
    }
  }
  return m;
}

/// Over every placement there is, as it stands: knows nothing of pairings and paths.
double by_trying_all(const link_matrix& links, const pipeline_task& task) {
  plan::placement p = plan::placed_by_stage(task);
  double best = std::numeric_limits<double>::infinity();
  do best = std::min(best, plan::cost_of(links, p, task).total());
  while (std::next_permutation(p.devices.begin(), p.devices.end()));
  return best;
}

/// GPT-3 XL with 0.5 M tokens in a step: 1.3 G parameters, activations of two bytes and width 2048.
pipeline_task gpt3_xl(std::size_t replicas, std::size_t stages, double bytes_per_gradient) {
  return {replicas, stages, 1.3e9 * bytes_per_gradient / static_cast<double>(stages),
          0.5e6 / static_cast<double>(replicas) * 2048 * 2};
}

}  // namespace

TEST_CASE("the search finds the optimum of small networks", "[plan][fast]") {
  rng draw{17};
  const std::vector<pipeline_task> tasks{{2, 3}, {3, 2}, {6, 1}, {1, 6}, {2, 4}, {4, 2}};
  int exact = 0;
  for (int round = 0; round < 120; ++round) {
    pipeline_task task = tasks[static_cast<std::size_t>(round) % tasks.size()];
    task.stage_bytes = 1e7 + 1e9 * draw.uniform();
    task.activation_bytes = 1e7 + 5e8 * draw.uniform();
    const link_matrix links = random_links(draw, task.replicas * task.stages);
    const double best = by_trying_all(links, task);
    const auto found = plan::plan_dtfm(links, task, {.seed = 1, .population = 8, .children = 20});
    REQUIRE(found);
    REQUIRE(found->cost.total() >= best * (1 - 1e-9));
    REQUIRE(found->cost.total() <= best * 1.02);
    exact += found->cost.total() <= best * (1 + 1e-9) ? 1 : 0;
  }
  CHECK(exact >= 114);
}

TEST_CASE("spare devices are left out where that is best", "[plan][fast]") {
  link_matrix links{5, {0.01, 1e9}};
  for (std::size_t i = 0; i < 5; ++i) {
    if (i != 2) links.set_both(2, i, {0.5, 1e7});
  }
  const auto found = plan::plan_dtfm(links, {2, 2, 1e8, 1e8});
  REQUIRE(found);
  CHECK(std::count(found->where.devices.begin(), found->where.devices.end(), 2U) == 0);
}

TEST_CASE("a plan depends on the links, the task and the seed alone", "[plan][fast]") {
  rng draw{4};
  const link_matrix links = random_links(draw, 12);
  const pipeline_task task{3, 4, 5e8, 2e8};
  const plan::dtfm_options few{.seed = 5, .population = 4, .children = 2};
  const auto a = plan::plan_dtfm(links, task, few);
  const auto b = plan::plan_dtfm(links, task, few);
  REQUIRE((a && b));
  CHECK(a->where == b->where);
  CHECK(a->evaluations == b->evaluations);
  bool differs = false;
  for (std::uint64_t seed = 6; seed < 16; ++seed) {
    const auto c = plan::plan_dtfm(links, task, {.seed = seed, .population = 4, .children = 2});
    differs = differs || !(c->where == a->where);
  }
  CHECK(differs);
}

TEST_CASE("worldwide, in whatever order the devices are listed, the plan beats blind placement by far", "[plan][fast]") {
  rng draw{7};
  const auto listed = plan::placed_at_random({64, 1}, 64, draw).devices;
  const link_matrix links = plan::worldwide(64).devices_in(listed);
  const pipeline_task eight = gpt3_xl(8, 8, 4), four = gpt3_xl(16, 4, 4);
  double blind = 0;
  for (int i = 0; i < 200; ++i) blind += plan::cost_of(links, plan::placed_at_random(eight, 64, draw), eight).total() / 200;

  const plan::dtfm_options some{.seed = 1, .population = 12, .children = 40, .evaluations = 12000};
  const auto same = plan::plan_dtfm(links, eight, some);
  REQUIRE(same);
  CHECK(blind > 2.5 * same->cost.total());

  // With the shape left to the planner, and with computing: four times (devices of 50 Tflop/s).
  const double computing = 8 * 1.3e9 * 0.5e6 / (64 * 50e12);
  const auto free = plan::plan_dtfm(links, four, some);
  REQUIRE(free);
  CHECK(blind + computing > 4 * (free->cost.total() + computing));
}

TEST_CASE("a task that does not go on the devices is refused", "[plan][fast]") {
  const link_matrix links = plan::worldwide(8);
  for (const pipeline_task& task : {pipeline_task{3, 3}, pipeline_task{0, 3}, pipeline_task{3, 0}}) {
    const auto found = plan::plan_dtfm(links, task);
    REQUIRE_FALSE(found);
    CHECK(found.error().code == errc::invalid_argument);
  }
}
