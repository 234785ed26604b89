// SPDX-License-Identifier: Apache-2.0
// Protocol Models in a simulated swarm: what crosses between stages is coordinates in a subspace, and whoever computes
// what, the swarm comes to the confined model, unsplit.
#include <causeway/parallel/swarm.hpp>

#include <causeway/comm/periodic.hpp>
#include <causeway/optim/nesterov.hpp>
#include <causeway/presets/subspaces.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "parallel/swarm/swarm_world.hpp"
#include "support/catch.hpp"
#include "support/swarm_gpt.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

constexpr presets::protocol_models_options space{.rank = 4, .seed = 7};

stage::subspace_adamw confine(nn::gpt& model) { return std::move(*presets::confined_adamw(space, model)); }

/// The small GPT, in the subspace.
struct confined_job : support::gpt_job {
  [[nodiscard]] nn::gpt make(nn::model_part part, const support::block_seconds& = {}) const {
    auto model = gpt_job::make(std::move(part));
    confine(model);
    return model;
  }
};

struct confined_steps {
  template <class Codec, class Router, class Model, class Body>
  static result<void> take(support::swarm_seat seat, Router router, Model model, const support::swarm_schedule& s,
                           Body&& body) {
    auto inner = confine(model);
    const auto make = [&](std::shared_ptr<parallel::swarm_peer> peer, environment env, const trainer_options& to,
                          const auto& fault) {
      return make_trainer(std::move(model), std::move(env), to, comm::every_step<>{}, std::move(inner), fault,
                          parallel::swarm<Codec>{std::move(peer), Codec{{.rank = space.rank, .seed = space.seed}}});
    };
    return support::take_seat_with(std::move(seat), std::move(router), s, make, std::forward<Body>(body));
  }
};

/// Local steps of one peer in each stage: its exchange is with itself.
struct confined_local_steps {
  template <class Codec, class Router, class Model, class Body>
  static result<void> take(support::swarm_seat seat, Router router, Model model, const support::swarm_schedule& s,
                           Body&& body) {
    auto inner = confine(model);
    const auto make = [&](std::shared_ptr<parallel::swarm_peer> peer, environment env, const trainer_options& to,
                          const auto& fault) {
      return make_trainer(
          std::move(model), std::move(env), to,
          comm::periodic<>{{.local_steps = s.local_steps, .outer_learning_rate = 1}, optim::nesterov{{.momentum = 0}}},
          std::move(inner), fault,
          parallel::swarm<Codec>{std::move(peer), Codec{{.rank = space.rank, .seed = space.seed}}});
    };
    return support::take_seat_with(std::move(seat), std::move(router), s, make, std::forward<Body>(body));
  }
};

template <class Seat>
using confined_world = support::swarm_world<stage::routing::least_load, confined_job, stage::subspace<>, Seat>;

// No clipping: the norm of what lies outside of the subspace differs, and is thrown away later.
support::swarm_world_options small() {
  support::swarm_world_options o{.speeds = {{1, 1}, {1, 1, 1}, {1}}, .steps = 4, .blocks_per_stage = 1};
  o.evaluations = 1;
  return o;
}

support::swarm_reference unsplit(const support::swarm_world_options& o) {
  const support::swarm_schedule s{o.steps, o.micro_batches, o.seed, o.rate};
  const confined_job job{{static_cast<std::int64_t>(o.speeds.size())}};
  auto model = job.make({});
  return support::unsplit(job, s, SIZE_MAX, confine(model));
}

template <class World>
void check_like_unsplit(World& swarm, const support::swarm_world_options& o, std::uint32_t except = support::nobody) {
  const auto want = unsplit(o);
  CHECK(want.losses.back() < want.losses.front());
  for (std::uint32_t h = 0; h < swarm.hosts(); ++h) {
    if (h == except) continue;
    INFO("host " << h << ": " << swarm.at(h).error);
    REQUIRE(swarm.at(h).finished);
    CHECK(swarm.distance(h, want) < 5e-5);
  }
}

}  // namespace

TEST_CASE("swarm in a subspace: it is the confined GPT, unsplit, and a boundary carries rank of width values",
          "[parallel][fast]") {
  const auto o = small();
  confined_world<confined_steps> swarm{o};
  swarm.boot();
  swarm.run(2min);
  check_like_unsplit(swarm, o);
  support::swarm_world<stage::routing::least_load, support::gpt_job> whole{o};
  whole.boot();
  whole.run(2min);
  std::uint64_t few = 0, all = 0;
  for (std::uint32_t h = 0; h < swarm.hosts(); ++h) few += swarm.at(h).bytes, all += whole.at(h).bytes;
  // 16 tokens a micro-batch; 8 of them over 2 boundaries, both ways, in 4 steps.
  CHECK(all - few > std::uint64_t{9} * 16 * (16 - 4) * 4 * 8 * 2 * 2 * 4 / 10);
}

TEST_CASE("swarm in a subspace: whoever is killed, what it had is computed again", "[parallel][fast]") {
  auto o = small();
  o.victim = GENERATE(1U, 3U);
  o.once_committed = true;
  for (const std::uint64_t call : {20U, 60U, 100U, 140U, 180U}) {
    o.dies_at = call;
    CAPTURE(o.victim, call);
    confined_world<confined_steps> swarm{o};
    swarm.wanted = swarm.hosts() - 1;
    swarm.boot();
    swarm.run(2min);
    REQUIRE_FALSE(swarm.at(o.victim).finished);
    check_like_unsplit(swarm, o, o.victim);
  }
}

TEST_CASE("swarm in a subspace: stages of one peer that take local steps are the confined GPT", "[parallel][fast]") {
  auto o = small();
  o.speeds = {{1}, {1}};
  o.local_steps = 2;
  o.evaluations = 0;
  confined_world<confined_local_steps> swarm{o};
  swarm.boot();
  swarm.run(2min);
  check_like_unsplit(swarm, o);
}
