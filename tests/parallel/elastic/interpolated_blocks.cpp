// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/elastic/interpolated_blocks.hpp>

#include <cstdint>
#include <vector>

#include "stage/cluster_snapshots.hpp"
#include "support/catch.hpp"

namespace causeway {

TEST_CASE("interpolated blocks: the average of the stages beside, weighted by their gradients' squared norms",
          "[parallel][fast]") {
  auto g = snapshot_of(6, 2, {{1, {{0, 2}}}, {2, {{4, 6}}}});
  g.peers[0].squares = {2, 4};  // 6 in all
  g.peers[1].squares = {1, 1};
  REQUIRE((parallel::lost_runs(g) == std::vector<nn::block_range>{{2, 4}}));
  const auto made = parallel::made_up_for(g);
  REQUIRE(made.size() == 2);
  CHECK(made[0].block == 2);
  CHECK(made[0].before == 0);
  CHECK(made[0].behind == 4);
  CHECK(made[1].before == 1);
  CHECK(made[1].behind == 5);
  CHECK(made[0].share == 0.75F);
  // The first block has a table of two values before its own; moments start from zero.
  const std::vector<float> before{9, 9, 4, 8}, behind{0, 4};
  CHECK((parallel::made_up(made[0], 6, 2, before, behind) == std::vector<float>{3, 7, 0, 0, 0, 0}));
  CHECK((parallel::parameters_of({1, 2, 3, 4, 5, 6}, 2) == std::vector<float>{1, 2}));
}

TEST_CASE("interpolated blocks: short neighbours give the last that they have, unknown norms count alike",
          "[parallel][fast]") {
  const auto g = snapshot_of(6, 2, {{1, {{0, 1}}}, {2, {{4, 6}}}});
  const auto made = parallel::made_up_for(g);
  REQUIRE(made.size() == 3);
  CHECK(made[2].before == 0);
  CHECK(made[2].behind == 5);
  CHECK(made[2].share == 0.5F);
}

TEST_CASE("interpolated blocks: every peer that is to hold one is sent both sources, once", "[parallel][fast]") {
  const auto g = snapshot_of(6, 2, {{1, {{0, 2}}}, {2, {{4, 6}}}, {3, {}}});
  const stage::layout to{{{{{1, {0, 2}}, {3, {2, 4}}, {2, {4, 6}}}, 2}}};
  const auto moves = parallel::sources_of(parallel::made_up_for(g), to, g);
  CHECK((moves == std::vector<parallel::block_move>{{0, 0, 2}, {4, 1, 2}, {1, 0, 2}, {5, 1, 2}}));
}

}  // namespace causeway
