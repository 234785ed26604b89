// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/routed_time.hpp>

#include <causeway/plan/schedules.hpp>
#include <causeway/plan/timeline.hpp>

#include "support/catch.hpp"

using namespace causeway;
using namespace causeway::plan;

namespace {

routed_step straight(std::uint32_t stages, std::uint32_t micro_batches, const stage_cost& c, const edge_cost& e = {}) {
  return {equal_costs(stages, c, e), straight_routes(stages, micro_batches), micro_batches};
}

}  // namespace

TEST_CASE("with one peer for each stage the time is that of 1F1B", "[plan][fast]") {
  for (const std::uint32_t stages : {1U, 2U, 4U, 7U}) {
    for (const std::uint32_t m : {1U, 3U, 8U, 20U}) {
      const routed_step s = straight(stages, m, {1, 1, 1, 1});
      CHECK(seconds_of(s) == Approx(timeline_of(*one_f_one_b(stages, m), s.costs)->makespan));
      CHECK(seconds_of(s) == Approx(3.0 * (m + stages - 1)));
    }
  }
}

TEST_CASE("messages take their latency and their bytes", "[plan][fast]") {
  // Forward over three edges and back: each 0.5 s and 20 bytes, or 10 bytes back, at 10 bytes a second.
  CHECK(seconds_of(straight(4, 1, {1, 1, 1, 1}, {0.5, 20, 10, 10})) == Approx(12 + 3 * 2.5 + 3 * 1.5));
}

TEST_CASE("a rank that does the stage of its lost neighbour sets the pace", "[plan][fast]") {
  routed_step s = straight(4, 50, {1, 1, 1, 1});
  for (auto& route : s.routes) route[2] = 1;
  const double seconds = seconds_of(s);
  CHECK(seconds >= 50 * 6);              // the work of two stages
  CHECK(seconds <= 50 * 6 + 3 * 6 + 1);  // and a fill and drain
}

TEST_CASE("redundant forwards are free while bubbles hold them, and cost at most themselves beyond", "[plan][fast]") {
  routed_step s = straight(8, 2, {1, 1, 1, 1});
  const double few = seconds_of(s);
  s.shadows = true;
  CHECK(seconds_of(s) <= few + 2);  // a forward under way is not interrupted
  s = straight(2, 100, {1, 1, 1, 1});
  const double many = seconds_of(s);
  s.shadows = true;
  CHECK(seconds_of(s) >= 100 * 4);
  CHECK(seconds_of(s) <= many + 101);
}

TEST_CASE("micro-batches of a dead rank go to its twins, and split backwards take up part of the delay", "[plan][fast]") {
  // 3 pipelines of 4; rank 1 of pipeline 0 is dead and its 12 micro-batches are shared by its two twins.
  routed_step s{equal_costs(4), {}, 12};
  for (std::uint32_t m = 0; m < 36; ++m) {
    const std::uint32_t d = m % 3;
    s.routes.push_back({d * 4, d * 4 + 1, d * 4 + 2, d * 4 + 3});
    if (d == 0) s.routes.back()[1] = (1 + m / 3 % 2) * 4 + 1;
  }
  const double whole = 3.0 * (12 + 3);
  const double joined = seconds_of(s);
  s.halves = true;
  const double split = seconds_of(s);
  CHECK(joined >= 18 * 3);  // a twin has 18
  CHECK(joined > whole);
  CHECK(split < joined);
  CHECK(split >= 18 * 3);
}

TEST_CASE("split backwards fill the bubbles of a pipeline without losses, too", "[plan][fast]") {
  routed_step s = straight(4, 8, {1, 1, 1, 1});
  const double joined = seconds_of(s);
  s.halves = true;
  CHECK(seconds_of(s) < joined);
  CHECK(seconds_of(s) >= 8 * 3);
}

TEST_CASE("any way through ends, also with little room", "[plan][fast]") {
  rng draw{4};
  for (int trial = 0; trial < 200; ++trial) {
    const std::size_t stages = 1 + draw.below(6), peers = 1 + draw.below(4), m = 1 + draw.below(20);
    routed_step s{equal_costs(static_cast<std::uint32_t>(stages), {1, 1, 1, 1}, {0.1 * static_cast<double>(draw.below(9))}),
                  {},
                  static_cast<std::uint32_t>(1 + draw.below(40))};
    s.halves = draw.below(2) == 0;
    s.shadows = draw.below(2) == 0;
    for (std::size_t i = 0; i < m; ++i) {
      s.routes.emplace_back();
      for (std::size_t k = 0; k < stages; ++k)
        s.routes.back().push_back(static_cast<std::uint32_t>(k * peers + draw.below(peers)));
    }
    const double seconds = seconds_of(s);
    CHECK(seconds >= 2.0 * static_cast<double>(stages) + 1);  // a weight gradient is in no other's way
    CHECK(seconds <= (3.0 + 1 + 2 * 0.9) * static_cast<double>(stages * m));
    CHECK(seconds == seconds_of(s));
  }
}

TEST_CASE("a micro-batch that leaves a stage out takes neither its time nor its ways", "[plan][fast]") {
  routed_step s{equal_costs(4), {{0, 1, 2, 3}, {0, left_out, 2, 3}, {0, 1, left_out, 3}, {0, left_out, left_out, 3}}};
  for (std::size_t m = 0; m < s.routes.size(); ++m) {
    routed_step one = s;
    one.routes = {s.routes[m]};
    one.ways.assign(4, std::vector<double>(4, 0.5));
    one.peers.assign(4, {1, 1, 1, 0});
    one.peers[2] = {2, 2, 3, 0};  // forward and backward: 7 s instead of 3
    const double passed = std::vector{4.0, 3.0, 3.0, 2.0}[m];
    CHECK(seconds_of(one) == Approx(3 * passed + (m < 2 ? 4 : 0) + 2 * (passed - 1) * 0.5));
  }
  // All of them: the first and the last peer have four, and nothing is quicker than that.
  const double seconds = seconds_of(s);
  CHECK(seconds >= 4 * 3);
  CHECK(seconds < seconds_of(straight(4, 4, {1, 1, 1, 1})));
}
