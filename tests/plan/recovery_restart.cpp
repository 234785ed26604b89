// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/recovery_restart.hpp>

#include <causeway/plan/preemption_replay.hpp>

#include "support/catch.hpp"
#include "support/recovery_job.hpp"

using namespace causeway;
using namespace causeway::plan;
using namespace causeway::test;

TEST_CASE("one loss costs the restart, the load, and what came after the last checkpoint", "[plan][fast]") {
  // Two pipelines of 2 with 2 micro-batches each: steps of 3 (2 + 1) = 9 s; then one with 4: 15 s.
  const recovery_job job = round_job(2, 4);
  const preemption_trace t = trace_of(4, {{19, false, 1}}, 19 + 1 + 40 + 1 + 30);
  const replay_result r = replay(t, job, {}, *restart_recovery::make(job, 2));
  CHECK(r.paused == Approx(42));
  CHECK(r.thrown_away == Approx(4 + 4.0 / 9));  // the checkpoint of second 18 was not whole
  CHECK(r.committed == 4 + 8);
  CHECK(r.computed == Approx(r.committed + r.thrown_away));
}

TEST_CASE("spare peers are used when there are enough for a pipeline, with a restart", "[plan][fast]") {
  const recovery_job job = round_job(2, 4);
  auto p = *restart_recovery::make(job, 2);
  p.changed({}, peers_from(0, 3));
  CHECK(p.replicas() == 1);
  CHECK(p.step_seconds() == Approx(15));
  const recovery_action spare_lost = p.changed(peers_from(2, 3), {});
  CHECK(spare_lost.pause == 0);
  CHECK(spare_lost.fate == step_fate::goes_on);
  CHECK(p.changed({}, peers_from(3, 4)).pause == 0);
  const recovery_action more = p.changed({}, peers_from(4, 5));
  CHECK(more.pause == Approx(41));  // nobody is lost: no detection
  CHECK(more.fate == step_fate::from_checkpoint);
  CHECK(p.replicas() == 2);
  p.changed(peers_from(0, 5), {});
  CHECK(p.step_seconds() == no_step);
}
