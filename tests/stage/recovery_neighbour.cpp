// SPDX-License-Identifier: Apache-2.0
#include <causeway/stage/recovery_neighbour.hpp>

#include <cmath>
#include <vector>

#include "stage/cluster_snapshots.hpp"
#include "support/catch.hpp"

namespace causeway {

using stage::recovery::neighbour_init;

TEST_CASE("neighbour_init: a lost stage is the mean of those beside, weighted by their gradients' squared norms",
          "[stage][fast]") {
  auto g = snapshot_of(6, 2, {{1, {{0, 2}}}, {2, {{4, 6}}}});
  g.peers[0].squares = {2, 4};  // 6 in all
  g.peers[1].squares = {1, 1};
  const auto made = neighbour_init{}.made_up(g);
  REQUIRE(made.size() == 2);
  CHECK(made[0].block == 2);
  CHECK(made[0].before == 0);
  CHECK(made[0].behind == 4);
  CHECK(made[1].block == 3);
  CHECK(made[1].before == 1);
  CHECK(made[1].behind == 5);
  CHECK(made[0].share == 0.75F);
  CHECK(made[1].share == 0.75F);
  CHECK(stage::lost_for_good(g, made).size() == 0);
}

TEST_CASE("neighbour_init: by the clipped norms, as the authors' code does", "[stage][fast]") {
  auto g = snapshot_of(6, 2, {{1, {{0, 2}}}, {2, {{4, 6}}}});
  g.peers[0].squares = {2, 4};  // clipped to 1
  g.peers[1].squares = {0.15, 0.1};
  const auto made = neighbour_init{{.weights = stage::neighbour_weights::clipped_norms}}.made_up(g);
  REQUIRE(made.size() == 2);
  CHECK(made[0].share == Approx(1.0001 / 1.5002));
}

TEST_CASE("neighbour_init: short neighbours give the last that they have, unknown norms count alike", "[stage][fast]") {
  const auto g = snapshot_of(6, 2, {{1, {{0, 1}}}, {2, {{4, 6}}}});
  const auto made = neighbour_init{}.made_up(g);
  REQUIRE(made.size() == 3);
  CHECK(made[2].before == 0);
  CHECK(made[2].behind == 5);
  CHECK(made[2].share == 0.5F);
}

TEST_CASE("neighbour_init: an end of the model cannot be made up", "[stage][fast]") {
  const auto g = snapshot_of(6, 2, {{1, {{1, 2}}}, {2, {{4, 5}}}});
  const auto made = neighbour_init{}.made_up(g);
  REQUIRE(made.size() == 2);  // [2, 4)
  CHECK((stage::lost_runs(g) == std::vector<nn::block_range>{{0, 1}, {2, 4}, {5, 6}}));
  CHECK((stage::lost_for_good(g, made) == nn::block_range{0, 1}));
}

TEST_CASE("neighbour_init: peers that make up alike agree, others do not", "[stage][fast]") {
  CHECK(neighbour_init{}.agreement() == neighbour_init{{.stages = 4}}.agreement());  // layouts differ by themselves
  CHECK(neighbour_init{}.agreement() != neighbour_init{{.rate_factor = 1.2F}}.agreement());
  CHECK(neighbour_init{}.agreement() != neighbour_init{{.weights = stage::neighbour_weights::clipped_norms}}.agreement());
}

}  // namespace causeway
