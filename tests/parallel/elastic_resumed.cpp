// SPDX-License-Identifier: Apache-2.0
// A peer lost in the middle of a step of pipelines that keep their work: the others go on with it.
#include <causeway/parallel/elastic_pipeline.hpp>

#include <causeway/stage/recovery_redundant_forward.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "elastic_world.hpp"
#include "support/catch.hpp"

namespace causeway {
namespace {

using support::elastic_world;
using support::elastic_world_options;
using support::errors_of;
using support::founded;
using support::kill_through_the_run;
using support::with;

}  // namespace

TEST_CASE("redundant forward: with peers that stay, the losses and parameters of the unsplit model", "[parallel][fast]") {
  elastic_world_options o;
  o.hosts = 3;
  o.layers = 6;
  elastic_world w{o, with(stage::recovery::redundant_forward{3})};
  w.boot();
  w.run();
  CHECK(errors_of(w, o.hosts).empty());
  CHECK(w.finished() == o.hosts);
  CHECK(w.distance(w.unsplit()) < 5e-5);
}

TEST_CASE("redundant forward: pipelines survive every kill", "[parallel][fast]") {
  elastic_world_options o;
  o.hosts = 3;
  o.layers = 6;
  o.victim = GENERATE(0U, 1U, 2U);
  kill_through_the_run(o, stage::recovery::redundant_forward{3}, founded, 15);
}

}  // namespace causeway
