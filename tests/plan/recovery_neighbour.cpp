// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/recovery_neighbour.hpp>

#include <causeway/plan/preemption_replay.hpp>

#include "support/catch.hpp"
#include "support/recovery_job.hpp"

using namespace causeway;
using namespace causeway::plan;
using namespace causeway::test;

TEST_CASE("a stage that another pipeline holds is copied, one that nobody holds is made up", "[plan][fast]") {
  const recovery_job job = round_job(3, 6);
  auto p = *neighbour_recovery::make(job, {3, 2});
  p.changed({}, peers_from(0, 7));  // two pipelines and a spare
  const recovery_action copied = p.changed(std::vector<std::uint32_t>{1}, {});
  CHECK(copied.repeated_steps == 0);
  CHECK(copied.pause == Approx(1 + 4 + 1));
  CHECK(copied.fate == step_fate::begins_again);
  CHECK(p.grid().pipelines() == 2);
  auto q = *neighbour_recovery::make(job, {3, 2});
  q.changed({}, peers_from(0, 4));  // one pipeline and a spare
  CHECK(q.changed(std::vector<std::uint32_t>{1}, {}).repeated_steps == 2);
  CHECK(q.step_seconds() == Approx(3 * (6 + 2)));
}

TEST_CASE("without peers for a pipeline training waits, and what was lost is made up later", "[plan][fast]") {
  const recovery_job job = round_job(3, 6);
  auto p = *neighbour_recovery::make(job, {3, 5});
  p.changed({}, peers_from(0, 3));
  CHECK(p.changed(std::vector<std::uint32_t>{0}, {}).repeated_steps == 0);
  CHECK(p.step_seconds() == no_step);
  CHECK(p.checkpoint_bytes() == 0);
  CHECK(p.changed({}, std::vector<std::uint32_t>{8}).repeated_steps == 5);
  CHECK(p.step_seconds() < no_step);
}

TEST_CASE("one loss costs its parameter in steps, and no checkpoint", "[plan][fast]") {
  const recovery_job job = round_job(3, 6);  // steps of 24 s
  const preemption_trace t = trace_of(4, {{36, false, 1}}, 36 + 6 + 24 * 4);
  const replay_result r = replay(t, job, {}, *neighbour_recovery::make(job, {3, 1.5}));
  CHECK(r.paused == Approx(6));
  CHECK(r.thrown_away == Approx(6 * 0.5 + 6 * 1.5));
  CHECK(r.committed == Approx(6 * (1 + 4 - 1.5)));
}
