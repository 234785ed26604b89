// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/placement.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using plan::link_matrix;
using plan::pipeline_task;

TEST_CASE("a placement costs its slowest average and, per hop, its slowest pair", "[plan][fast]") {
  // 2 replicas of 2 stages: stage 0 on devices 0 and 1, stage 1 on 2 and 3. 1 MB/s everywhere but where said.
  link_matrix links{4, {0, 8e6}};
  links.set_both(2, 3, {0.5, 4e6});
  links.set_both(1, 3, {0.25, 2e6});
  const pipeline_task task{2, 2, 4e6, 3e6};
  const plan::placement where{2, {0, 1, 2, 3}};
  const plan::placement_cost cost = plan::cost_of(links, where, task);
  CHECK(cost.data_parallel == Approx(2 * (0.5 + 2e6 / 0.5e6)));  // half of a stage each
  CHECK(cost.pipeline == Approx(0.25 + 3e6 / 0.25e6));
  CHECK(cost.total() == Approx(cost.data_parallel + 2 * cost.pipeline));

  const plan::placement crossed{2, {0, 1, 3, 2}};
  CHECK(plan::cost_of(links, crossed, task).pipeline == Approx(3));
}

TEST_CASE("a member of a group pays for each other member, there and back", "[plan][fast]") {
  link_matrix links{3, {0.1, 8e6}};
  links.set(0, 1, {0.3, 8e6});  // one direction only
  const pipeline_task task{3, 1, 3e6, 0};
  const double usual = 0.1 + 1;
  CHECK(plan::data_parallel_seconds(links, std::vector<std::size_t>{0, 1, 2}, task) == Approx(4 * usual + 0.2));
  CHECK(plan::data_parallel_seconds(links, std::vector<std::size_t>{2}, {1, 1, 3e6, 0}) == 0);
}

TEST_CASE("orders of a list, and draws without repetition", "[plan][fast]") {
  const pipeline_task task{2, 3};
  CHECK(plan::placed_by_stage(task).devices == std::vector<std::size_t>{0, 1, 2, 3, 4, 5});
  CHECK(plan::placed_by_replica(task).devices == std::vector<std::size_t>{0, 3, 1, 4, 2, 5});
  CHECK(plan::placed_by_replica(task).device(2, 1) == 5);
  rng draw{1};
  plan::placement p = plan::placed_at_random(task, 9, draw);
  const plan::placement other = plan::placed_at_random(task, 9, draw);
  CHECK(p != other);
  REQUIRE(p.devices.size() == 6);
  std::sort(p.devices.begin(), p.devices.end());
  CHECK(std::adjacent_find(p.devices.begin(), p.devices.end()) == p.devices.end());
  CHECK(p.devices.back() < 9);
}
