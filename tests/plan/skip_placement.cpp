// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/skip_placement.hpp>

#include <cstddef>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using namespace causeway::plan;

TEST_CASE("where stages are left out the ends get more devices, and each device one place", "[plan][fast]") {
  // Two sites of 12; between them everything takes long.
  link_matrix links{24, {0.001, 1e9}};
  for (std::size_t a = 0; a < 12; ++a) {
    for (std::size_t b = 12; b < 24; ++b) links.set_both(a, b, {0.1, 1e7});
  }
  const auto placed = place_for_skips(
      links, {.stages = 6, .passes = 4, .stage_bytes = 1e8, .message_bytes = 1e6, .search = {.evaluations = 3000}});
  REQUIRE(placed);
  std::vector<int> places(24, 0);
  for (std::size_t s = 0; s < 6; ++s) {
    CHECK((*placed)[s].size() == (s == 0 || s == 5 ? 6 : 3));
    for (const std::size_t d : (*placed)[s]) {
      ++places[d];
      CHECK(d / 12 == (*placed)[s].front() / 12);  // averages are dear
    }
  }
  CHECK(places == std::vector<int>(24, 1));
}

TEST_CASE("devices that fill no pipeline serve middle stages; too few are refused", "[plan][fast]") {
  const link_matrix links{11, {0.001, 1e9}};
  const auto placed = place_for_skips(links, {.stages = 5, .passes = 4, .search = {.evaluations = 100}});
  REQUIRE(placed);
  std::vector<std::size_t> sizes;
  for (const auto& stage : *placed) sizes.push_back(stage.size());
  CHECK(sizes == std::vector<std::size_t>{2, 2, 2, 3, 2});
  CHECK_FALSE(place_for_skips(links, {.stages = 12, .passes = 11}));
  CHECK_FALSE(place_for_skips(links, {.stages = 5, .passes = 2}));
  CHECK_FALSE(place_for_skips(links, {.stages = 5, .passes = 6}));
}
