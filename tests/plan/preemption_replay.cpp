// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/preemption_replay.hpp>

#include <vector>

#include "support/catch.hpp"
#include "support/recovery_job.hpp"

using namespace causeway;
using namespace causeway::plan;
using causeway::test::round_job;
using causeway::test::trace_of;

namespace {

/// Answers with one action for each loss; a step takes 10 s while at least `least` peers are there.
struct scripted {
  recovery_action on_loss;
  std::size_t least = 1;
  double bytes = 10;
  std::size_t here = 0;

  recovery_action changed(std::span<const std::uint32_t> lost, std::span<const std::uint32_t> come) {
    here += come.size();
    here -= lost.size();
    return lost.empty() ? recovery_action{} : on_loss;
  }
  recovery_action boundary() { return {}; }
  [[nodiscard]] double step_seconds() const { return here >= least ? 10 : no_step; }
  [[nodiscard]] double checkpoint_bytes() const { return bytes; }
};

double sum(const replay_result& r) { return r.committed + r.thrown_away + r.under_way; }

const recovery_job job = round_job(1, 8);  // 8 samples a step; a checkpoint takes 2 s to write

}  // namespace

TEST_CASE("without losses every step commits the global batch", "[plan][fast]") {
  const replay_result r = replay(trace_of(4, {}, 105), job, {}, scripted{});
  CHECK(r.steps == 10);
  CHECK(r.committed == 80);
  CHECK(r.under_way == Approx(4));
  CHECK(r.thrown_away == 0);
  CHECK(r.computed == Approx(84));
  CHECK(r.throughput() == Approx(80 / 105.0));
  CHECK(r.paused == 0);
  CHECK(r.instance_seconds == Approx(420));
  CHECK(r.possible_samples == Approx(420 / 3.0));
  CHECK(r.share() == Approx(80 / 140.0));
}

TEST_CASE("a pause after which the step goes on costs its seconds and no sample", "[plan][fast]") {
  const replay_result r = replay(trace_of(4, {{23, false, 0}}, 105), job, {}, scripted{{7}});
  CHECK(r.paused == Approx(7));
  CHECK(r.pauses == 1);
  CHECK(r.thrown_away == 0);
  CHECK(r.computed == Approx(98 * 0.8));
  CHECK(r.committed == 72);
}

TEST_CASE("a step that begins again throws away what was computed of it", "[plan][fast]") {
  const replay_result r = replay(trace_of(4, {{23, false, 0}}, 105), job, {}, scripted{{7, step_fate::begins_again}});
  CHECK(r.thrown_away == Approx(3 * 0.8));
  CHECK(r.committed == 72);  // 2 steps, and 7 in the 75 s from second 30 on
  CHECK(r.under_way == Approx(5 * 0.8));
  CHECK(sum(r) == Approx(r.computed));
}

TEST_CASE("the last checkpoint is the last that was written whole", "[plan][fast]") {
  // Steps end at 10, 20, 30; checkpoints are whole at 12, 22, 32.
  const scripted policy{{7, step_fate::from_checkpoint}};
  const replay_result torn = replay(trace_of(4, {{31, false, 0}}, 108), job, {}, policy);
  CHECK(torn.thrown_away == Approx(8 + 0.8));  // the third step, and a tenth of the fourth
  CHECK(torn.committed == 16 + 56);            // 70 s from second 38 on
  const replay_result whole = replay(trace_of(4, {{33, false, 0}}, 110), job, {}, policy);
  CHECK(whole.thrown_away == Approx(3 * 0.8));
  CHECK(whole.committed == 24 + 56);
  CHECK(sum(whole) == Approx(whole.computed));
}

TEST_CASE("checkpoints come at the distance that was asked for, and may stall", "[plan][fast]") {
  recovery_job rare = job;
  rare.checkpoint_steps = 4;
  rare.checkpoint_stall = 3;
  const replay_result r = replay(trace_of(4, {{75, false, 0}}, 76), rare, {}, scripted{{100, step_fate::from_checkpoint}});
  // A checkpoint at 40, a stall to 43, steps end at 53, 63, 73.
  CHECK(r.committed == 32);
  CHECK(r.thrown_away == Approx(24 + 1.6));
  CHECK(r.paused == Approx(3 + 1));
}

TEST_CASE("weights that were made up cost the steps that were asked for", "[plan][fast]") {
  const replay_result r = replay(trace_of(4, {{25, false, 0}}, 101), job, {}, scripted{{0, step_fate::goes_on, 2.5}});
  CHECK(r.computed == Approx(80.8));
  CHECK(r.thrown_away == Approx(20));
  CHECK(r.steps == 7);
  CHECK(sum(r) == Approx(r.computed));
}

TEST_CASE("too few peers stall, and peers that come need their preparation", "[plan][fast]") {
  scripted policy{{2}};
  policy.least = 2;
  replay_options o;
  o.preparation = 30;
  o.dollars_per_instance_hour = 3600;
  const replay_result r = replay(trace_of(2, {{20, false, 0}, {25, true, 2}}, 100), job, o, policy);
  CHECK(r.stalled == Approx(33));  // from 22 to 55
  CHECK(r.paused == Approx(2));
  CHECK(r.computed == Approx((20 + 45) * 0.8));
  CHECK(r.instance_seconds == Approx(2 * 20 + 5 + 2 * 75));
  CHECK(r.dollars == Approx(r.instance_seconds));
}

TEST_CASE("who leaves before being ready was never there", "[plan][fast]") {
  replay_options o;
  o.preparation = 30;
  const replay_result r =
      replay(trace_of(2, {{20, true, 2}, {25, false, 2}}, 100), job, o, scripted{{50, step_fate::begins_again}});
  CHECK(r.paused == 0);
  CHECK(r.computed == Approx(80));
}

TEST_CASE("whatever happens, what was computed is committed, thrown away or under way", "[plan][fast]") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    trace_options o;
    o.instances = 6;
    o.hours = 3;
    o.hourly_loss_share = 5;
    const preemption_trace t = make_trace(o, seed);
    scripted policy{
        {static_cast<double>(seed % 20), static_cast<step_fate>(seed % 3), static_cast<double>(seed % 5) * 0.7}};
    policy.least = 1 + seed % 5;
    const replay_result r = replay(t, job, {}, policy);
    CHECK(sum(r) == Approx(r.computed).epsilon(1e-9));
    CHECK(r.computed == Approx((t.seconds - r.paused - r.stalled) * 0.8).epsilon(1e-9));
    const replay_result again = replay(t, job, {}, policy);
    CHECK(again.committed == r.committed);
    CHECK(again.thrown_away == r.thrown_away);
  }
}
