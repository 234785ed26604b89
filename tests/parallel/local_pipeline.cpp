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
#include "support/catch.hpp"

using namespace causeway;
using support::elastic_world_options;
using support::local_world;
using support::parameters;
using support::two_pipelines;
using support::undisturbed;

namespace {

/// Two whole models with the halves of each batch, by hand.
parameters by_hand(const elastic_world_options& o) {
  const auto model = [&] { return *nn::gpt::create(support::small_gpt(o.layers), kernels::cpu_backend{1}); };
  trainer_options to;
  to.learning_rate = optim::constant{0.01F};
  to.clip_norm = o.clip_norm;
  const auto alone = [&] {
    return make_trainer(model(), environment{}, to, comm::every_step<>{}, optim::adamw{},
                        parallel::data_parallel{{.micro_batches = 2}});
  };
  auto first = alone(), second = alone();
  REQUIRE((first.start() && second.start()));
  auto shared = model();
  const auto values = shared.parameters().values();
  std::vector<float> velocity(values.size(), 0.0F);
  for (std::uint64_t s = 0; s < o.steps; ++s) {
    const support::token_batch b{0, s, o.micro_batches};
    REQUIRE((first.step(b.view().slice(0, 2)) && second.step(b.view().slice(2, 2))));
    if ((s + 1) % support::steps_of_round != 0) continue;
    const auto one = first.context().parameters(), two = second.context().parameters();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float moved = values[i] - (one[i] + two[i]) / 2;
      velocity[i] = 0.9F * velocity[i] + moved;
      one[i] = two[i] = values[i] -= 0.7F * (moved + 0.9F * velocity[i]);
    }
    first.context().parameters_changed();
    second.context().parameters_changed();
  }
  parameters all;
  support::detail::collect(shared.parameters(), all);
  return all;
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
  auto o = two_pipelines();
  o.hosts = 5;
  const parameters quiet = undisturbed<presets::diloco_options>(o);
  std::uint64_t given_up = 0;
  for (std::uint32_t victim = 0; victim < 5; ++victim) {
    for (std::uint64_t n = 200; n < 330; n += 17) {
      INFO("host " << victim << " is killed at call " << n);
      o.victim = victim;
      o.dies_at = n;
      local_world<presets::diloco_options> w{o};
      w.wanted = 4;
      w.boot();
      w.run();
      CHECK(support::errors_of(w, o.hosts).empty());
      CHECK(w.finished() >= 4);
      CHECK(support::off(support::holders_agree(w, o.hosts), quiet, o.layers) < 0.4);  // with other moments
      for (std::uint32_t h = 0; h < 5; ++h) given_up += w.at(h).resumed;
      for (const auto& [step, layout] : w.at(victim == 0 ? 1 : 0).layouts) CHECK(layout.replicas.size() == 2);
    }
  }
  CHECK(given_up > 0);
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
  auto o = two_pipelines();
  o.hosts = 3;
  o.steps = 15;
  o.store_every = 1;
  const parameters quiet = undisturbed<presets::diloco_options>(o);
  std::uint64_t went_back = 0;
  for (std::uint32_t victim = 0; victim < 3; ++victim) {
    for (std::uint64_t n = support::founded + (victim == 0 ? 70 : 0);; n += 7) {
      INFO("host " << victim << " is killed at call " << n);
      o.victim = victim;
      o.dies_at = n;
      local_world<presets::diloco_options> w{o};
      w.wanted = 2;
      w.boot();
      w.run();
      if (w.at(victim).losses.contains(o.steps - 1)) break;  // others may have ended the run by then, without its blocks
      CHECK(support::errors_of(w, o.hosts).empty());
      for (std::uint32_t h = 0; h < 3; ++h) went_back += w.at(h).went_back;
      CHECK(w.finished() >= 2);
      // One pipeline makes each step once from each state, whoever is lost: the very same run.
      CHECK(support::off(support::holders_agree(w, o.hosts), quiet, o.layers) == 0);
    }
  }
  CHECK(went_back > 0);
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
