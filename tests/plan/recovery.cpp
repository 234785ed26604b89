// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/recovery.hpp>

#include "support/catch.hpp"
#include "support/recovery_job.hpp"

using namespace causeway;
using namespace causeway::plan;
using causeway::test::round_job;

TEST_CASE("a step of whole pipelines is 1F1B with the largest share, and a ring all-reduce", "[plan][fast]") {
  recovery_job job = round_job(4, 10);
  const auto cut = cut_job::make(job, 2);  // 2 blocks each: 6 s for a micro-batch
  REQUIRE(cut);
  CHECK(cut->step_seconds(0) == no_step);
  CHECK(cut->step_seconds(1) == Approx(6 * (10 + 1)));
  CHECK(cut->share(3) == 4);
  CHECK(cut->step_seconds(3) == Approx(6 * (4 + 1)));
  CHECK(cut->state_bytes() == Approx(20));
  CHECK(cut->copy_seconds() == Approx(2));
  CHECK(cut->load_seconds() == Approx(2));
  for (block_cost& b : job.model.blocks) b.parameters = 15;
  CHECK(cut_job::make(job, 2)->average_seconds(3) == Approx(2 * 2 * (60.0 / 3) / 10));  // 4 messages of a third of 60 bytes
  CHECK(cut_job::make(job, 2)->average_seconds(1) == 0);
}

TEST_CASE("messages between stages are in a step's time", "[plan][fast]") {
  recovery_job job = round_job(3, 1);
  job.boundary_bytes = 5;
  job.link.delay = 0.25;
  CHECK(cut_job::make(job, 3)->step_seconds(1) == Approx(9 + 4 * 0.75));
}

TEST_CASE("more stages than blocks are refused", "[plan][fast]") { CHECK_FALSE(cut_job::make(round_job(2, 1), 3)); }
