// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/routed_schedule.hpp>

#include <causeway/core/rng.hpp>
#include <causeway/plan/schedules.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using namespace causeway::plan;

namespace {

// D pipelines of P; peer d P + s has stage s of pipeline d. Of pipeline 0 the peer of `hole` is lost.
routed_step with_hole(std::uint32_t replicas, std::uint32_t stages, std::uint32_t share, std::uint32_t hole) {
  routed_step s{equal_costs(stages), {}, share};
  s.halves = true;
  s.room = stages;
  for (std::uint32_t m = 0; m < replicas * share; ++m) {
    std::vector<std::uint32_t>& route = s.routes.emplace_back();
    for (std::uint32_t k = 0; k < stages; ++k) route.push_back(m % replicas * stages + k);
    if (m % replicas == 0) route[hole] = (1 + m / replicas % (replicas - 1)) * stages + hole;
  }
  return s;
}

}  // namespace

TEST_CASE("routed schedule: with one pipeline it is 1F1B", "[plan][fast]") {
  const routed_step step{equal_costs(4), straight_routes(4, 9), 9};
  const routed_schedule s = schedule_of(step);
  CHECK(check(s));
  const schedule flush = *one_f_one_b(4, 9);
  for (std::uint32_t p = 0; p < 4; ++p) {
    REQUIRE(s.orders[p].size() == flush.orders[p].size());
    for (std::size_t i = 0; i < s.orders[p].size(); ++i) {
      CHECK(s.orders[p][i].kind == flush.orders[p][i].kind);
      CHECK(s.orders[p][i].micro_batch == flush.orders[p][i].micro_batch);
      CHECK(s.orders[p][i].chunk == p);
    }
  }
}

TEST_CASE("routed schedule: twins do a lost peer's micro-batches in bounded room, and sooner than a pipeline less would",
          "[plan][fast]") {
  for (const auto& [replicas, stages] : {std::pair{2U, 3U}, {3U, 4U}, {4U, 2U}}) {
    for (const std::uint32_t share : {3U, 4U, 8U}) {
      for (std::uint32_t hole = 0; hole < stages; ++hole) {
        CAPTURE(replicas, stages, share, hole);
        const routed_step step = with_hole(replicas, stages, share, hole);
        const routed_schedule s = schedule_of(step);
        CHECK(check(s, std::vector<std::int64_t>(s.orders.size(), stages)));
        CHECK(s.orders[hole].empty());
        // the other pipelines with 1F1B, or with backwards in halves, and all micro-batches
        const double most = (share * replicas + replicas - 2) / (replicas - 1);
        CHECK(seconds_of(step) < 3 * (most + stages - 1));
        CHECK(seconds_of(step) >= 3.0 * share * replicas / (replicas - 1));
      }
    }
  }
}

TEST_CASE("routed schedule: any routes make one that can be run", "[plan][fast]") {
  rng draw{9};
  for (int trial = 0; trial < 100; ++trial) {
    const std::size_t stages = 1 + draw.below(5), twins = 1 + draw.below(3), m = 1 + draw.below(12);
    routed_step step{equal_costs(static_cast<std::uint32_t>(stages), {1, 1, 1, 1}, {0.3}),
                     {},
                     static_cast<std::uint32_t>(1 + draw.below(12))};
    step.halves = draw.below(2) == 0;
    step.room = static_cast<std::uint32_t>(draw.below(4));
    for (std::size_t i = 0; i < m; ++i) {
      step.routes.emplace_back();
      for (std::size_t k = 0; k < stages; ++k)
        step.routes.back().push_back(static_cast<std::uint32_t>(k * twins + draw.below(twins)));
    }
    CHECK(check(schedule_of(step)));
  }
}

TEST_CASE("routed schedule: what cannot be run is refused", "[plan][fast]") {
  const routed_schedule good = schedule_of(with_hole(2, 2, 2, 0));
  const auto refused = [&](auto&& change) {
    routed_schedule s = good;
    change(s);
    return !check(s);
  };
  CHECK_FALSE(refused([](auto&) {}));
  CHECK(refused([](auto& s) { s.orders[1].pop_back(); }));
  CHECK(refused([](auto& s) { s.orders[1].push_back(s.orders[1].front()); }));
  CHECK(refused([](auto& s) { std::swap(s.orders[1].front(), s.orders[1].back()); }));
  CHECK(refused([](auto& s) { s.orders[1][0].micro_batch = 4; }));
  CHECK(refused([](auto& s) { s.orders[1][0].chunk = 2; }));
  CHECK(refused([](auto& s) { s.orders[1][0].kind = work::recompute; }));
  CHECK(refused([](auto& s) { s.routes[1][1] = 9; }));
  CHECK(refused([](auto& s) { s.routes[1].pop_back(); }));
  CHECK(refused([](auto& s) { s.routes.clear(); }));
  CHECK_FALSE(check(good, std::vector<std::int64_t>(4, 1)));
  // two peers that wait for each other: the first runs both forwards and one backward, the second the other's first
  routed_schedule circle{{{0, 1}, {0, 1}},
                         {{{work::forward, 0, 0}, {work::backward, 0, 0}, {work::forward, 1, 0}, {work::backward, 1, 0}},
                          {{work::forward, 1, 1}, {work::backward, 1, 1}, {work::forward, 0, 1}, {work::backward, 0, 1}}}};
  const auto outcome = check(circle);
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().message.find("deadlock") != std::string::npos);
}

TEST_CASE("routed schedule: a ring comes back to its first rank, and swaps the pairs at its ends", "[plan][fast]") {
  using routes = std::vector<std::vector<std::uint32_t>>;
  CHECK((ring_routes(5, 2) == routes(2, {0, 1, 2, 3, 4, 0})));
  CHECK((swapped_routes(5, 3) == routes{{0, 1, 2, 3, 4, 0}, {0, 2, 1, 4, 3, 0}, {0, 1, 2, 3, 4, 0}}));
  CHECK((swapped_routes(5, 2, 3) == routes{{0, 2, 1, 4, 3, 0}, {0, 1, 2, 3, 4, 0}}));
  CHECK((swapped_routes(7, 2)[1] == std::vector<std::uint32_t>{0, 2, 1, 3, 4, 6, 5, 0}));  // the authors' code's
}

TEST_CASE("routed schedule: what the ranks of a ring do can be run, in the memory of 1F1B", "[plan][fast]") {
  for (const std::uint32_t ranks : {5U, 6U, 9U}) {
    for (const std::uint32_t micro_batches : {1U, 2U, 3U, 8U, 21U}) {
      CAPTURE(ranks, micro_batches);
      const routed_schedule s = ring_schedule(swapped_routes(ranks, micro_batches));
      const std::vector<std::int64_t> room(ranks, std::int64_t{ranks} + 2);  // places of a pipeline of as many stages
      CHECK(check(s, room));
      CHECK((s.routes == swapped_routes(ranks, micro_batches)));
    }
  }
}

TEST_CASE("routed schedule: swaps cost a ring little", "[plan][fast]") {
  const auto seconds = [](std::vector<std::vector<std::uint32_t>> routes) {
    return seconds_of({equal_costs(static_cast<std::uint32_t>(routes.front().size())), std::move(routes), 16});
  };
  CHECK(seconds(swapped_routes(5, 16)) < 1.1 * seconds(ring_routes(5, 16)));
}

TEST_CASE("routed schedule: forwards of a ring go on while the first are on their way", "[plan][fast]") {
  const routed_schedule s = routed_forwards(ring_routes(5, 8), 5);
  REQUIRE(s.orders[0].size() == 16);
  for (std::uint32_t m = 0; m < 5; ++m) CHECK((s.orders[0][m] == operation{work::forward, m, 0}));
  CHECK((s.orders[0][5] == operation{work::forward, 0, 5}));  // it has come back when the sixth would leave
  for (std::uint32_t m = 0; m < 8; ++m) CHECK((s.orders[3][m] == operation{work::forward, m, 3}));
}

TEST_CASE("routed schedule: forwards alone, on every route", "[plan][fast]") {
  const routed_step step = with_hole(2, 2, 2, 0);
  const routed_schedule s = routed_forwards(step.routes, 4);
  CHECK(s.orders[0].empty());
  CHECK(s.orders[2].size() == 4);
  CHECK((s.orders[2][1] == operation{work::forward, 1, 0}));
  CHECK(s.orders[3].size() == 2);
}
