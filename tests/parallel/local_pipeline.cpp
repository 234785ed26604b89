// SPDX-License-Identifier: Apache-2.0
// Pipelines whose replicas take steps of their own, with peers that are killed, come, and come back.
#include <causeway/parallel/local_pipeline.hpp>

#include <causeway/presets/local_updates.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "parallel/elastic/local_pipeline_world.hpp"
#include "parallel/elastic/newcomers.hpp"
#include "support/catch.hpp"

using namespace causeway;
using support::elastic_world_options;
using support::local_world;
using support::parameters;
using support::two_pipelines;
using support::undisturbed;

namespace {

/// DiLoCo of two whole models, by hand.
parameters by_hand(const elastic_world_options& o) {
  std::vector<float> velocity;
  return support::two_models_by_hand(o, [&](std::uint64_t steps, parameter_store& shared, const auto& models) {
    if (steps % support::steps_of_round != 0) return;
    const auto values = shared.values();
    velocity.resize(values.size(), 0.0F);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float moved = values[i] - (models[0][i] + models[1][i]) / 2;
      velocity[i] = 0.9F * velocity[i] + moved;
      models[0][i] = models[1][i] = values[i] -= 0.7F * (moved + 0.9F * velocity[i]);
    }
  });
}

}  // namespace

TEST_CASE("local pipeline: two pipelines make DiLoCo of two whole models", "[parallel][elastic][fast]") {
  const auto o = two_pipelines();
  CHECK(support::off(undisturbed<presets::diloco_options>(o), by_hand(o), o.layers) < 1e-4);
}

TEST_CASE("local pipeline: the run goes on, whoever is killed at whichever network call", "[parallel][elastic][fast]") {
  support::goes_on_whoever_is_killed<presets::diloco_options>(7, 0.03);
}
TEST_CASE("local pipeline: and at every single one of them", "[parallel][elastic][slow]") {
  support::goes_on_whoever_is_killed<presets::diloco_options>(1, 0.03);
}

TEST_CASE("local pipeline: a peer may come in every step", "[parallel][elastic][fast]") {
  support::lets_newcomers_in<presets::diloco_options>();
}

TEST_CASE("local pipeline: a peer that rests takes the place of one that is lost, and the round is made whole",
          "[parallel][elastic][fast]") {
  const auto o = two_pipelines();
  support::spare_peers_take_over<presets::diloco_options>(o, 330, 17, [&](const parameters& all, const parameters& quiet) {
    CHECK(support::off(all, quiet, o.layers) < 0.4);  // with other moments
  });
}

TEST_CASE("local pipeline: all peers are stopped within a round, and go on from checkpoints with the same bits",
          "[parallel][elastic][fast]") {
  support::goes_on_from_checkpoints<presets::diloco_options>();
}

TEST_CASE("local pipeline: a run whose peers are all stopped goes on from the blocks that are saved",
          "[parallel][elastic][fast]") {
  auto o = two_pipelines();
  o.steps = 15;
  const parameters quiet = undisturbed<presets::diloco_options>(o);
  o.store_every = GENERATE(1U, 2U);
  o.own_storages = GENERATE(false, true);
  support::any_elastic_world* all = nullptr;
  bool stopped = false;
  o.before_step = [&](std::uint32_t host, std::uint64_t step) {
    if (host != 2 || step != 10 || std::exchange(stopped, true)) return;
    for (std::uint32_t h = 0; h < o.hosts; ++h) {
      all->world().after(std::chrono::milliseconds{1}, [&, h] { all->world().kill(h); });
      all->world().after(std::chrono::seconds{5}, [&, h] { all->world().restart(h); });
    }
  };
  local_world<presets::diloco_options> w{o};
  all = &w;
  w.boot();
  w.run();
  CHECK(stopped);
  CHECK(support::errors_of(w, o.hosts).empty());
  REQUIRE(w.finished() == 4);
  // The store has the moments of one replica for both.
  CHECK(support::off(support::holders_agree(w, o.hosts), quiet, o.layers) < 0.4);
}

TEST_CASE("local pipeline: a stage that nobody has any more is had again from what is saved", "[parallel][elastic][fast]") {
  // One pipeline makes each step once from each state, whoever is lost.
  support::lost_stages_come_back<presets::diloco_options>(7);
}

TEST_CASE("local pipeline: each replica evaluates its own parameters, and losing a peer ends no evaluation",
          "[parallel][elastic][fast]") {
  auto o = two_pipelines();
  o.evaluations = 2;
  o.victim = GENERATE(0U, 3U);
  for (o.dies_at = (o.victim == 0 ? 3 : 1) * support::founded; o.dies_at < 550; o.dies_at += 13) {
    INFO("host " << o.victim << " is killed at call " << o.dies_at);
    local_world<presets::diloco_options> w{o};
    w.wanted = 3;
    w.boot();
    w.run();
    CHECK(support::errors_of(w, o.hosts).empty());
    CHECK(w.finished() >= 3);
    support::holders_agree(w, o.hosts);
    const auto& of = w.at(1).evaluated;
    for (const auto& [step, loss] : of) CHECK((loss > 2 && loss < 5));
  }
}

TEST_CASE("local pipeline: who comes back when the others are through goes without the last evaluation",
          "[parallel][elastic][fast]") {
  auto o = two_pipelines();
  o.evaluations = 1;
  o.through_is_told = true;
  support::any_elastic_world* all = nullptr;
  bool lost = false;
  o.before_step = [&](std::uint32_t host, std::uint64_t step) {
    if (host != 2 || step + 1 != o.steps || std::exchange(lost, true)) return;
    all->world().after(std::chrono::milliseconds{1}, [&] { all->world().kill(2); });
    all->world().after(std::chrono::minutes{5}, [&] { all->world().restart(2); });
  };
  local_world<presets::diloco_options> w{o};
  all = &w;
  w.boot();
  w.run();
  CHECK(support::errors_of(w, o.hosts).empty());
  CHECK(w.finished() == o.hosts);
  CHECK(w.at(2).missed > 0);
}

TEST_CASE("local pipeline: a peer whose values are not finite loses its round, not the run", "[parallel][elastic][fast]") {
  auto o = two_pipelines();
  o.steps = 15;
  const std::uint32_t spoilt = GENERATE(0U, 2U);
  const std::uint64_t when = GENERATE(3U, 5U);
  bool done = false;
  o.spoils = [&](std::uint32_t host, std::uint64_t step, parameter_store& store) {
    if (host == spoilt && step == when && !std::exchange(done, true)) store.values()[0] = NAN;
  };
  local_world<presets::diloco_options> w{o};
  w.boot();
  w.run();
  CHECK(done);
  CHECK(support::errors_of(w, o.hosts).empty());
  CHECK(w.finished() == 4);
  support::holders_agree(w, o.hosts);
}
