// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/recovery_templates.hpp>

#include <causeway/plan/preemption_replay.hpp>

#include <algorithm>
#include <set>

#include "support/catch.hpp"
#include "support/recovery_job.hpp"

using namespace causeway;
using namespace causeway::plan;
using namespace causeway::test;

namespace {

/// Of at least 2 peers, which hold 4 blocks of the 8 each; 2 pipelines or more.
template_set set_of(const recovery_job& job, std::size_t peers) {
  template_peers kind;
  kind.memory = 40;
  return *make_templates(job.model, kind, peers, 1, job.micro_batches / 2);
}

std::set<std::size_t> all_of(const pipeline_peers& pipelines) {
  std::set<std::size_t> ids;
  for (const auto& p : pipelines) {
    for (const std::size_t id : p) CHECK(ids.insert(id).second);
  }
  return ids;
}

}  // namespace

TEST_CASE("a lost peer's pipeline takes a smaller template and copies the blocks it misses", "[plan][fast]") {
  const recovery_job job = round_job(8, 8);
  template_recovery p{job, set_of(job, 6)};
  p.changed({}, peers_from(0, 6));
  CHECK(all_of(p.pipelines()).size() == 6);
  const double whole = p.step_seconds();
  pipeline_peers before = p.pipelines();
  const std::vector<std::uint32_t> lost{static_cast<std::uint32_t>(before[0][1])};
  const auto reaction = react(set_of(job, 6), before, {lost[0]});
  const recovery_action a = p.changed(lost, {});
  CHECK(a.fate == step_fate::begins_again);
  REQUIRE(reaction);
  CHECK(p.pipelines() == reaction->pipelines);
  CHECK_FALSE(reaction->copies.empty());
  CHECK(a.pause >= 1 + 4 + 1);                                             // at least a block of one second
  CHECK(a.pause <= 1 + 4 + static_cast<double>(reaction->copies.size()));  // and not one after another
  CHECK(p.step_seconds() > whole);
}

TEST_CASE("peers that come are used after the step, where that helps", "[plan][fast]") {
  const recovery_job job = round_job(8, 8);
  template_recovery p{job, set_of(job, 8)};
  p.changed({}, peers_from(0, 5));
  const double five = p.step_seconds();
  CHECK(p.changed({}, peers_from(5, 7)).pause == 0);
  CHECK(p.step_seconds() == five);
  CHECK(p.boundary().pause > 4);
  CHECK(all_of(p.pipelines()).size() == 7);
  CHECK(p.step_seconds() < five);
  CHECK(p.boundary().pause == 0);
}

TEST_CASE("the step is the timeline of the slowest pipeline", "[plan][fast]") {
  const recovery_job job = round_job(8, 8);
  template_recovery p{job, set_of(job, 4)};
  p.changed({}, peers_from(0, 4));  // two pipelines of two: 4 blocks on each peer
  CHECK(p.step_seconds() == Approx(12 * (4 + 1)));
}

TEST_CASE("below f + 1 pipelines training waits, and goes on from the checkpoint", "[plan][fast]") {
  const recovery_job job = round_job(8, 8);
  template_recovery p{job, set_of(job, 4)};
  p.changed({}, peers_from(0, 4));
  p.changed(std::vector<std::uint32_t>{3}, {});
  CHECK(p.step_seconds() == no_step);
  const recovery_action a = p.changed({}, std::vector<std::uint32_t>{7});
  CHECK(a.fate == step_fate::from_checkpoint);
  CHECK(a.pause == Approx(40 + 4));
  CHECK(all_of(p.pipelines()) == std::set<std::size_t>{0, 1, 2, 7});
}

TEST_CASE("a block that is gone with all its holders needs the checkpoint", "[plan][fast]") {
  const recovery_job job = round_job(8, 8);
  template_recovery p{job, set_of(job, 8)};
  p.changed({}, peers_from(0, 8));
  std::vector<std::uint32_t> first;  // holders of block 0
  for (const auto& pipeline : p.pipelines()) first.push_back(static_cast<std::uint32_t>(pipeline[0]));
  std::sort(first.begin(), first.end());
  const recovery_action a = p.changed(first, {});  // at least 4 of 8 are left, enough for two pipelines
  CHECK(a.fate == step_fate::from_checkpoint);
  CHECK(a.pause == Approx(1 + 40 + 4));
  CHECK(all_of(p.pipelines()).size() == 8 - first.size());
}

TEST_CASE("templates keep training through a storm, and lose nobody", "[plan][fast]") {
  const recovery_job job = round_job(8, 16);
  trace_options o;
  o.instances = 12;
  o.hours = 20;
  o.hourly_loss_share = 1;
  const preemption_trace t = make_trace(o, 7);
  const replay_result r = replay(t, job, {}, template_recovery{job, set_of(job, 12)});
  CHECK(r.steps > 100);
  CHECK(r.committed + r.thrown_away + r.under_way == Approx(r.computed));
}
