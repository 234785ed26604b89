// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/stage_costs.hpp>

#include <cmath>
#include <limits>
#include <string>

#include "support/catch.hpp"

using namespace causeway;
using plan::edge_cost;
using plan::stage_cost;
using plan::stage_costs;
using plan::work;

TEST_CASE("A backward costs both its halves", "[plan][fast]") {
  constexpr stage_cost c{1, 2, 4, 8};
  CHECK(c.of(work::forward) == 1);
  CHECK(c.of(work::backward) == 6);
  CHECK(c.of(work::input_gradient) == 2);
  CHECK(c.of(work::weight_gradient) == 4);
  CHECK(c.of(work::recompute) == 8);
}

TEST_CASE("Jitter has mean 1, the stated spread, and depends on what it is for alone", "[plan][fast]") {
  const plan::jitter noise{0.3, 5};
  double sum = 0, logs = 0, squares = 0;
  constexpr std::uint32_t count = 20000;
  for (std::uint32_t i = 0; i < count; ++i) {
    const double f = noise.factor(i % 7, {work::forward, i}, false);
    sum += f;
    logs += std::log(f);
    squares += std::log(f) * std::log(f);
  }
  const double mean = logs / count;
  CHECK(sum / count == Approx(1).margin(0.01));  // 4 standard errors: 0.3 / sqrt(20000) * 4
  CHECK(std::sqrt(squares / count - mean * mean) == Approx(0.3).margin(0.006));

  const double one = noise.factor(2, {work::backward, 3}, false);
  CHECK(noise.factor(2, {work::backward, 3}, false) == one);
  CHECK(noise.factor(2, {work::backward, 3}, true) != one);
  CHECK(noise.factor(1, {work::backward, 3}, false) != one);
  CHECK(noise.factor(2, {work::backward, 4}, false) != one);
  CHECK(noise.factor(2, {work::forward, 3}, false) != one);
  CHECK(plan::jitter{0.3, 6}.factor(2, {work::backward, 3}, false) != one);
  CHECK(plan::jitter{0, 6}.factor(2, {work::backward, 3}, false) == 1);
}

TEST_CASE("Costs that fit no pipeline are refused by name", "[plan][fast]") {
  const stage_costs good = plan::equal_costs(3);
  CHECK(plan::check(good, 3));
  CHECK(plan::check(good, 4).error().code == errc::invalid_argument);
  CHECK(plan::check(stage_costs{}, 1).error().code == errc::invalid_argument);
  CHECK(plan::check(plan::equal_costs(1), 1));

  const double wrong[] = {-1, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 1e19};
  for (const double x : wrong) {
    for (double stage_cost::*member :
         {&stage_cost::forward, &stage_cost::input_gradient, &stage_cost::weight_gradient, &stage_cost::recompute}) {
      stage_costs c = good;
      c.stages[2].*member = x;
      CHECK(plan::check(c, 3).error().where == "costs of stage 2");
    }
    for (double edge_cost::*member : {&edge_cost::latency, &edge_cost::bytes_forward, &edge_cost::bytes_backward}) {
      stage_costs c = good;
      c.edges[1].*member = x;
      CHECK(plan::check(c, 3).error().where == "costs of edge 1");
    }
  }
  stage_costs c = good;
  c.edges[0].bytes_per_second = 0;
  CHECK(plan::check(c, 3).error().code == errc::non_finite);
  c.edges[0] = {0, 1e10, 1, 1e-10};  // takes 1e20 s
  CHECK(plan::check(c, 3).error().code == errc::non_finite);
  c.edges[0] = {0, 1e10, 1, std::numeric_limits<double>::infinity()};
  CHECK(plan::check(c, 3));
}
