// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/elastic/step_turns.hpp>

#include <cmath>
#include <vector>

#include "support/catch.hpp"

namespace {

using namespace causeway;

TEST_CASE("step turns: evaluations are counted until the state is another", "[parallel][fast]") {
  parallel::step_turns t;
  t.at(7);
  t.came_to(2.5);
  CHECK(t.now(false).order() == 1);
  CHECK(t.now(false).last == 2.5);
  t.at(7);
  CHECK(t.now(false).evaluated == 1);
  t.at(8);
  CHECK(t.now(false).evaluated == 0);
  CHECK(std::isnan(t.now(false).last));
}

TEST_CASE("step turns: the step comes after all evaluations", "[parallel][fast]") {
  const std::vector<parallel::step_turn> all{{3, false, 1.0}, {0, true}, {4, false, 2.0}};
  CHECK(parallel::furthest(all) == all[1].order());
  CHECK(parallel::furthest(std::vector{all.back()}) == 4);
}

TEST_CASE("step turns: who is late is told the outcome by one who is just through with it", "[parallel][fast]") {
  const std::vector<parallel::step_turn> all{{3, false, 1.5}, {4, true, 2.5}};
  CHECK(parallel::missed({2, false}, all) == 1.5);
  CHECK(parallel::missed({3, false}, all) == 2.5);
  CHECK(std::isnan(parallel::missed({0, false}, all)));
  CHECK(std::isnan(parallel::missed({2, false}, std::vector<parallel::step_turn>{{3, true}})));
}

}  // namespace
