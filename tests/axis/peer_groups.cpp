// SPDX-License-Identifier: Apache-2.0
#include <causeway/axis/peer_groups.hpp>

#include "support/catch.hpp"

using namespace causeway::axis;

TEST_CASE("peer groups: the first is the hub", "[axis][fast]") {
  CHECK(hubs_of({{2, 0}, {1}}) == peer_group{2, 1});
  CHECK(group_of({{2, 0}, {1}}, 0) == peer_group{2, 0});
  CHECK(group_of({{2, 0}, {1}}, 3).empty());
}
