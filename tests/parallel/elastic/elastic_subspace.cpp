// SPDX-License-Identifier: Apache-2.0
// Protocol Models among peers that come and go: what crosses between stages is coordinates in a subspace, and whoever is
// killed, the run comes to the confined model, unsplit.
#include <causeway/parallel/elastic_pipeline.hpp>
#include <causeway/parallel/local_pipeline.hpp>

#include <causeway/presets/local_updates.hpp>
#include <causeway/presets/subspaces.hpp>
#include <causeway/stage/recovery_redundant_forward.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "parallel/elastic/elastic_world.hpp"
#include "parallel/elastic/local_pipeline_world.hpp"
#include "support/catch.hpp"

namespace causeway {
namespace {

using support::elastic_world_options;
using support::errors_of;
using support::founded;

constexpr presets::protocol_models_options space{.rank = 4, .seed = 7};

// No clipping: the norm of what lies outside of the subspace differs, and is thrown away later.
elastic_world_options confined_run() {
  elastic_world_options o;
  o.clip_norm = 0;
  return o;
}

trainer_options quiet_rate() {
  trainer_options to;
  to.learning_rate = optim::constant{0.01F};
  to.clip_norm = 0;
  return to;
}

// What a peer begins with: the first block, confined.
nn::gpt confined(std::int64_t layers, std::uint64_t seed, stage::subspace_adamw& inner) {
  auto model = nn::gpt::create(support::small_gpt(layers), kernels::cpu_backend{1}, nn::model_part{{0, 1}});
  model->initialize(seed);
  inner = *presets::confined_adamw(space, *model);
  return std::move(*model);
}

stage::subspace<> coordinates() { return stage::subspace<>{{.rank = space.rank, .seed = space.seed}}; }

// The models of every other one begin with `odd_seed`.
template <class Recovery>
auto confined_peers(Recovery recovery, std::uint64_t odd_seed = 0) {
  const auto made = std::make_shared<std::uint64_t>(0);
  return [recovery, odd_seed, made](const elastic_world_options& o, const std::shared_ptr<pipeline_group>& group,
                                    environment env,
                                    parallel::elastic_pipeline_options po) -> std::unique_ptr<support::elastic_peer> {
    stage::subspace_adamw inner{{}, {}};
    auto model = confined(o.layers, (*made)++ % 2 * odd_seed, inner);
    env.group = group;
    auto trainer = make_trainer(std::move(model), std::move(env), quiet_rate(), comm::every_step<>{}, std::move(inner),
                                fault::quorum{},
                                parallel::elastic_pipeline<Recovery, stage::one_f_one_b, stage::subspace<>>{
                                    std::move(po), recovery, stage::one_f_one_b{}, coordinates()});
    return std::make_unique<support::elastic_peer_of<decltype(trainer)>>(std::move(trainer));
  };
}

// One replica of two stages, whose exchange is with itself.
std::unique_ptr<support::elastic_peer> lone_pipeline(const elastic_world_options& o,
                                                     const std::shared_ptr<pipeline_group>& group, environment env,
                                                     const parallel::elastic_pipeline_options& e) {
  stage::subspace_adamw inner{{}, {}};
  auto model = confined(o.layers, 0, inner);
  env.group = group;
  auto trainer = make_trainer(std::move(model), std::move(env), quiet_rate(),
                              make(presets::local_sgd_options{.local_steps = 2}), std::move(inner), fault::quorum{},
                              parallel::local_pipeline<stage::recovery::regroup, stage::one_f_one_b, stage::subspace<>>{
                                  {e.micro_batches, e.storage, e.folder, e.store_every, o.steps},
                                  stage::recovery::regroup{2},
                                  stage::one_f_one_b{},
                                  coordinates()});
  return std::make_unique<support::local_peer_of<decltype(trainer)>>(std::move(trainer));
}

support::trained_model unsplit(const elastic_world_options& o) {
  const support::pipeline_case c{
      .ranks = 1, .micro_batches = o.micro_batches, .sequences = o.micro_batches, .steps = o.steps};
  support::trained_model out;
  support::run_cluster(1, [&](std::uint32_t, environment env) {
    auto model = nn::gpt::create(support::small_gpt(o.layers), kernels::cpu_backend{1});
    auto inner = presets::confined_adamw(space, *model);
    auto t = make_trainer(std::move(*model), std::move(env), quiet_rate(), comm::every_step<>{}, std::move(*inner),
                          parallel::data_parallel{{.micro_batches = c.micro_batches}});
    support::detail::train_and_note(t, c, 0, true, out);
    support::detail::collect(t.model().parameters(), out.parameters);
  });
  return out;
}

template <class Recovery>
void kill_through(const elastic_world_options& o, const Recovery& recovery, std::uint64_t kills) {
  const auto make = [&](const elastic_world_options& with) {
    return support::any_elastic_world{with, confined_peers(recovery)};
  };
  support::worlds_come_to(unsplit(o), o, make, founded, kills);
}

}  // namespace

TEST_CASE("elastic pipelines in a subspace: a peer killed at any network call costs nothing that was committed",
          "[parallel][elastic][fast]") {
  auto o = confined_run();
  o.victim = GENERATE(0U, 3U);
  kill_through(o, stage::recovery::regroup{2}, 40);
}

TEST_CASE("elastic pipelines in a subspace: a step that is gone on with knows the embedding, too",
          "[parallel][elastic][fast]") {
  auto o = confined_run();
  o.victim = GENERATE(1U, 2U);
  kill_through(o, stage::recovery::redundant_forward{2}, 20);
}

TEST_CASE("elastic pipelines in a subspace: a peer that comes late learns it from the seed", "[parallel][elastic][fast]") {
  auto o = confined_run();
  o.steps = 6;
  o.late = {3};
  support::any_elastic_world* all = nullptr;
  bool came = false;
  o.before_step = [&](std::uint32_t, std::uint64_t step) {
    if (step == 2 && !std::exchange(came, true)) all->boot(3);
  };
  support::any_elastic_world w{o, confined_peers(stage::recovery::regroup{2})};
  all = &w;
  w.boot();
  w.run();
  CHECK(errors_of(w, o.hosts).empty());
  CHECK(w.finished() == o.hosts);
  CHECK(w.at(3).received > 0);
  CHECK(w.distance(unsplit(o)) < 5e-5);
}

TEST_CASE("elastic pipelines in a subspace: a replica that takes local steps is the confined model",
          "[parallel][elastic][fast]") {
  auto o = confined_run();
  o.hosts = 2;
  support::any_elastic_world w{o, lone_pipeline};
  w.boot();
  w.run();
  CHECK(errors_of(w, o.hosts).empty());
  CHECK(w.finished() == o.hosts);
  CHECK(w.distance(unsplit(o)) < 5e-5);
}

TEST_CASE("elastic pipelines in a subspace: peers whose models began with other seeds are not of one run",
          "[parallel][elastic][fast]") {
  auto o = confined_run();
  o.steps = 2;
  support::any_elastic_world w{o, confined_peers(stage::recovery::regroup{2}, 5)};
  w.boot();
  w.run(std::chrono::minutes{2});
  CHECK(w.finished() == 0);
  CHECK_FALSE(errors_of(w, o.hosts).empty());
}

}  // namespace causeway
