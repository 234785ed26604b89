// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/peer_grid.hpp>

#include <set>

#include "support/catch.hpp"
#include "support/recovery_job.hpp"

using namespace causeway;
using namespace causeway::plan;
using causeway::test::peers_from;

TEST_CASE("a grid is made of spares, as many whole pipelines as there are peers for", "[plan][fast]") {
  peer_grid g{3};
  CHECK(g.rebuild() == 0);
  g.add_spares(peers_from(0, 8));
  CHECK(g.rebuild() == 6);
  CHECK(g.pipelines() == 2);
  CHECK(g.spares() == 2);
  CHECK(g.holes() == 0);
  CHECK(g.peers() == 8);
  CHECK(g.holders(2) == 2);
}

TEST_CASE("losses are holes, and spares fill them", "[plan][fast]") {
  peer_grid g{3};
  g.add_spares(peers_from(0, 7));
  g.rebuild();
  const std::vector<std::uint32_t> lost{1, 5};
  CHECK(g.lose(lost) == std::vector<peer_grid::place>{{0, 1}, {1, 2}});
  CHECK(g.holes(0) == 1);
  CHECK(g.holders(1) == 1);
  CHECK(g.fill() == 1);
  CHECK(g.at(0, 1) == 6);
  CHECK_FALSE(g.filled(1, 2));
  CHECK(g.peers() == 5);
}

TEST_CASE("the pipelines with the fewest holes stay, and nobody is twice or nowhere", "[plan][fast]") {
  peer_grid g{4};
  g.add_spares(peers_from(0, 12));
  g.rebuild();
  const std::vector<std::uint32_t> lost{0, 1, 6};  // two of the first pipeline, one of the second
  g.lose(lost);
  CHECK(g.rebuild() == 1);  // of the first one's two
  CHECK(g.pipelines() == 2);
  CHECK(g.at(0, 0) == 8);  // the third is whole
  CHECK(g.at(1, 0) == 4);
  CHECK(g.spares() == 1);
  std::set<std::uint32_t> seen;
  for (std::size_t d = 0; d < 2; ++d) {
    for (std::size_t s = 0; s < 4; ++s) CHECK(seen.insert(g.at(d, s)).second);
  }
  CHECK(g.peers() == 9);
}

TEST_CASE("spares that are lost are gone, and peers can move to holes", "[plan][fast]") {
  peer_grid g{2};
  g.add_spares(peers_from(0, 5));
  g.rebuild();
  const std::vector<std::uint32_t> lost{0, 4};
  CHECK(g.lose(lost).size() == 1);
  CHECK(g.spares() == 0);
  g.move({1, 1}, {0, 0});
  CHECK(g.at(0, 0) == 3);
  CHECK_FALSE(g.filled(1, 1));
}
