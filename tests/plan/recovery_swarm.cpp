// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/recovery_swarm.hpp>

#include <causeway/plan/preemption_replay.hpp>

#include "support/catch.hpp"
#include "support/recovery_job.hpp"

using namespace causeway;
using namespace causeway::plan;
using namespace causeway::test;

namespace {

swarm_recovery swarm_of(const recovery_job& job, std::uint32_t peers, bool rebalances = true) {
  auto p = *swarm_recovery::make(job, {4, rebalances});
  p.changed({}, peers_from(0, peers));  // peer i serves stage i mod 4
  return p;
}

}  // namespace

TEST_CASE("peers that come take the stage with the fewest", "[plan][fast]") {
  const recovery_job job = round_job(4, 8);
  auto p = swarm_of(job, 10);
  CHECK(p.peers_of(0) == 3);
  CHECK(p.peers_of(1) == 3);
  CHECK(p.peers_of(2) == 2);
  CHECK(p.peers_of(3) == 2);
}

TEST_CASE("throughput is near that of the peers that are left, also after large losses", "[plan][fast]") {
  const recovery_job job = round_job(4, 400);
  auto p = swarm_of(job, 32);
  const double whole = p.step_seconds();
  CHECK(400 * 12 / whole > 0.9 * 32);                          // 12 s of work a micro-batch
  const recovery_action a = p.changed(peers_from(0, 16), {});  // half of each stage
  CHECK(a.pause == Approx(1));
  CHECK(a.fate == step_fate::goes_on);
  CHECK(whole / p.step_seconds() > 0.5);
  CHECK(whole / p.step_seconds() < 0.53);
}

TEST_CASE("uneven losses are evened out by peers that change their stage", "[plan][fast]") {
  const recovery_job job = round_job(4, 400);
  auto fixed = swarm_of(job, 32, false), balanced = swarm_of(job, 32);
  const std::vector<std::uint32_t> lost{1, 5, 9, 13, 17, 21};  // of stage 1, which keeps 2 of 8
  fixed.changed(lost, {});
  balanced.changed(lost, {});
  CHECK(fixed.boundary().pause == 0);
  CHECK(balanced.boundary().pause == Approx(1));
  CHECK(balanced.peers_of(1) == 6);
  CHECK(fixed.step_seconds() > 2.5 * balanced.step_seconds());
}

TEST_CASE("when a stage's last peer leaves all stall, until one comes", "[plan][fast]") {
  const recovery_job job = round_job(4, 8);
  auto p = swarm_of(job, 8);
  p.changed(std::vector<std::uint32_t>{2, 6}, {});
  CHECK(p.step_seconds() == no_step);
  const recovery_action a = p.changed({}, std::vector<std::uint32_t>{20});
  CHECK(p.step_seconds() < no_step);
  CHECK(a.fate == step_fate::from_checkpoint);
  CHECK(a.pause == Approx(1));
  const preemption_trace t = trace_of(8, {{50, false, 2}, {50, false, 6}}, 500);
  const replay_result r = replay(t, job, {}, *swarm_recovery::make(job, {4}));
  CHECK(r.stalled == Approx(450));
}
