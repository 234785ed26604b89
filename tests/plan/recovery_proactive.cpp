// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/recovery_proactive.hpp>

#include <causeway/plan/preemption_replay.hpp>

#include "support/catch.hpp"
#include "support/recovery_job.hpp"

using namespace causeway;
using namespace causeway::plan;
using namespace causeway::test;

namespace {

proactive_options two_stages() {
  proactive_options o;
  o.most_stages = 2;
  o.device_memory = 10;  // a block on each peer
  return o;
}

}  // namespace

TEST_CASE("with peers that stay the shape is the one with the highest throughput", "[plan][fast]") {
  const recovery_job job = round_job(2, 12);
  proactive_recovery p{job, two_stages()};
  p.changed({}, peers_from(0, 1));
  CHECK(p.step_seconds() == no_step);
  p.changed({}, peers_from(1, 7));
  CHECK(p.shape() == pipeline_shape{3, 2});
  CHECK(p.step_seconds() == Approx(3 * (4 + 1)));
  CHECK(p.checkpoint_bytes() == 0);
}

TEST_CASE("a spare takes a lost peer's stage; without one a pipeline less is needed", "[plan][fast]") {
  const recovery_job job = round_job(2, 12);
  proactive_recovery p{job, two_stages()};
  p.changed({}, peers_from(0, 5));
  CHECK(p.shape() == pipeline_shape{2, 2});
  const recovery_action mended = p.changed(std::vector<std::uint32_t>{4}, {});
  CHECK(p.shape() == pipeline_shape{2, 2});
  CHECK(mended.fate == step_fate::begins_again);
  CHECK(mended.pause == Approx(1 + 4 + 1));
  const recovery_action fewer = p.changed(std::vector<std::uint32_t>{1}, {});
  CHECK(p.shape() == pipeline_shape{1, 2});
  CHECK(fewer.pause == Approx(1 + 4));  // its twin goes on
}

TEST_CASE("peers that come are used at the next plan", "[plan][fast]") {
  const recovery_job job = round_job(2, 12);
  proactive_recovery p{job, two_stages()};
  p.changed({}, peers_from(0, 4));
  CHECK(p.step_seconds() == Approx(21));
  CHECK(p.changed({}, peers_from(4, 6)).pause == 0);
  CHECK(p.boundary().pause == 0);
  CHECK(p.boundary().pause == 0);
  CHECK(p.boundary().pause == Approx(4 + 1));  // after a minute
  CHECK(p.shape() == pipeline_shape{3, 2});
}

TEST_CASE("no checkpoint is gone back to, and every sample is accounted for", "[plan][fast]") {
  const recovery_job job = round_job(2, 12);
  trace_options o;
  o.instances = 8;
  o.hours = 20;
  o.hourly_loss_share = 1;
  const replay_result r = replay(make_trace(o, 3), job, {}, proactive_recovery{job, two_stages()});
  CHECK(r.steps > 500);
  CHECK(r.committed + r.thrown_away + r.under_way == Approx(r.computed));
  CHECK(r.thrown_away < 12.0 * static_cast<double>(r.pauses + 200));  // at most a step each time
}
