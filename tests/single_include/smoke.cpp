// SPDX-License-Identifier: Apache-2.0
#include <causeway/causeway.hpp>

#include "support/catch.hpp"

#include <cstdint>

std::uint64_t draw_in_second_unit(std::uint64_t seed);
std::uint64_t draw_beside_the_tree(std::uint64_t seed);
std::uint64_t draw_with_tiers(std::uint64_t seed);

TEST_CASE("single header: four units share one library", "[single_include][fast]") {
  const std::uint64_t here = causeway::rng{7}.next();
  CHECK(draw_in_second_unit(7) == here);
  CHECK(draw_beside_the_tree(7) == here);
  CHECK(draw_with_tiers(7) == here);
}
