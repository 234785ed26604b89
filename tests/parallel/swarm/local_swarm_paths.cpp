// SPDX-License-Identifier: Apache-2.0
// Swarms whose peers take local steps, each on a path through a model of modules.
#include <causeway/presets/modular.hpp>
#include <causeway/stage/routing.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "parallel/swarm/local_swarm_cases.hpp"
#include "support/catch.hpp"
#include "support/paths_by_hand.hpp"

using namespace causeway;
using namespace std::chrono_literals;
using support::named_parameters;

namespace {

template <class Options>
using rounds = support::preset_rounds<Options>;

/// Who trains what of a batch of eight: the first half is of the first path, whose models have its micro-batches in turn.
template <std::size_t Models>
struct by_halves {
  static constexpr std::size_t models = Models;
  static std::size_t of(std::uint64_t, std::uint32_t m) { return m / 4 * (Models / 2) + m % 4 % (Models / 2); }
};

support::swarm_world_options pairs(std::size_t count) {
  auto o = support::two_pairs();
  o.speeds.assign(2, std::vector<double>(count, 1.0));
  o.local_steps = 3, o.steps = 9;
  return o;
}

template <class Options, std::size_t Count>
named_parameters by_hand(const support::swarm_world_options& o) {
  Options policy;
  policy.local_steps = o.local_steps;
  support::paths_by_hand<Count> paths{policy, 2 * o.blocks_per_stage};
  return paths.all(support::models_by_hand<by_halves<Count>>(
      o, [&](std::uint64_t steps, parameter_store& shared, const auto& models) { paths.exchange(steps, shared, models); }));
}

/// Of one path alone, under the names of a model.
named_parameters on_path(const named_parameters& all, std::uint32_t path) {
  named_parameters of_it;
  for (const auto& one : all) {
    const std::string name = one.first.substr(0, one.first.find(" of path "));
    if (const auto at = all.find(support::name_on_path(name, path)); at != all.end()) of_it[name] = at->second;
  }
  return of_it;
}

/// Pairs of peers, one in each stage, against as many whole models.
template <class Options, std::size_t Count>
void check_by_hand() {
  const auto o = pairs(Count);
  const auto exact = by_hand<Options, Count>(o);
  const auto began = support::beginning();
  for (const auto& held : support::undisturbed<rounds<Options>, support::in_pairs<support::in_turn_of<Count / 2>>>(o)) {
    for (std::uint32_t path = 0; path < 2; ++path) {
      INFO("path " << path);
      CHECK(support::off(on_path(exact, path), on_path(held, path), began) < 1e-4);
    }
  }
  CHECK(support::off(on_path(exact, 1), on_path(exact, 0), began) > 1e-2);
}

}  // namespace

TEST_CASE("local swarm: each peer is on a path, and modules move by those that have them", "[parallel][fast]") {
  check_by_hand<support::two_paths, 2>();
  check_by_hand<support::weighted_paths, 2>();
  check_by_hand<support::paths_apart, 2>();
}

TEST_CASE("local swarm: of twice as many peers as paths two are on each", "[parallel][fast]") {
  check_by_hand<support::two_paths, 4>();
  check_by_hand<support::weighted_paths, 4>();
}

TEST_CASE("local swarm: all peers judge the shared parameters of a path", "[parallel][fast]") {
  auto o = pairs(2);
  o.evaluations = 1, o.steps = 7;
  support::two_paths policy;
  policy.local_steps = o.local_steps;
  support::paths_by_hand<2> paths{policy, 4};
  const support::timed_job job{4};
  const auto b = job.batch({.micro_batches = o.micro_batches, .seed = o.seed}, support::evaluation_step(6));
  std::vector<double> exact;
  (void)support::models_by_hand<by_halves<2>>(o, [&](std::uint64_t steps, parameter_store& shared, const auto& models) {
    paths.exchange(steps, shared, models);
    for (std::uint32_t path = 0; path < 2 && steps == 6; ++path) {
      auto model = job.make(nn::model_part{});
      std::copy(paths.values(path).begin(), paths.values(path).end(), model.parameters().values().begin());
      exact.push_back(model.evaluate(b.tokens, b.tokens, b.sequences).value() / static_cast<double>(b.tokens.size()));
    }
  });
  REQUIRE(exact.size() == 2);
  CHECK(std::abs(exact[0] / exact[1] - 1) > 1e-3);
  for (std::uint32_t path = 0; path < 2; ++path) {
    o.judged_path = path;
    support::local_swarm_of<rounds<support::two_paths>> swarm{o};
    swarm.boot();
    swarm.run(1min);
    for (std::uint32_t h = 0; h < 4; ++h) {
      REQUIRE(swarm.at(h).finished);
      CHECK(std::abs(swarm.at(h).evaluated[6] / exact[path] - 1) < 1e-5);
    }
  }
}

TEST_CASE("local swarm: paths need an equal part of each batch", "[parallel][fast]") {
  auto o = pairs(2);
  o.micro_batches = 5;
  support::local_swarm_of<rounds<support::two_paths>> swarm{o};
  swarm.boot();
  swarm.run(1min);
  CHECK(swarm.finished() == 0);
  CHECK(swarm.at(0).error.find("5 of a global batch for 2 paths") != std::string::npos);
}

namespace {

/// What the second stage holds after a run in which its last peer of so many is lost for good, in the second round.
named_parameters after_loss(std::size_t peers, std::uint64_t steps) {
  auto o = support::two_stages();
  o.speeds = {std::vector<double>(peers, 1.0), std::vector<double>(peers, 1.0)};
  o.steps = steps;
  support::local_swarm_of<rounds<support::paths_apart>> swarm{o};
  swarm.wanted = swarm.hosts() - 1;
  swarm.boot();
  const auto victim = static_cast<std::uint32_t>(2 * peers - 1);
  while (swarm.at(0).ends.size() < 4) swarm.world().run_until(time_point{swarm.world().now().since_start + 10ms});
  swarm.world().kill(victim);
  swarm.run(5min);
  for (std::uint32_t h = 0; h < swarm.hosts(); ++h) {
    if (h == victim) continue;
    INFO("host " << h << ": " << swarm.at(h).error);
    REQUIRE(swarm.at(h).finished);
    CHECK(swarm.at(h).parameters ==
          swarm.at(h / static_cast<std::uint32_t>(peers) * static_cast<std::uint32_t>(peers)).parameters);
  }
  return swarm.at(static_cast<std::uint32_t>(peers)).parameters;
}

}  // namespace

TEST_CASE("local swarm: a path that a stage has nobody for rests, and the others go on", "[parallel][fast]") {
  const auto short_run = after_loss(2, 6), long_run = after_loss(2, 12);
  const auto began = support::beginning();
  std::uint32_t rest = 0, move = 0;
  for (std::uint32_t path = 0; path < 2; ++path) {
    const auto is = on_path(long_run, path).at("block3"), was = on_path(short_run, path).at("block3");
    (is == was ? rest : move) += 1;
  }
  CHECK(rest == 1);
  CHECK(move == 1);
}

TEST_CASE("local swarm: who is left takes up a path in the next round", "[parallel][fast]") {
  const auto short_run = after_loss(3, 6), long_run = after_loss(3, 12);
  for (std::uint32_t path = 0; path < 2; ++path)
    CHECK(on_path(long_run, path).at("block3") != on_path(short_run, path).at("block3"));
}

namespace {

/// The only peer of a path in a stage is killed all along its network calls, for good or not: the path rests, or goes on.
template <class Options>
void rests_whoever_is_lost(std::uint64_t every, duration back) {
  using swarm_type = support::local_swarm_of<rounds<Options>>;
  auto o = pairs(2);
  o.victim = 3, o.back_after = back, o.once_committed = back == 0s;
  const auto calls = support::calls_of_victim<swarm_type>(o);
  for (std::uint64_t n = 0;; n = calls.after(n, every)) {
    INFO("host 3 is killed at its network call " << n);
    o.dies_at = n;
    swarm_type swarm{o};
    if (back == 0s) swarm.wanted = swarm.hosts() - 1;
    swarm.boot();
    swarm.run(10min);
    if (swarm.at(3).calls <= n) break;  // it has outlived the run
    for (std::uint32_t h = 0; h < (back == 0s ? 3 : 4); ++h) {
      INFO("host " << h << ": " << swarm.at(h).error);
      REQUIRE(swarm.at(h).finished);
      CHECK(swarm.at(h).parameters == swarm.at(h / 2 * 2).parameters);
    }
  }
}

}  // namespace

TEMPLATE_TEST_CASE("local swarm: paths go on whoever is lost, and let others in", "[parallel][local_swarm]",
                   support::two_paths, support::paths_apart) {
  support::trains_through_losses<rounds<TestType>>(2.0 / 9, support::two_stages(), 23);
  support::lets_newcomers_in<rounds<TestType>>();
  support::goes_on_from_checkpoints<rounds<TestType>>(2.0 / 9);
  rests_whoever_is_lost<TestType>(41, 0s);
  rests_whoever_is_lost<TestType>(41, 15s);
}

TEST_CASE("local swarm: paths, and whoever is lost at every single network call",
          "[parallel][local_swarm][slow][every_call]") {
  support::trains_through_losses<rounds<support::two_paths>>(2.0 / 9, support::two_stages(), 1);
  support::trains_through_losses<rounds<support::weighted_paths>>(2.0 / 9, support::two_stages(), 7);
  rests_whoever_is_lost<support::paths_apart>(3, 0s);
  rests_whoever_is_lost<support::paths_apart>(3, 15s);
}
