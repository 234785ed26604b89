// SPDX-License-Identifier: Apache-2.0
#include <causeway/presets/swarms.hpp>

#include <causeway/comm/every_step.hpp>
#include <causeway/fault/quorum.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/sim/world.hpp>
#include <causeway/train/member.hpp>
#include <causeway/train/trainer.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/swarm_seat.hpp"
#include "support/traced_runs.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

struct trained {
  support::named_parameters parameters;
  std::vector<double> losses;
};

template <class Options>
auto steps_of(const Options& o) {
  if constexpr (std::is_same_v<Options, presets::diloco_swarm_options>) {
    return presets::rounds_of(o);
  } else {
    return comm::every_step<>{};
  }
}

/// Two peers for each stage of a block, on the simulator: hosts 0 and 1 serve stage 0. Their ids are 1, 2, ...
template <class Options, class Job>
std::vector<trained> train(const Job& job, const support::swarm_schedule& s, Options options = {}) {
  sim::world world{{.seed = 1}};
  const auto stages = static_cast<std::uint32_t>(job.blocks), hosts = 2 * stages;
  std::vector<trained> all(hosts);
  std::uint32_t finished = 0;
  for (std::uint32_t h = 0; h < hosts; ++h) (void)world.add_host();
  for (std::uint32_t h = 0; h < hosts; ++h) {
    world.boot(h, [&, h, hosts, stages](sim::process& p) {
      const std::uint32_t stage = h / 2;
      const auto mates = p.make_fabric(h + 1), fabric = p.make_fabric(h + 1);
      options.fabric = fabric;
      options.peer = {.run = 3, .stage = stage, .stages = stages, .micro_batches = s.micro_batches};
      for (std::uint32_t o = 0; o < h; ++o) options.peer.dial.push_back("host-" + std::to_string(o) + ":2");
      auto policy = presets::make(options);
      member_options mo;
      mo.protocol.run = 10 + stage;
      mo.protocol.expected = 2;
      if (h % 2 == 1) mo.dial = {world.address(h - 1)};
      mo.enters_afresh = true;
      mo.called_away = [peer = policy.peer()] { return peer->called_away(); };
      environment env;
      env.clock = p.clock();
      env.group = member::make(mates, p.storage(), mo).value();
      trainer_options to;
      to.learning_rate = optim::constant{s.rate};
      to.clip_norm = 0;
      const nn::block_range half{stage, stage + 1};
      auto t = make_trainer(job.make(nn::model_part{half}), std::move(env), to, steps_of(options), optim::sgd{},
                            fault::quorum{}, std::move(policy));
      if (!t.start()) throw std::runtime_error{"start"};
      while (t.context().step() < s.steps) {
        const auto b = job.batch(s, t.context().step());
        all[h].losses.push_back(t.step(b.view()).value().loss);
      }
      all[h].parameters = support::parameters_of(t.model().parameters());
      if (++finished == hosts) world.end_run();
      p.sleep(1h);
    });
  }
  world.run_until(time_point{5min});
  return all;
}

const support::timed_job job{2};
const support::swarm_schedule schedule{.steps = 4, .rate = 0.05F};

}  // namespace

TEST_CASE("presets: a swarm trains in 8 bits, and the peers of a stage stay equal", "[presets][fast]") {
  const auto seen = train<presets::swarm_options>(job, schedule);
  const auto want = support::unsplit(job, schedule);
  for (std::size_t h = 0; h < 4; ++h) CHECK(support::distance(seen[h].parameters, want) < 2e-3);
  CHECK(support::distance(seen[2].parameters, want) > 0);  // they are 8 bits
  CHECK(seen[0].parameters == seen[1].parameters);
  CHECK(seen[2].parameters == seen[3].parameters);
  REQUIRE(seen[0].losses.size() == 4);
  CHECK(seen[0].losses[0] == Approx(want.losses[0]).epsilon(1e-2));
}

namespace {

/// The batches of a trace.
struct traced_job : support::timed_job {
  support::trace trace;
  [[nodiscard]] support::swarm_batch batch(const support::swarm_schedule& s, std::uint64_t step) const {
    const auto& tokens = trace.numbers("tokens " + std::to_string(step));
    return {{tokens.begin(), tokens.end()}, s.micro_batches};
  }
};

void check_ends(const traced_job& traced, const std::vector<trained>& seen) {
  for (const trained& peer : seen) {
    REQUIRE(peer.parameters.size() == 1);
    for (const auto& [name, values] : peer.parameters) {
      INFO(name);
      const double want{traced.trace.numbers("end " + name).at(0)};
      CHECK(std::abs(double{values.at(0)} - want) < 1e-5 * std::abs(want));
    }
  }
}

}  // namespace

TEST_CASE("traces: SWARM", "[presets][trace][fast]") {
  const traced_job traced{{}, support::trace{"swarm"}};
  check_ends(traced, train<presets::swarm_options>(traced, {.steps = 4, .micro_batches = 6, .rate = 0.05F}));
}

TEST_CASE("traces: DiLoCo-SWARM with micro-batches that are alike", "[presets][trace][fast]") {
  const traced_job traced{{}, support::trace{"diloco_swarm"}};
  presets::diloco_swarm_options o;
  o.local_steps = 2;
  check_ends(traced, train(traced, {.steps = 6, .micro_batches = 6, .rate = 0.02F}, o));
}

TEST_CASE("presets: the peers of a stage of diloco_swarm are equal after a round, and it has learnt", "[presets][fast]") {
  presets::diloco_swarm_options o;
  CHECK(o.local_steps == 50);
  o.local_steps = 2, o.outer_learning_rate = 1, o.momentum = 0;
  const auto seen = train(job, schedule, o);
  const auto want = support::unsplit(job, schedule);
  CHECK(seen[0].parameters == seen[1].parameters);
  CHECK(seen[2].parameters == seen[3].parameters);
  for (std::size_t h = 0; h < 4; ++h) CHECK(support::distance(seen[h].parameters, want) < 2e-2);
  REQUIRE(seen[0].losses.size() == 4);
  CHECK(seen[0].losses[0] == Approx(want.losses[0]).epsilon(1e-2));
  CHECK(seen[0].losses[3] == Approx(want.losses[3]).epsilon(2e-2));
  CHECK(want.losses[3] < 0.9 * want.losses[0]);
}

TEST_CASE("presets: gwtf ends as the unsplit model", "[presets][fast]") {
  const auto seen = train<presets::gwtf_options>(job, schedule);
  const auto want = support::unsplit(job, schedule);
  for (std::size_t h = 0; h < 4; ++h) CHECK(support::distance(seen[h].parameters, want) < 1e-6);
}

namespace {

/// Which micro-batches of a trace pass which stages, by any of the peers in turn.
presets::skippipe_options planned_options(const support::trace& t) {
  presets::skippipe_options o;
  const auto& passed = t.numbers("passed");
  for (std::size_t m = 0; 4 * m < passed.size(); ++m) {
    auto& way = o.plan.paths.emplace_back();
    for (std::size_t s = 0; s < 4; ++s)
      way.push_back(passed[4 * m + s] != 0 ? 2 * s + 1 + (m + s) % 2 : stage::routing::left_out);
  }
  return o;
}

}  // namespace

TEST_CASE("traces: SkipPipe, training on planned paths", "[presets][trace][fast]") {
  const traced_job traced{{4}, support::trace{"skippipe"}};
  check_ends(traced, train(traced, {.steps = 4, .micro_batches = 4, .rate = 0.05F}, planned_options(traced.trace)));
}

TEST_CASE("presets: a planned peer that is not there is replaced by another of its stage", "[presets][fast]") {
  const traced_job traced{{4}, support::trace{"skippipe"}};
  auto o = planned_options(traced.trace);
  for (auto& way : o.plan.paths) way[3] = 99;
  check_ends(traced, train(traced, {.steps = 4, .micro_batches = 4, .rate = 0.05F}, o));
}

TEST_CASE("presets: a swarm without a fabric says what it needs", "[presets][fast]") {
  auto t = make_trainer(job.make(nn::model_part{}), environment{}, trainer_options{}, comm::every_step<>{}, optim::sgd{},
                        presets::make(presets::gwtf_options{}), fault::quorum{});
  const auto started = t.start();
  REQUIRE_FALSE(started);
  CHECK(started.error().code == errc::invalid_argument);
}
