// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/recovery_reroute.hpp>

#include <causeway/plan/preemption_replay.hpp>

#include "support/catch.hpp"
#include "support/recovery_job.hpp"

using namespace causeway;
using namespace causeway::plan;
using namespace causeway::test;

namespace {

reroute_recovery policy_of(const recovery_job& job, std::uint32_t peers) {
  auto p = *reroute_recovery::make(job, 2);
  p.changed({}, peers_from(0, peers));
  p.boundary();
  return p;
}

}  // namespace

TEST_CASE("the twins of a lost peer take its micro-batches, and the step begins again", "[plan][fast]") {
  const recovery_job job = round_job(2, 12);
  auto p = policy_of(job, 6);  // 3 pipelines of 4 micro-batches
  const double whole = p.step_seconds();
  const recovery_action a = p.changed(std::vector<std::uint32_t>{3}, {});  // the second stage of the second pipeline
  CHECK(a.pause == Approx(1));
  CHECK(a.fate == step_fate::begins_again);
  CHECK(p.step_seconds() >= 6 * 3 + 1);  // a twin has 6, the first of which takes a second to come
  CHECK(p.step_seconds() > whole);
  CHECK(p.step_seconds() < 3 * (6 + 2));  // two whole pipelines take 3 (6 + 1) and its bubble
}

TEST_CASE("a spare fills the hole after the step", "[plan][fast]") {
  const recovery_job job = round_job(2, 12);
  auto p = policy_of(job, 7);
  const double whole = p.step_seconds();
  p.changed(std::vector<std::uint32_t>{3}, {});
  CHECK(p.boundary().pause == Approx(4 + 1));
  CHECK(p.step_seconds() == whole);
  CHECK(p.boundary().pause == 0);
}

TEST_CASE("losses are evened out among the stages", "[plan][fast]") {
  const recovery_job job = round_job(2, 12);
  auto p = policy_of(job, 8);
  p.changed(std::vector<std::uint32_t>{1, 3}, {});  // both of the second stage
  CHECK(p.grid().holders(1) == 2);
  const double uneven = p.step_seconds();
  CHECK(p.boundary().pause == Approx(5));
  CHECK(p.grid().holders(0) == 3);
  CHECK(p.grid().holders(1) == 3);
  CHECK(p.step_seconds() < uneven);
}

TEST_CASE("a stage without peers goes back to the checkpoint, and waits if it must", "[plan][fast]") {
  const recovery_job job = round_job(2, 12);
  auto p = policy_of(job, 4);
  const recovery_action a = p.changed(std::vector<std::uint32_t>{1, 3}, {});
  CHECK(a.fate == step_fate::from_checkpoint);
  CHECK(a.pause == Approx(1 + 40 + 1));
  CHECK(p.grid().pipelines() == 1);  // the two that are left
  CHECK(p.step_seconds() < no_step);
  p.changed(std::vector<std::uint32_t>{0}, {});
  CHECK(p.step_seconds() == no_step);
  CHECK(p.changed({}, std::vector<std::uint32_t>{9}).fate == step_fate::from_checkpoint);
  CHECK(p.step_seconds() < no_step);
}

TEST_CASE("one loss costs the part of its step that was done, and the detection", "[plan][fast]") {
  const recovery_job job = round_job(2, 12);
  auto p = policy_of(job, 6);
  const double whole = p.step_seconds();
  p.changed(std::vector<std::uint32_t>{3}, {});
  const double less = p.step_seconds();
  const preemption_trace t = trace_of(6, {{1.5 * whole, false, 3}}, 1.5 * whole + 1 + 2.25 * less);
  const replay_result r = replay(t, job, {}, *reroute_recovery::make(job, 2));
  CHECK(r.paused == Approx(1));
  CHECK(r.thrown_away == Approx(6));
  CHECK(r.committed == 12 * 3);
  CHECK(r.under_way == Approx(3));
}
