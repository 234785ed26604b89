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
#include "parallel/elastic/paths_in_stages.hpp"
#include "support/catch.hpp"

using namespace causeway;

namespace {

using support::two_paths;
using weighted = support::weighted_paths;
using apart = support::paths_apart;
template <class Options>
struct streamed : Options {
  using pipeline = parallel::local_async_pipeline<>;
};

template <class Options, std::size_t Count>
void check_by_hand() {
  auto o = support::two_pipelines();
  o.hosts = 2 * Count;
  support::check_paths_by_hand<Options, Count>(o);
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
      const auto is = support::on_path(all, path, o.layers), was = support::on_path(quiet, path, o.layers);
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
