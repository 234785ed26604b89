// SPDX-License-Identifier: Apache-2.0
#include <causeway/presets/elastic_pipelines.hpp>

#include <cstdint>
#include <string>

#include "parallel/elastic/elastic_world.hpp"
#include "support/catch.hpp"

using namespace causeway;

namespace {

// Five peers, one of which dies in the middle; `change` has what the options need besides.
template <class Options, class Change>
void check_survives(std::uint32_t victim, Change change) {
  support::elastic_world_options o;
  o.hosts = 5;
  o.plain_member = true;
  o.layers = 6;
  o.victim = victim;
  o.dies_at = 220;
  const auto make = [&](const parallel::elastic_pipeline_options& e) {
    Options options;
    options.micro_batches = e.micro_batches;
    change(options);
    return presets::make(options);
  };
  support::elastic_world w{o, make};
  w.wanted = 4;
  w.boot();
  w.run();
  std::string errors;
  for (std::uint32_t h = 0; h < o.hosts; ++h) errors += w.at(h).error;
  CHECK(errors.empty());
  CHECK(w.finished() == 4);
  CHECK_FALSE(w.at(victim).finished);
  CHECK(w.distance(w.unsplit()) < 5e-5);
}

}  // namespace

TEST_CASE("presets: Oobleck survives any peer's loss", "[presets][fast]") {
  check_survives<presets::oobleck_options>(GENERATE(1U, 4U), [](auto& o) {
    o.most_peers = 5;
    o.kind.memory = 3;  // blocks of one: a copy of the model takes two peers
  });
}

TEST_CASE("presets: Varuna morphs when a peer is lost", "[presets][fast]") {
  check_survives<presets::varuna_morphing_options>(GENERATE(1U, 4U), [](auto& o) {
    o.search.calibration.sizes = {1};
    o.search.calibration.points.assign(6, {{1}, {2}, 0, 1, 0});
    o.search.device_memory = 3;
  });
}

TEST_CASE("presets: Parcae takes another shape when a peer is lost", "[presets][fast]") {
  check_survives<presets::parcae_options>(GENERATE(1U, 4U), [](auto& o) {
    o.plan.device_memory = 3;
    o.plan.interval = 2;
  });
}

TEST_CASE("presets: ReCycle goes on without a lost peer's pipeline standing still", "[presets][fast]") {
  check_survives<presets::recycle_options>(GENERATE(1U, 4U), [](auto& o) { o.stages = 2; });
}

TEST_CASE("presets: CheckFree goes on with another pipeline's blocks, or its neighbours'", "[presets][fast]") {
  check_survives<presets::checkfree_options>(GENERATE(1U, 4U), [](auto& o) { o.stages = 2; });
}
