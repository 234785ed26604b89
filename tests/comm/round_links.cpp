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

TEST_CASE("round links: where peers come and go nothing is said of them by number", "[comm][fast]") {
  struct context {
    bool changes;
    [[nodiscard]] std::uint32_t numbered_peers() const { return changes ? 0 : 2; }
  } fixed{false}, changing{true};
  using links = round_links<axis::tree_mean<>, axis::all_peers>;
  axis::tree_mean<> trees;
  CHECK(links::check(changing, trees, {}));  // without an interval nothing is measured
  trees.links.every = 2;
  CHECK(links::check(fixed, trees, {}));
  CHECK_FALSE(links::check(changing, trees, {}));
  using groups = round_links<axis::split_mean<>, axis::linked_groups>;
  CHECK_FALSE(groups::check(changing, {}, {.links = {.every = 2}}));
  CHECK_FALSE(groups::check(changing, {.options = {.shares = {1, 1}}}, {}));
}
