// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/dtfm_score.hpp>

#include <causeway/core/rng.hpp>
#include <causeway/plan/link_fixtures.hpp>

#include <cstddef>
#include <numeric>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using plan::pipeline_task;
using plan::detail::dtfm_partition;
using plan::detail::dtfm_scorer;

TEST_CASE("a partition's score is the cost of its arrangement, also after swaps and with spare devices", "[plan][fast]") {
  const plan::link_matrix links = plan::worldwide(26);
  const pipeline_task task{4, 6, 3e8, 1e8};
  dtfm_scorer scorer{links, task};
  rng draw{11};
  dtfm_partition p;
  p.devices.resize(26);
  std::iota(p.devices.begin(), p.devices.end(), std::size_t{0});
  scorer.score(p);
  int better = 0;
  for (int i = 0; i < 400; ++i) {
    const double before = p.total;
    const std::vector<std::size_t> a{draw.below(24)}, b{draw.below(26)};
    const bool helped = scorer.improve_by_swap(p, a, b);
    REQUIRE((p.total < before) == helped);
    better += helped ? 1 : 0;
    if (!helped) continue;
    const plan::placement where = scorer.arranged(p);
    REQUIRE(plan::cost_of(links, where, task).total() == Approx(p.total).epsilon(1e-12));
    dtfm_partition anew;
    anew.devices = p.devices;
    scorer.score(anew);
    REQUIRE(anew.total == Approx(p.total).epsilon(1e-12));
  }
  CHECK(better > 5);
  CHECK(scorer.evaluations() == 400);
}

TEST_CASE("devices of one city are of one kind, of different cities are not", "[plan][fast]") {
  const dtfm_scorer scorer{plan::worldwide(16), {4, 4, 1e8, 1e8}};
  for (std::size_t i = 0; i < 16; ++i) {
    for (std::size_t j = 0; j < 16; ++j) REQUIRE((scorer.kind(i) == scorer.kind(j)) == (i / 2 == j / 2));
  }
}
