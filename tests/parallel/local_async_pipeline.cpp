// SPDX-License-Identifier: Apache-2.0
// Pipelines without a flush between two exchanges, with peers that are killed, come, and come back.
#include <causeway/parallel/local_async_pipeline.hpp>

#include <causeway/axis/content.hpp>
#include <causeway/comm/periodic.hpp>
#include <causeway/comm/rounds.hpp>
#include <causeway/parallel/async_pipeline.hpp>
#include <causeway/presets/local_updates.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "parallel/elastic/late_model.hpp"
#include "parallel/elastic/local_pipeline_spares.hpp"
#include "parallel/elastic/local_pipeline_world.hpp"
#include "parallel/elastic/newcomers.hpp"
#include "support/catch.hpp"
#include "support/cluster.hpp"

using namespace causeway;
using support::elastic_world_options;
using support::local_world;
using support::parameters;
using support::steps_of_round;
using support::two_pipelines;
using support::undisturbed;

namespace {

template <class Options>
struct streamed : Options {
  using pipeline = parallel::local_async_pipeline<>;
};
using diloco = streamed<presets::diloco_options>;
/// What one replica exchanges is what it has.
struct means_of_parameters {
  using pipeline = parallel::local_async_pipeline<>;
  [[nodiscard]] static auto policy() {
    return comm::rounds{axis::every{steps_of_round}, axis::parameters{}, axis::split_mean<>{}};
  }
};

/// Three stages, the first of which has four micro-batches in flight, and goes back with the parameters of then.
struct deep : presets::diloco_options {
  static auto pipelines(parallel::local_pipeline_options po) {
    return parallel::local_async_pipeline<>{std::move(po), stage::recovery::regroup{3},
                                            parallel::streamed_steps{{.stashing = false, .ahead = 1}}};
  }
};
elastic_world_options two_deep_pipelines() {
  auto o = two_pipelines();
  o.hosts = 6;
  o.layers = 3;
  return o;
}

elastic_world_options one_pipeline(std::int64_t micro_batches) {
  auto o = two_pipelines();
  o.hosts = 2;
  o.micro_batches = micro_batches;
  o.clip_norm = 0;
  return o;
}

/// The parameters that a fixed asynchronous pipeline has after the first `steps` batches have come back to each stage.
parameters fixed_pipeline(const elastic_world_options& o, std::uint64_t steps) {
  std::array<parameters, 2> of_rank;
  support::run_cluster(2, [&](std::uint32_t peer, environment env) {
    const parallel::async_pipeline_options po{.cut = {.micro_batches = o.micro_batches, .ranks = 2}};
    const auto place = parallel::place_in(po.cut, peer, 2).value();
    const auto part = parallel::part_of(po.cut, place, o.layers).value();
    trainer_options to;
    to.learning_rate = optim::constant{0.01F};
    to.clip_norm = o.clip_norm;
    auto t =
        make_trainer(nn::gpt::create(support::small_gpt(o.layers), kernels::cpu_backend{1}, part).value(), std::move(env),
                     to, comm::periodic<>{{.local_steps = 1000}}, optim::adamw{}, parallel::async_pipeline<>{po});
    support::detail::check(t.start());
    for (std::uint64_t s = 0; s <= steps; ++s) {
      if (s == steps + (peer == 0 ? 1 : 0)) support::detail::collect(t.model().parameters(), of_rank[peer]);
      const support::token_batch b{0, s, o.micro_batches};
      (void)*support::detail::valued(t.step(b.view()));
    }
    if (peer == 0) support::detail::collect(t.model().parameters(), of_rank[peer]);
  });
  of_rank[0].merge(of_rank[1]);
  return of_rank[0];
}

/// DiLoCo of two such models.
parameters by_hand(const elastic_world_options& o) {
  const std::int64_t part = o.micro_batches / 2;
  std::array<support::late_model, 2> models{support::late_model{o, part}, support::late_model{o, part}};
  std::vector<float> shared = models[0].now, velocity(shared.size(), 0.0F);
  for (std::uint64_t s = 0; s < o.steps; ++s) {
    const support::token_batch b{0, s, o.micro_batches};
    const bool is_last = (s + 1) % steps_of_round == 0;
    for (std::size_t m = 0; m < 2; ++m) models[m].step(b.view().slice(static_cast<std::int64_t>(m) * part, part), is_last);
    if (!is_last) continue;
    for (std::size_t i = 0; i < shared.size(); ++i) {
      const float moved = shared[i] - (models[0].now[i] + models[1].now[i]) / 2;
      velocity[i] = 0.9F * velocity[i] + moved;
      models[0].now[i] = models[1].now[i] = shared[i] -= 0.7F * (moved + 0.9F * velocity[i]);
    }
  }
  return models[0].named();
}

}  // namespace

TEST_CASE("local async pipeline: a drained round has the bits of the fixed pipeline's first steps",
          "[parallel][elastic][fast]") {
  auto o = one_pipeline(1);
  o.steps = steps_of_round;
  CHECK(support::off(undisturbed<means_of_parameters>(o), fixed_pipeline(o, o.steps), o.layers) == 0);
}

TEST_CASE("local async pipeline: two pipelines make DiLoCo of two models whose first half is a micro-batch late",
          "[parallel][elastic][fast]") {
  auto o = two_pipelines();
  o.micro_batches = GENERATE(2, 4);
  o.clip_norm = 0;
  CHECK(support::off(undisturbed<diloco>(o), by_hand(o), o.layers) < 1e-4);
}

TEST_CASE("local async pipeline: the run goes on, whoever is killed at whichever network call",
          "[parallel][elastic][fast]") {
  support::goes_on_whoever_is_killed<diloco>(11, 0.03);
}
TEST_CASE("local async pipeline: and at every single one of them", "[parallel][elastic][slow][every_call]") {
  support::goes_on_whoever_is_killed<diloco>(1, 0.03);
}

TEST_CASE("local async pipeline: who rests may be lost at any time, and nobody loses anything",
          "[parallel][elastic][fast]") {
  support::nobody_loses_anything<diloco>(two_pipelines(), 2);
  support::nobody_loses_anything<deep>(two_deep_pipelines(), 2);
}

TEST_CASE("local async pipeline: deep ones go on, whoever is killed", "[parallel][elastic][slow][every_call]") {
  support::goes_on_whoever_is_killed<deep>(7, 0.05, two_deep_pipelines());
}

TEST_CASE("local async pipeline: a peer may come in every step", "[parallel][elastic][fast]") {
  support::lets_newcomers_in<diloco>();
}

TEST_CASE("local async pipeline: a peer that rests takes the place of one that is lost, and the round is made whole",
          "[parallel][elastic][fast]") {
  const auto o = two_pipelines();
  support::spare_peers_take_over<diloco>(o, 330, 37, [&](const parameters& all, const parameters& quiet) {
    CHECK(support::off(all, quiet, o.layers) < 0.4);  // with other moments
  });
}

TEST_CASE("local async pipeline: a stage that nobody has any more is had again from what is saved",
          "[parallel][elastic][fast]") {
  support::lost_stages_come_back<diloco>(23);
}

TEST_CASE("local async pipeline: all peers are stopped, and go on from checkpoints", "[parallel][elastic][fast]") {
  const auto o = two_pipelines();
  const parameters quiet = undisturbed<diloco>(o);
  const std::uint64_t step = GENERATE(3U, 5U);
  INFO("all are stopped after step " << step);
  support::local_checkpoints saved{.after = step};
  local_world<diloco> w{o, &saved};
  support::stop_all_once_saved(w, saved);
  CHECK(support::errors_of(w, o.hosts).empty());
  REQUIRE(w.finished() == o.hosts);
  const parameters all = support::holders_agree(w, o.hosts);
  if (step % steps_of_round == 0) CHECK(all == quiet);
  if (step % steps_of_round != 0) CHECK(support::off(all, quiet, o.layers) < 0.4);  // without what was in flight
}

TEST_CASE("local async pipeline: losing a peer ends no evaluation", "[parallel][elastic][fast]") {
  auto o = two_pipelines();
  o.evaluations = 2;
  o.victim = GENERATE(0U, 3U);
  for (o.dies_at = (o.victim == 0 ? 3 : 1) * support::founded; o.dies_at < 550; o.dies_at += 29) {
    INFO("host " << o.victim << " is killed at call " << o.dies_at);
    local_world<diloco> w{o};
    w.wanted = 3;
    w.boot();
    w.run();
    CHECK(support::errors_of(w, o.hosts).empty());
    CHECK(w.finished() >= 3);
    support::holders_agree(w, o.hosts);
    for (const auto& [step, loss] : w.at(1).evaluated) CHECK((loss > 2 && loss < 5));
  }
}

TEST_CASE("local async pipeline: a peer whose values are not finite loses its round, not the run",
          "[parallel][elastic][fast]") {
  auto o = two_pipelines();
  o.steps = 15;
  const std::uint32_t spoilt = GENERATE(0U, 2U);
  const std::uint64_t when = GENERATE(3U, 5U);
  bool done = false;
  o.spoils = [&](std::uint32_t host, std::uint64_t step, parameter_store& store) {
    if (host == spoilt && step == when && !std::exchange(done, true)) store.values()[0] = NAN;
  };
  local_world<diloco> w{o};
  w.boot();
  w.run();
  CHECK(done);
  CHECK(support::errors_of(w, o.hosts).empty());
  CHECK(w.finished() == 4);
  support::holders_agree(w, o.hosts);
}
