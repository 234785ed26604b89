// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/varuna_search.hpp>

#include <cstddef>
#include <limits>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using plan::varuna_calibration;
using plan::varuna_options;
using plan::varuna_plan;

namespace {

/// Cut-points whose time has a fixed part, so that larger micro-batches are better up to a knee.
varuna_calibration transformer(std::size_t points) {
  varuna_calibration c;
  c.sizes = {1, 2, 4, 8, 16};
  plan::cut_point p;
  for (const std::size_t m : c.sizes) {
    p.forward.push_back(0.004 + 0.010 * static_cast<double>(m));
    p.backward.push_back(2 * p.forward.back());
  }
  p.gradient_bytes = 100e6;
  p.memory = 800e6;
  p.activation = 200e6;
  c.points.assign(points, p);
  c.boundary_bytes = 4e6;
  c.hop = {0.001, 5e9};
  c.ring = {0.001, 5e9};
  return c;
}

}  // namespace

TEST_CASE("the micro-batch is the least within a tolerance of the best time per sample", "[plan][fast]") {
  const varuna_calibration c = transformer(1);  // per sample, in ms: 14, 12, 11, 10.5, 10.25
  CHECK(c.sizes[plan::knee_of(c, 0)] == 16);
  CHECK(c.sizes[plan::knee_of(c, 0.05)] == 8);
  CHECK(c.sizes[plan::knee_of(c, 0.1)] == 4);
  CHECK(c.sizes[plan::knee_of(c, 0.5)] == 1);
}

TEST_CASE("without links and with memory to spare one stage per replica is best", "[plan][fast]") {
  varuna_calibration c = transformer(8);
  c.ring = c.hop = {};
  const auto p = plan::plan_varuna(c, {.devices = 16, .global_batch = 512});
  REQUIRE(p);
  CHECK(p->stages() == 1);
  CHECK(p->replicas == 16);
  CHECK(p->micro_batch == 8);
  CHECK(p->micro_batches == 4);
  CHECK(p->seconds() == Approx(4 * 8 * 3 * 0.084));
}

TEST_CASE("slow averages and little memory make pipelines", "[plan][fast]") {
  varuna_calibration c = transformer(24);
  c.ring.bandwidth = 0.5e9;
  const varuna_options roomy{.devices = 32, .global_batch = 1024};
  const auto p = plan::plan_varuna(c, roomy);
  REQUIRE(p);
  CHECK(p->stages() > 1);
  CHECK(p->stages() * p->replicas <= 32);

  varuna_options tight = roomy;
  tight.device_memory = 16e9;  // a cut-point takes 0.8 GB, and 1.6 GB for 8 samples
  const auto q = plan::plan_varuna(c, tight);
  REQUIRE(q);
  CHECK(q->stages() >= 4);
  CHECK(q->seconds() >= p->seconds());
  for (std::size_t s = 0; s < q->stages(); ++s) CHECK(double(q->split.end(s) - q->split.first_block[s]) * 2.4e9 < 16e9);
  tight.device_memory = 2e9;
  const auto none = plan::plan_varuna(c, tight);
  REQUIRE_FALSE(none);
  CHECK(none.error().code == errc::out_of_memory);
}

TEST_CASE("the plan is the quickest of all numbers of stages, each tried by itself", "[plan][fast]") {
  const varuna_calibration c = transformer(12);
  const varuna_options o{.devices = 20, .global_batch = 300};
  const auto p = plan::plan_varuna(c, o);
  REQUIRE(p);
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t stages = 1; stages <= 12; ++stages) {
    const auto one = plan::detail::varuna_try{c, o, plan::knee_of(c, o.knee)}.run(stages);
    REQUIRE(one);
    REQUIRE(one->stages() == stages);
    REQUIRE(one->replicas == 20 / stages);
    // No pipeline is quicker than its slowest stage's work, nor than the work of all devices together.
    const double micro_batch_seconds = 3 * 0.084;
    REQUIRE(one->pipeline_seconds >= static_cast<double>(one->micro_batches) * one->split.slowest * (1 - 1e-12));
    REQUIRE(one->seconds() * 20 >= 300.0 / 8 * 12 * micro_batch_seconds);
    least = std::min(least, one->seconds());
  }
  CHECK(p->seconds() == least);
}

TEST_CASE("morphing keeps the global batch whatever the number of devices, and more devices do not harm", "[plan][fast]") {
  varuna_calibration c = transformer(12);
  const auto table = plan::morphing_table(c, {.devices = 24, .global_batch = 256, .device_memory = 16e9});
  REQUIRE(table.size() == 24);
  CHECK_FALSE(table[0]);  // 12 x 2.4 GB do not fit on one device
  std::size_t planned = 0;
  for (std::size_t g = 1; g <= 24; ++g) {
    const auto& p = table[g - 1];
    if (!p) continue;
    ++planned;
    REQUIRE(p->stages() * p->replicas <= g);
    REQUIRE(p->micro_batch * p->micro_batches * p->replicas >= 256);
    REQUIRE(p->micro_batch * (p->micro_batches - 1) * p->replicas < 256);
  }
  CHECK(planned == 23);
  CHECK(table[23]->seconds() < table[5]->seconds() / 2.5);
}

TEST_CASE("a calibration that is not complete is refused", "[plan][fast]") {
  const varuna_calibration good = transformer(3);
  const varuna_options o{.devices = 4, .global_batch = 8};
  REQUIRE(plan::plan_varuna(good, o));
  varuna_calibration bad = good;
  bad.sizes[1] = 1;
  CHECK(plan::plan_varuna(bad, o).error().code == errc::invalid_argument);
  bad = good;
  bad.points[2].backward.pop_back();
  CHECK_FALSE(plan::plan_varuna(bad, o));
  bad.points.clear();
  CHECK_FALSE(plan::plan_varuna(bad, o));
  CHECK_FALSE(plan::plan_varuna(good, {.devices = 0, .global_batch = 8}));
}
