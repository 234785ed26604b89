// SPDX-License-Identifier: Apache-2.0
// Pipelines whose replicas take steps of their own, each on a path through a model of modules.
#include <causeway/parallel/local_async_pipeline.hpp>
#include <causeway/presets/modular.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "parallel/elastic/local_pipeline_world.hpp"
#include "parallel/elastic/newcomers.hpp"
#include "support/catch.hpp"
#include "support/paths_by_hand.hpp"

using namespace causeway;

namespace {

using support::two_paths;
using weighted = support::weighted_paths;
using apart = support::paths_apart;
template <class Options>
struct streamed : Options {
  using pipeline = parallel::local_async_pipeline<>;
};

/// `Count` whole models, the first half of which is on the first path of `policy`.
template <std::size_t Count>
support::parameters by_hand(const support::elastic_world_options& o, const presets::dipaco_options& policy) {
  support::paths_by_hand<Count> paths{policy, o.layers};
  return paths.all(support::models_by_hand<Count>(
      o, [&](std::uint64_t steps, parameter_store& shared, const auto& models) { paths.exchange(steps, shared, models); }));
}

/// Of a path alone, under the names of a model.
support::parameters on_path(const support::parameters& all, std::uint32_t path, std::int64_t layers) {
  support::parameters of_it;
  for (const auto& one : support::drawn_parameters(layers))
    of_it[one.first] = all.at(support::name_on_path(one.first, path));
  return of_it;
}

template <class Options, std::size_t Count>
void check_by_hand() {
  auto o = support::two_pipelines();
  o.hosts = 2 * Count;
  Options policy;
  policy.local_steps = support::steps_of_round;
  const auto is = support::undisturbed<Options>(o);
  const auto exact = by_hand<Count>(o, policy);
  for (std::uint32_t path = 0; path < 2; ++path) {
    INFO("path " << path);
    CHECK(support::off(on_path(is, path, o.layers), on_path(exact, path, o.layers), o.layers) < 1e-4);
  }
  CHECK(support::off(on_path(is, 1, o.layers), on_path(exact, 0, o.layers), o.layers) > 1e-2);
}

}  // namespace

TEST_CASE("local pipeline: each is on a path, and modules move by those that have them", "[parallel][elastic][fast]") {
  check_by_hand<two_paths, 2>();
  check_by_hand<weighted, 2>();
  check_by_hand<apart, 2>();
}

TEST_CASE("local pipeline: of twice as many pipelines as paths two are on each", "[parallel][elastic][fast]") {
  check_by_hand<two_paths, 4>();
  check_by_hand<weighted, 4>();
}

TEST_CASE("local pipeline: paths need an equal part of each batch", "[parallel][elastic][fast]") {
  auto o = support::two_pipelines();
  o.micro_batches = 5;
  support::local_world<two_paths> w{o};
  w.boot();
  w.run();
  CHECK(w.finished() == 0);
  CHECK(support::errors_of(w, o.hosts).find("5 of a global batch for 2 paths") != std::string::npos);
}

TEMPLATE_TEST_CASE("local pipeline: paths go on whoever is lost, and let others in", "[parallel][elastic]", two_paths,
                   apart) {
  support::goes_on_whoever_is_killed<TestType>(23, 0.03);
  // One pipeline has half of each batch to train, and makes steps in half the time.
  support::lets_newcomers_in<TestType>(21);
  support::goes_on_from_checkpoints<TestType>();
}

TEST_CASE("local pipeline: paths and whoever is lost at every single network call",
          "[parallel][elastic][local_pipeline][slow][every_call]") {
  support::goes_on_whoever_is_killed<two_paths>(1, 0.03);
  support::goes_on_whoever_is_killed<weighted>(7, 0.03);
}

TEST_CASE("local pipeline: a spare peer takes up the path and all modules' momentum", "[parallel][elastic][fast]") {
  auto o = support::two_pipelines();
  o.steps = 15;
  support::spare_peers_take_over<two_paths>(o, 400, 41, [&](const auto& all, const auto& quiet) {
    for (std::uint32_t path = 0; path < 2; ++path) {
      const auto is = on_path(all, path, o.layers), was = on_path(quiet, path, o.layers);
      // The same steps, with other moments; of a module by one pipeline alone.
      CHECK(support::off(is, was, o.layers) < 0.6);
      CHECK(std::abs(support::held_out_loss(is, o.layers) / support::held_out_loss(was, o.layers) - 1) < 0.03);
    }
  });
}

TEST_CASE("local pipeline: a stage that nobody has any more is had again with all its versions",
          "[parallel][elastic][fast]") {
  support::lost_stages_come_back<two_paths>(23);
}

TEST_CASE("local async pipeline: each is on a path", "[parallel][elastic][slow][every_call]") {
  support::goes_on_whoever_is_killed<streamed<two_paths>>(11, 0.03);
  support::lets_newcomers_in<streamed<two_paths>>(21);
}
