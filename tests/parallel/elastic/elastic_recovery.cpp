// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/elastic_pipeline.hpp>

#include <causeway/stage/recovery_neighbour.hpp>
#include <causeway/stage/recovery_redundant.hpp>
#include <causeway/stage/recovery_reroute.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "parallel/elastic/elastic_cases.hpp"
#include "parallel/elastic/elastic_world.hpp"
#include "support/catch.hpp"

// Every recovery policy in whole runs: whoever is killed, and whenever, the run goes on to the result of the unsplit model.

namespace causeway {
namespace {

using support::elastic_world;
using support::elastic_world_options;
using support::errors_of;
using support::founded;
using support::kill_through_the_run;
using support::with;

}  // namespace

TEST_CASE("recovery: redundant pipelines survive every kill", "[parallel][elastic][fast]") {
  elastic_world_options o;
  o.victim = GENERATE(0U, 1U, 3U);
  kill_through_the_run(o, stage::recovery::redundant{2}, founded, 15);
}

TEST_CASE("recovery: a single redundant pipeline goes on without a stage's only peer", "[parallel][elastic][fast]") {
  elastic_world_options o;
  o.hosts = 3;
  o.layers = 6;
  o.victim = GENERATE(0U, 1U, 2U);
  o.dies_at = 150;
  elastic_world w{o, with(stage::recovery::redundant{3})};
  w.wanted = 2;
  w.boot();
  w.run();
  CHECK(errors_of(w, o.hosts).empty());
  CHECK(w.finished() == 2);
  CHECK(w.distance(w.unsplit()) < 5e-5);
}

TEST_CASE("recovery: a stage that nobody has any more is made up from its neighbours", "[parallel][elastic][fast]") {
  std::string said;
  elastic_world_options o = support::three_stages_lose_one(GENERATE(0U, 1U, 2U, 3U), said);
  o.dies_at = GENERATE(170U, 200U, 237U, 270U);
  CAPTURE(o.dies_at);
  elastic_world w{o, with(stage::recovery::neighbour_init{})};
  w.wanted = 3;
  w.boot();
  w.run(std::chrono::minutes{2});
  support::check_made_up(w, o, said);
}

TEST_CASE("recovery: stages that another pipeline has are not made up, whoever is killed", "[parallel][elastic][fast]") {
  elastic_world_options o;
  o.victim = GENERATE(0U, 1U, 3U);
  kill_through_the_run(o, stage::recovery::neighbour_init{{.stages = 2}}, founded, 12);
}

TEST_CASE("recovery: a run that loses a stage goes back to the newest state that is saved whole",
          "[parallel][elastic][fast]") {
  elastic_world_options o = support::saved_every_other_step();
  o.victim = GENERATE(0U, 1U, 2U, 3U);
  o.dies_at = GENERATE(200U, 230U, 261U);
  elastic_world w{o, with(stage::recovery::regroup{3})};
  w.wanted = 3;
  w.boot();
  w.run();
  CHECK(errors_of(w, o.hosts).empty());
  CHECK(w.finished() == 3);
  support::check_went_back(w, o);
  CHECK(w.distance(w.unsplit()) < 5e-5);  // each step once, however often it was tried
}

TEST_CASE("recovery: a run whose peers are all stopped goes on from what is saved", "[parallel][elastic][fast]") {
  support::stop_all_and_start_again(
      [](const elastic_world_options& o) {
        return elastic_world{o, with(stage::recovery::regroup{2})};
      },
      [](auto& w, const elastic_world_options&) { CHECK(w.distance(w.unsplit()) < 5e-5); });
}

TEST_CASE("recovery: machines that share no storage go on from what they have saved between them",
          "[parallel][elastic][fast]") {
  const std::uint32_t lost = GENERATE(UINT32_MAX, 0U, 1U, 2U, 3U);  // what it held another one has saved, too
  support::stop_all_and_start_again(
      [](const elastic_world_options& o) {
        return elastic_world{o, with(stage::recovery::regroup{2})};
      },
      [](auto& w, const elastic_world_options&) { CHECK(w.distance(w.unsplit()) < 5e-5); }, true, lost);
}

TEST_CASE("recovery: pipelines from templates survive every kill, and are of different length",
          "[parallel][elastic][fast]") {
  elastic_world_options o;
  o.hosts = 5;
  o.layers = 6;
  o.micro_batches = 10;
  o.victim = GENERATE(1U, 4U);
  kill_through_the_run(o, support::three_block_templates(), founded, 12);
}

TEST_CASE("recovery: morphing pipelines survive every kill", "[parallel][elastic][fast]") {
  elastic_world_options o;
  o.hosts = 5;
  o.layers = 4;
  o.victim = GENERATE(0U, 4U);
  kill_through_the_run(o, support::two_block_morph(), founded, 12);
}

TEST_CASE("recovery: proactive pipelines survive every kill", "[parallel][elastic][fast]") {
  elastic_world_options o;
  o.hosts = 5;
  o.steps = 6;
  o.victim = GENERATE(0U, 4U);
  kill_through_the_run(o, support::two_block_proactive(2), founded, 12);
}

TEST_CASE("recovery: peers that come late forecast from the history of those that were there",
          "[parallel][elastic][fast]") {
  elastic_world_options o;
  o.hosts = 6;
  o.micro_batches = 6;
  o.late = {4, 5};
  o.steps = 12;
  std::function<void(std::uint32_t)> come;
  o.before_step = [&](std::uint32_t host, std::uint64_t step) {
    if (host == 0 && (step == 3 || step == 6)) come(step == 3 ? 4 : 5);
  };
  elastic_world w{o, with(support::two_block_proactive(3))};
  come = [&](std::uint32_t host) { w.boot(host); };
  w.boot();
  w.run();
  CHECK(errors_of(w, o.hosts).empty());
  CHECK(w.finished() == o.hosts);
  CHECK(w.at(0).layouts.at(1).replicas.size() == 2);
  CHECK(w.at(0).layouts.at(12).replicas.size() == 3);
  for (std::uint32_t h = 1; h < o.hosts; ++h) {
    for (const auto& [step, layout] : w.at(h).layouts) CHECK(layout == w.at(0).layouts.at(step));
    CHECK(w.at(h).layouts.size() >= (h < 4 ? 12 : 3));
  }
  CHECK(w.distance(w.unsplit()) < 5e-4);  // twelve steps of AdamW amplify the order of sums
}

TEST_CASE("recovery: rerouting pipelines survive every kill", "[parallel][elastic][fast]") {
  elastic_world_options o;
  o.hosts = GENERATE(4U, 6U);  // of 2 stages
  o.micro_batches = 6;
  o.victim = GENERATE(0U, 3U);
  kill_through_the_run(o, stage::recovery::reroute{2}, 2 * founded, 12);  // six take longer to found it
}

TEST_CASE("recovery: a lost peer's micro-batches go to its twins, and no block moves", "[parallel][elastic][fast]") {
  elastic_world_options o;
  o.hosts = 6;
  o.layers = 6;
  o.micro_batches = 7;
  o.steps = 5;
  o.evaluations = 1;
  o.victim = GENERATE(0U, 1U, 2U, 3U, 4U, 5U);
  o.dies_at = 240;
  elastic_world w{o, with(stage::recovery::reroute{3})};
  w.wanted = 5;
  w.boot();
  w.run();
  CHECK(errors_of(w, o.hosts).empty());
  CHECK(w.finished() == 5);
  const auto whole = w.unsplit();
  CHECK(w.distance(whole) < 5e-5);
  for (std::uint32_t h = 0; h < o.hosts; ++h) {
    CHECK(w.at(h).received == 0);
    if (h == o.victim) continue;
    const stage::layout& last = w.at(h).layouts.at(o.steps);
    CHECK(last.replicas.size() == 2);
    CHECK(last.assigned().size() == 5);
    CHECK(w.at(h).evaluated.at(o.steps) == Approx(whole.evaluated).epsilon(1e-5));
  }
}

TEST_CASE("recovery: a peer that comes takes the stage that has nobody", "[parallel][elastic][fast]") {
  elastic_world_options o;
  o.steps = 20;
  o.victim = 2;
  o.dies_at = 180;
  o.back_after = std::chrono::milliseconds{200};
  elastic_world w{o, with(stage::recovery::reroute{2})};
  w.boot();
  w.run();
  CHECK(errors_of(w, o.hosts).empty());
  CHECK(w.finished() == o.hosts);
  std::size_t rerouted = 0;
  for (const auto& [step, layout] : w.at(0).layouts) rerouted += layout.has_unassigned() ? 1 : 0;
  CHECK(rerouted > 0);
  CHECK_FALSE(w.at(0).layouts.at(o.steps).has_unassigned());
  CHECK(w.distance(w.unsplit()) < 5e-4);  // as do twenty
}

TEST_CASE("recovery: when a stage's last peer is lost, all are laid out anew from what is saved",
          "[parallel][elastic][fast]") {
  elastic_world_options o;
  o.steps = 10;
  o.store_every = 2;
  std::function<void(std::uint32_t)> kill;
  std::uint32_t killed = 0;
  o.before_step = [&](std::uint32_t host, std::uint64_t step) {
    if (host == 0 && (step == 3 || step == 6)) kill(step == 3 ? 0 : 1);
  };
  elastic_world w{o, with(stage::recovery::reroute{2})};
  kill = [&](std::uint32_t nth) {  // the peers of the stage that host 0 does not have
    if (killed != nth) return;
    const auto* mine = w.last_assignment(0);
    for (std::uint32_t h = 1; h < o.hosts; ++h) {
      const auto* assignment = w.last_assignment(h);
      if (killed != nth || assignment->computes == mine->computes) continue;
      if (w.at(h).layouts.rbegin()->first + 1 < w.at(0).layouts.rbegin()->first) continue;  // dead already
      ++killed;
      w.world().after(std::chrono::milliseconds{1}, [&, h] { w.world().kill(h); });
    }
  };
  w.wanted = 2;
  w.boot();
  w.run();
  CHECK(killed == 2);
  CHECK(errors_of(w, o.hosts).empty());
  CHECK(w.finished() == 2);
  CHECK(w.at(0).went_back == 1);
  CHECK(w.at(0).layouts.at(o.steps).replicas.size() == 1);
  CHECK(w.distance(w.unsplit()) < 5e-5);
}

}  // namespace causeway
