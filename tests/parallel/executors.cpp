// SPDX-License-Identifier: Apache-2.0
#include <causeway/train/pipeline_executors.hpp>
#include <causeway/train/swarm_executors.hpp>

#include <causeway/comm/every_step.hpp>
#include <causeway/comm/rounds.hpp>
#include <causeway/compress/block_int8.hpp>
#include <causeway/stage/recovery_redundant.hpp>
#include <causeway/train/trainer.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "parallel/elastic/elastic_world.hpp"
#include "support/catch.hpp"
#include "support/models.hpp"

namespace causeway {

using redundant = stage::recovery::redundant;
using int8 = stage::coded<compress::block_int8>;

namespace {

bool says(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

template <class... Policies>
using runs = std::remove_cvref_t<decltype(std::declval<trainer<nn::gpt, Policies...>&>().parallel())>;

// What exchanges gradients, and what lets peers take steps of their own.
static_assert(std::is_same_v<runs<parallel::pipeline<>, fault::quorum<>, comm::every_step<>>,
                             parallel::elastic_pipeline<stage::recovery::regroup>>);
static_assert(std::is_same_v<runs<parallel::pipeline<stage::gpipe, int8>, fault::quorum<redundant>, comm::every_step<>>,
                             parallel::elastic_pipeline<redundant, stage::gpipe, int8>>);
static_assert(std::is_same_v<runs<parallel::pipeline<>, fault::quorum<>, comm::rounds<>>,
                             parallel::local_pipeline<stage::recovery::regroup>>);
static_assert(
    std::is_same_v<runs<parallel::async_pipeline<>, fault::quorum<>, comm::rounds<>>, parallel::local_async_pipeline<>>);
static_assert(std::is_same_v<runs<parallel::swarm<>, fault::quorum<>, comm::every_step<>>, parallel::swarm<>>);
static_assert(std::is_same_v<runs<parallel::swarm<int8>, fault::quorum<>>, parallel::local_swarm<int8>>);
// With a fixed set of peers, and where all hold everything, a parallelism runs itself.
static_assert(std::is_same_v<runs<parallel::pipeline<>>, parallel::pipeline<>>);
static_assert(std::is_same_v<runs<fault::quorum<>>, parallel::data_parallel>);

/// What peers of elastic_world train with.
template <class Make>
auto in_world(Make make) {
  return [make](const support::elastic_world_options& o, const std::shared_ptr<pipeline_group>& group, environment env,
                const parallel::elastic_pipeline_options& blocks) {
    if (group) env.group = group;
    trainer_options to;
    to.learning_rate = optim::constant{0.01F};
    to.clip_norm = o.clip_norm;
    auto model = nn::gpt::create(support::small_gpt(o.layers), kernels::cpu_backend{1}, nn::model_part{{0, 1}});
    auto trainer = make(std::move(*model), std::move(env), to, blocks);
    return std::make_unique<support::elastic_peer_of<decltype(trainer)>>(std::move(trainer));
  };
}

TEST_CASE("executors: parallel::pipeline under fault::quorum trains as the unsplit model, a peer lost or not",
          "[parallel][elastic][fast]") {
  support::elastic_world_options o;
  o.plain_member = GENERATE(true, false);
  o.store_every = 1;
  o.victim = GENERATE(UINT32_MAX, 1U);
  o.dies_at = 300;
  support::any_elastic_world w{
      o, in_world(
             [](auto model, environment env, const trainer_options& to, const parallel::elastic_pipeline_options& blocks) {
               return make_trainer(std::move(model), std::move(env), to, comm::every_step<>{},
                                   parallel::pipeline<>{{.micro_batches = blocks.micro_batches}},
                                   fault::quorum{redundant{2}, {.storage = blocks.storage, .store_every = 1}});
             })};
  w.wanted = 3;
  w.boot();
  w.run();
  CHECK(support::errors_of(w, o.hosts).empty());
  CHECK(w.finished() >= 3);
  CHECK(w.distance(w.unsplit()) < 5e-5);
}

TEST_CASE("executors: a placement given beside a recovery is refused, and says what to give instead",
          "[parallel][elastic][fast]") {
  const auto refused = [](parallel::pipeline_options options, auto fault) {
    auto model = nn::gpt::create(support::small_gpt(2), kernels::cpu_backend{1});
    auto t = make_trainer(std::move(*model), environment{}, trainer_options{}, comm::every_step<>{},
                          parallel::pipeline<>{std::move(options)}, std::move(fault));
    const auto started = t.start();
    REQUIRE(!started);
    return started.error().text();
  };
  CHECK(says(refused({.cuts = {1}}, fault::quorum{}), "leave out pipeline_options::placement"));
  CHECK(says(refused({.ranks = 2}, fault::quorum{redundant{2}}), "number of stages to the recovery"));
  CHECK(says(refused({.ranks = 2}, fault::quorum{}), "member"));
}

}  // namespace
}  // namespace causeway
