// SPDX-License-Identifier: Apache-2.0
#include <causeway/axis/by_change.hpp>

#include <vector>

#include "support/catch.hpp"

using namespace causeway;

namespace {

const auto nobody_busy = [](std::size_t) { return false; };

/// How often each fragment travels in `steps` inner steps, when fragment f moves by rates[f] in each of them.
std::vector<int> turns_of(axis::by_change trigger, const std::vector<double>& rates, int steps) {
  std::vector<int> turns(rates.size()), since(rates.size());
  int context = 0;
  for (int i = 0; i < steps; ++i) {
    trigger.step(rates.size(), nobody_busy);
    for (std::size_t f = 0; f < rates.size(); ++f) {
      ++since[f];
      if (!trigger.chosen(f)) continue;
      ++turns[f];
      REQUIRE(trigger.exchanged(context, {.fragment = f, .movement = rates[f] * since[f]}));
      since[f] = 0;
    }
  }
  return turns;
}

}  // namespace

TEST_CASE("by change: fragments that change alike take turns", "[axis][fast]") {
  const axis::by_change trigger{{.local_steps = 12}};
  CHECK(turns_of(trigger, {1, 1, 1, 1}, 12 * 10) == std::vector<int>{10, 10, 10, 10});
}

TEST_CASE("by change: what moves most travels most, and the others at least once in H steps", "[axis][fast]") {
  const axis::by_change trigger{{.local_steps = 20, .exchanges = 10}};
  const auto turns = turns_of(trigger, {1, 1, 9, 1}, 20 * 10);
  CHECK(turns[0] + turns[1] + turns[2] + turns[3] == 100);
  CHECK(turns[2] > 60);
  for (const std::size_t f : {0U, 1U, 3U}) CHECK((turns[f] >= 9 && turns[f] <= 11));
}

TEST_CASE("by change: at first each has its turn, and what is under way is passed over", "[axis][fast]") {
  axis::by_change trigger{{.local_steps = 3}};
  int context = 0;
  for (std::size_t f = 0; f < 3; ++f) {
    trigger.step(3, nobody_busy);
    CHECK(trigger.chosen(f));
    REQUIRE(trigger.exchanged(context, {.fragment = f, .movement = 1.0}));
  }
  trigger.step(3, [](std::size_t f) { return f == 0; });
  CHECK(trigger.chosen(1));
  trigger.step(3, [](std::size_t) { return true; });
  for (std::size_t f = 0; f < 3; ++f) CHECK_FALSE(trigger.chosen(f));
}

TEST_CASE("by change: as many exchanges as the link carries", "[axis][fast]") {
  // 100 steps of 0.5 s, exchanges of 2 s: 25 of them, 12 with half of the link.
  CHECK(axis::by_change::exchanges_for(100, 0.5, 2.0, 8) == 25);
  CHECK(axis::by_change::exchanges_for(100, 0.5, 2.0, 8, 0.5) == 12);
  CHECK(axis::by_change::exchanges_for(100, 0.5, 20.0, 8) == 8);
  CHECK(axis::by_change::exchanges_for(100, 0.5, 1e-9, 8) == 100);
  CHECK(axis::by_change::exchanges_for(4, 0.5, 20.0, 8) == 4);
}

TEST_CASE("by change: options that cannot work are refused", "[axis][fast]") {
  CHECK(axis::by_change{}.check(9));
  CHECK_FALSE(axis::by_change{{.local_steps = 0}}.check(1));
  CHECK_FALSE(axis::by_change{{.local_steps = 8}}.check(9));
  CHECK_FALSE(axis::by_change{{.local_steps = 20, .exchanges = 3}}.check(4));
  CHECK_FALSE(axis::by_change{{.local_steps = 20, .exchanges = 21}}.check(4));
}
