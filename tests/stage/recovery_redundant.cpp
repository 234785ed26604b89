// SPDX-License-Identifier: Apache-2.0
#include <causeway/stage/recovery_redundant.hpp>

#include <cstdint>
#include <vector>

#include "cluster_snapshots.hpp"
#include "support/catch.hpp"

namespace causeway {
namespace {

bool all_held(const stage::cluster_snapshot& g) {
  for (std::int64_t b = 0; b < g.layers; ++b) {
    if (!g.somebody_holds(b)) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("redundant: every block of a pipeline is on two peers", "[stage][fast]") {
  const auto made = stage::recovery::redundant{3}.arrange(newcomers(6, 4, 3));
  REQUIRE(made);
  REQUIRE(made->check(6, 4));
  for (std::int64_t b = 0; b < 6; ++b) CHECK(made->holders(b).size() == 2);
}

TEST_CASE("redundant: whoever is lost, a neighbour computes its stage without anything being copied for it",
          "[stage][fast]") {
  stage::recovery::redundant policy{4};
  const auto made = policy.arrange(newcomers(8, 4, 4));
  REQUIRE(made);
  for (std::uint64_t gone = 1; gone <= 4; ++gone) {
    CAPTURE(gone);
    const auto g = after_losing(*made, 8, 4, {gone});
    REQUIRE(all_held(g));
    const auto mended = policy.arrange(g);
    REQUIRE(mended);
    REQUIRE(mended->check(8, 4));
    REQUIRE(mended->replicas.size() == 1);
    for (const auto& s : mended->replicas[0].assignments) {
      for (const auto& p : g.peers) CHECK((p.id != s.peer || p.holds_all(s.computes)));
    }
  }
}

TEST_CASE("redundant: two neighbours lost at once leave a block that nobody has, two others do not", "[stage][fast]") {
  const auto made = stage::recovery::redundant{4}.arrange(newcomers(8, 4, 4));
  REQUIRE(made);
  std::vector<std::uint64_t> ids;
  for (const auto& s : made->replicas[0].assignments) ids.push_back(s.peer);
  CHECK(all_held(after_losing(*made, 8, 4, {ids[0], ids[2]})));
  CHECK(all_held(after_losing(*made, 8, 4, {ids[1], ids[3]})));
  CHECK_FALSE(all_held(after_losing(*made, 8, 4, {ids[2], ids[3]})));
}

TEST_CASE("redundant: newcomers that fill all gaps bring whole pipelines back", "[stage][fast]") {
  stage::recovery::redundant policy{2};
  const auto made = policy.arrange(newcomers(4, 4, 4));
  REQUIRE(made);
  auto g = after_losing(*made, 4, 4, {made->replicas[1].assignments[0].peer});
  const auto mended = policy.arrange(g);
  REQUIRE(mended);
  CHECK(mended->replicas[1].assignments.size() == 1);
  g.peers.push_back({99, {}});
  const auto whole = policy.arrange(g);
  REQUIRE(whole);
  REQUIRE(whole->check(4, 4));
  CHECK(whole->replicas[1].assignments.size() == 2);
}

}  // namespace causeway
