// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/recovery_morph.hpp>

#include "support/catch.hpp"
#include "support/recovery_job.hpp"

using namespace causeway;
using namespace causeway::plan;
using namespace causeway::test;

TEST_CASE("the shape is that of Varuna's search for the peers that are there", "[plan][fast]") {
  const recovery_job job = round_job(6, 12);
  morph_recovery p{job, 40};
  for (std::uint32_t n = 1; n <= 9; ++n) {
    const recovery_action a = p.changed({}, peers_from(n - 1, n));
    varuna_options o;
    o.devices = n;
    o.global_batch = 12;
    o.device_memory = 40;
    const auto plan = plan_varuna(calibration_of(job), o);
    CHECK(plan.has_value() == (p.step_seconds() < no_step));
    if (!plan) continue;
    CHECK(p.stages() == plan->stages());
    CHECK(p.replicas() == plan->replicas);
    CHECK(p.step_seconds() == plan->seconds());
    CHECK((a.fate == step_fate::goes_on || a.fate == step_fate::from_checkpoint));
  }
}

TEST_CASE("a change of shape is a restart from the checkpoint; losing a spare is nothing", "[plan][fast]") {
  const recovery_job job = round_job(2, 4);
  morph_recovery p{job, 15};  // a block on each: 2 stages
  p.changed({}, peers_from(0, 4));
  CHECK(p.replicas() == 2);
  const recovery_action more = p.changed({}, peers_from(4, 5));
  CHECK(more.pause == 0);
  CHECK(more.fate == step_fate::goes_on);
  CHECK(p.changed(std::vector<std::uint32_t>{4}, {}).fate == step_fate::goes_on);
  const recovery_action less = p.changed(std::vector<std::uint32_t>{0}, {});
  CHECK(less.fate == step_fate::from_checkpoint);
  CHECK(less.pause == Approx(1 + 40 + 1));
  CHECK(p.replicas() == 1);
  p.changed(std::vector<std::uint32_t>{1, 2}, {});
  CHECK(p.step_seconds() == no_step);
}

TEST_CASE("a calibration holds the embedding and the head in its first and last cut-point", "[plan][fast]") {
  recovery_job job = round_job(2, 1);
  job.model.embedding = {100, 6, 50, 0};
  job.model.head = {10, 9, 5, 0};
  const varuna_calibration c = calibration_of(job);
  CHECK(c.points[0].forward[0] + c.points[0].backward[0] == Approx(9));
  CHECK(c.points[0].memory == Approx(60));
  CHECK(c.points[1].forward[0] == Approx(4));
  CHECK(c.points[1].gradient_bytes == Approx(20));
}
