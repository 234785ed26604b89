// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/recovery_redundant.hpp>

#include <causeway/plan/preemption_replay.hpp>

#include "support/catch.hpp"
#include "support/recovery_job.hpp"

using namespace causeway;
using namespace causeway::plan;
using namespace causeway::test;

namespace {

redundant_recovery policy_of(const recovery_job& job, std::uint32_t peers, double most_at_risk = 0.05) {
  auto p = *redundant_recovery::make(job, {4, 2, most_at_risk});
  p.changed({}, peers_from(0, peers));
  return p;
}

double with_shadows(const std::vector<std::uint32_t>& route, std::size_t micro_batches) {
  const std::vector<std::vector<std::uint32_t>> routes(micro_batches, route);
  return seconds_of({equal_costs(4, {1, 1, 1, 1}), routes, static_cast<std::uint32_t>(micro_batches), false, true});
}

}  // namespace

TEST_CASE("redundant forwards fit into the bubbles of a short step", "[plan][fast]") {
  const recovery_job job = round_job(4, 4);
  const double step = policy_of(job, 8).step_seconds();  // 2 pipelines, 2 micro-batches each
  CHECK(step == with_shadows({0, 1, 2, 3}, 2));
  CHECK(step >= 15);
  CHECK(step <= 17);
}

TEST_CASE("a lost peer's predecessor does its stage too, and the step goes on", "[plan][fast]") {
  const recovery_job job = round_job(4, 4);
  auto p = policy_of(job, 8);
  const recovery_action a = p.changed(std::vector<std::uint32_t>{2}, {});
  CHECK(a.pause == Approx(1 + 2));
  CHECK(a.fate == step_fate::goes_on);
  CHECK(p.step_seconds() == with_shadows({0, 1, 1, 3}, 2));
  CHECK(p.step_seconds() > with_shadows({0, 1, 2, 3}, 2));
}

TEST_CASE("the last stage shadows the first", "[plan][fast]") {
  const recovery_job job = round_job(4, 4);
  auto p = policy_of(job, 4);
  CHECK(p.changed(std::vector<std::uint32_t>{0}, {}).fate == step_fate::goes_on);
  CHECK(p.step_seconds() == with_shadows({3, 1, 2, 3}, 4));
}

TEST_CASE("regrouping waits for the step's end, and fills holes with spares", "[plan][fast]") {
  const recovery_job job = round_job(4, 4);
  auto p = policy_of(job, 9);
  CHECK(p.changed(std::vector<std::uint32_t>{2}, {}).fate == step_fate::goes_on);
  const recovery_action a = p.boundary();
  CHECK(a.pause == Approx(4 + 2));  // its stage and its successor's, a second each
  CHECK(p.grid().holes() == 0);
  CHECK(p.step_seconds() == with_shadows({0, 1, 2, 3}, 2));
  CHECK(p.boundary().pause == 0);
}

TEST_CASE("with few at risk a hole stays, with many the pipeline is taken apart", "[plan][fast]") {
  const recovery_job job = round_job(4, 4);
  auto patient = policy_of(job, 8, 0.5);
  patient.changed(std::vector<std::uint32_t>{2}, {});
  CHECK(patient.boundary().pause == 0);  // 2 of 7 at risk
  CHECK(patient.grid().holes() == 1);
  auto careful = policy_of(job, 8);
  careful.changed(std::vector<std::uint32_t>{2}, {});
  CHECK(careful.boundary().pause > 0);
  CHECK(careful.grid().pipelines() == 1);
  CHECK(careful.grid().spares() == 3);
}

TEST_CASE("the last pipeline goes on with peers that do two stages", "[plan][fast]") {
  const recovery_job job = round_job(4, 4);
  auto p = policy_of(job, 4);
  p.changed(std::vector<std::uint32_t>{2}, {});
  CHECK(p.boundary().pause == 0);
  CHECK(p.step_seconds() == with_shadows({0, 1, 1, 3}, 4));
}

TEST_CASE("two neighbours lost at once: another pipeline's state, else the checkpoint", "[plan][fast]") {
  const recovery_job job = round_job(4, 4);
  auto two = policy_of(job, 8);
  const recovery_action a = two.changed(std::vector<std::uint32_t>{1, 2}, {});
  CHECK(a.fate == step_fate::begins_again);
  CHECK(a.pause == Approx(1 + 4));  // the other pipeline is whole: nobody has a new stage
  CHECK(two.grid().pipelines() == 1);
  auto one = policy_of(job, 4);
  const recovery_action b = one.changed(std::vector<std::uint32_t>{1, 2}, {});
  CHECK(b.fate == step_fate::from_checkpoint);
  CHECK(one.step_seconds() == no_step);
  const recovery_action c = one.changed({}, std::vector<std::uint32_t>{10, 11});
  CHECK(c.fate == step_fate::from_checkpoint);
  CHECK(c.pause == Approx(40 + 2));
  CHECK(one.step_seconds() == with_shadows({0, 1, 2, 3}, 4));
}

TEST_CASE("two losses that are no neighbours are none too many", "[plan][fast]") {
  const recovery_job job = round_job(4, 4);
  auto p = policy_of(job, 4);
  CHECK(p.changed(std::vector<std::uint32_t>{1, 3}, {}).fate == step_fate::goes_on);
  CHECK(p.step_seconds() == with_shadows({0, 0, 2, 2}, 4));
  // One that does two stages is one too many.
  CHECK(p.changed(std::vector<std::uint32_t>{2}, {}).fate == step_fate::from_checkpoint);
}

TEST_CASE("one loss costs the failover, slower rest of the step, and a regrouping: no sample", "[plan][fast]") {
  const recovery_job job = round_job(4, 4);
  const double quick = with_shadows({0, 1, 2, 3}, 2), slow = with_shadows({0, 1, 1, 3}, 2);
  const double lost_at = quick + quick / 4;
  const double second_step = lost_at + 3 + 0.75 * slow;
  const preemption_trace t = trace_of(9, {{lost_at, false, 2}}, second_step + 6 + 2.5 * quick);
  const replay_result r = replay(t, job, {}, *redundant_recovery::make(job, {4, 2}));
  CHECK(r.thrown_away == 0);
  CHECK(r.paused == Approx(9));
  CHECK(r.committed == 4 * 4);
  CHECK(r.under_way == Approx(2));
}
