// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/schedule_varuna.hpp>

#include <causeway/plan/schedule_check.hpp>
#include <causeway/plan/timeline.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using plan::held_memory;
using plan::operation;
using plan::schedule;
using plan::stage_costs;
using plan::work;

TEST_CASE("Varuna's rule writes schedules that pass the validator, within its memory", "[plan][fast]") {
  for (std::uint32_t p = 1; p <= 8; ++p) {
    for (std::uint32_t m = 1; m <= 16; ++m) {
      for (const std::uint32_t stored : {1U, 2U, p, 2 * p}) {
        for (const double latency : {0.0, 0.3, 2.0}) {
          const schedule s = *plan::varuna(plan::equal_costs(p, {}, {latency, 1, 1, 8}), m, stored);
          const auto peaks = plan::check(s);
          if (!peaks) FAIL(peaks.error().text());
          for (std::uint32_t r = 0; r + 1 < p; ++r) CHECK((*peaks)[r].within({1, stored}));
          CHECK(peaks->back() == held_memory{1, 0});
        }
      }
    }
  }
}

TEST_CASE("The last rank alternates without recomputing, all others recompute before each backward", "[plan][fast]") {
  const schedule s = *plan::varuna(plan::equal_costs(4), 12, 8);
  for (std::uint32_t j = 0; j < 12; ++j) {
    CHECK(s.orders[3][2 * j] == operation{work::forward, j});
    CHECK(s.orders[3][2 * j + 1] == operation{work::backward, j});
  }
  for (std::uint32_t r = 0; r < 3; ++r) {
    CHECK(s.orders[r].size() == 36);
    std::size_t at_once = 0;
    for (std::size_t i = 0; i < s.orders[r].size(); ++i) {
      const operation& op = s.orders[r][i];
      if (op.kind != work::backward) continue;
      std::size_t before = i - 1;
      while (s.orders[r][before].kind == work::forward) --before;  // such as stored their input in time
      CHECK((s.orders[r][before] == operation{work::recompute, op.micro_batch}));
      at_once += before == i - 1 ? 1 : 0;
    }
    CHECK(at_once >= 10);
  }
}

TEST_CASE("Without jitter no gradient waits for a recompute that a rank had time for", "[plan][fast]") {
  const stage_costs costs = plan::equal_costs(4);
  const auto t = plan::timeline_of(*plan::varuna(costs, 12, 8), costs);
  REQUIRE(t);
  for (std::uint32_t r = 0; r < 3; ++r) {
    const auto& rank = t->ranks[r];
    for (std::size_t i = 0; i < rank.size(); ++i) {
      if (rank[i].op.kind != work::backward) continue;
      const auto& above = t->ranks[r + 1];
      const auto sent = std::find_if(above.begin(), above.end(), [&](const auto& o) { return o.op == rank[i].op; })->end;
      // either the backward begins as the gradient comes, or the rank has been busy since before it could recompute
      const bool at_once = rank[i].start == sent;
      const bool busy = rank[i - 1].end == rank[i].start && (i < 2 || rank[i - 2].end == rank[i - 1].start);
      CHECK((at_once || busy));
    }
  }
}

TEST_CASE("A schedule of Varuna repeats the times of the rule that wrote it", "[plan][fast]") {
  // room for twice the ranks hides all but the bubble of filling: p - 1 forwards, and p - 1 backwards that come back
  for (const std::uint32_t p : {2U, 4U, 8U}) {
    const stage_costs costs = plan::equal_costs(p);
    const auto roomy = plan::timeline_of(*plan::varuna(costs, 4 * p, 2 * p), costs);
    const auto tight = plan::timeline_of(*plan::varuna(costs, 4 * p, 1), costs);
    REQUIRE(roomy);
    REQUIRE(tight);
    CHECK(roomy->makespan <= 4 * p * 4 + 3 * (p - 1));  // F, R and both halves of each, and 1F1B's bubble
    CHECK(roomy->makespan < tight->makespan);
  }
}

TEST_CASE("Varuna's rule refuses what it cannot write for", "[plan][fast]") {
  CHECK(plan::varuna(plan::equal_costs(2), 4, 0).error().where == "varuna");
  CHECK(plan::varuna(plan::equal_costs(2), 0, 1).error().code == errc::invalid_argument);
  CHECK(plan::varuna({}, 4, 1).error().code == errc::invalid_argument);
  CHECK(plan::varuna(plan::equal_costs(2, {-1, 1, 1, 1}), 4, 1).error().code == errc::non_finite);
}
