// SPDX-License-Identifier: Apache-2.0
// Measured links are held where they are used: tests/collective/link_times.cpp, link_trees.cpp and
// tests/axis/linked_groups.cpp.
#include <causeway/comm/round_links.hpp>

#include <causeway/axis/exchange.hpp>
#include <causeway/axis/groups.hpp>
#include <causeway/axis/linked_groups.hpp>

#include "support/catch.hpp"

using namespace causeway;
using comm::detail::round_links;

TEST_CASE("round links: measured where trees or groups follow them", "[comm][fast]") {
  STATIC_REQUIRE(round_links<axis::tree_mean<>, axis::all_peers>::measured);
  STATIC_REQUIRE(round_links<axis::split_mean<>, axis::linked_groups>::measured);
  STATIC_REQUIRE_FALSE(round_links<axis::split_mean<>, axis::all_peers>::measured);
}

TEST_CASE("round links: nothing is measured without an interval", "[comm][fast]") {
  using links = round_links<axis::tree_mean<>, axis::all_peers>;
  axis::tree_mean<> trees;
  CHECK_FALSE(links::measures(trees, {}));
  trees.links.every = 2;
  CHECK(links::measures(trees, {}));
  CHECK(round_links<axis::split_mean<>, axis::linked_groups>::measures({}, {.links = {.every = 2}}));
}
