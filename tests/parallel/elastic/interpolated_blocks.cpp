// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/elastic/interpolated_blocks.hpp>

#include <vector>

#include "stage/cluster_snapshots.hpp"
#include "support/catch.hpp"

namespace causeway {

TEST_CASE("interpolated blocks: the weighted mean, without what the ends of the model have besides", "[parallel][fast]") {
  // The first block has a table of two values before its own.
  const std::vector<float> first{9, 9, 4, 8}, behind{0, 4};
  CHECK((parallel::made_up({2, 0, 4, 0.75F}, 2, first, behind) == std::vector<float>{3, 7}));
  // The last one has an output layer behind.
  const std::vector<float> before{4, 8}, last{0, 4, 9, 9};
  CHECK((parallel::made_up({2, 1, 5, 0.25F}, 2, before, last) == std::vector<float>{1, 5}));
}

TEST_CASE("interpolated blocks: every peer that is to hold one is sent both sources, once", "[parallel][fast]") {
  const auto g = snapshot_of(6, 2, {{1, {{0, 2}}}, {2, {{4, 6}}}, {3, {}}});
  const stage::layout to{{{{{1, {0, 2}}, {3, {2, 4}}, {2, {4, 6}}}, 2}}};
  const std::vector<stage::made_up_block> made{{2, 0, 4}, {3, 1, 5}};
  CHECK(
      (parallel::sources_of(made, to, g) == std::vector<parallel::block_move>{{0, 0, 2}, {4, 1, 2}, {1, 0, 2}, {5, 1, 2}}));
}

}  // namespace causeway
