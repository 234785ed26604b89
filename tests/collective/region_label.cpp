// SPDX-License-Identifier: Apache-2.0
#include <causeway/collective/region_label.hpp>

#include "support/catch.hpp"

using namespace causeway::collective;

TEST_CASE("region label: they are what peers say, and who does not know goes where the fewest are", "[collective][fast]") {
  constexpr std::uint32_t unknown = region_label::any;
  CHECK(regions_by_label({7, 3, 7}, 2) == region_list{{1}, {0, 2}});
  CHECK(regions_by_label({unknown, unknown, unknown}, 2) == region_list{{0, 2}, {1}});
  CHECK(regions_by_label({5, 5, unknown, unknown, unknown}, 2) == region_list{{0, 1, 4}, {2, 3}});
  CHECK(regions_by_label({0, 1, 2, unknown}, 2) == region_list{{0, 3}, {1}, {2}});
  CHECK(regions_by_label({unknown}, 2) == region_list{{0}});
  CHECK(regions_by_label({unknown, unknown}, 0) == region_list{{0, 1}});
}
