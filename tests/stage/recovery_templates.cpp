// SPDX-License-Identifier: Apache-2.0
#include <causeway/stage/recovery_templates.hpp>

#include <cstdint>
#include <vector>

#include "cluster_snapshots.hpp"
#include "support/catch.hpp"

namespace causeway {
namespace {

stage::recovery::templates policy_for(std::size_t failures, std::size_t most) {
  stage::recovery::templates_options o;
  o.failures = failures;
  o.most_peers = most;
  o.kind.memory = 3;  // bytes, of blocks that take one each: n0 is 2
  return stage::recovery::templates{o};
}

}  // namespace

TEST_CASE("templates: with f + 1 pipelines every block outlives f peers, whichever they are", "[stage][fast]") {
  auto policy = policy_for(1, 7);
  for (std::uint64_t n = 4; n <= 7; ++n) {
    CAPTURE(n);
    const auto made = policy.arrange(newcomers(6, 12, n));
    REQUIRE(made);
    REQUIRE(made->check(6, 12));
    CHECK(made->replicas.size() >= 2);
    std::size_t assignments = 0;
    for (const auto& r : made->replicas) assignments += r.assignments.size();
    CHECK(assignments == n);  // nobody is idle
    for (std::uint64_t gone = 1; gone <= n; ++gone) {
      const auto g = after_losing(*made, 6, 12, {gone});
      for (std::int64_t b = 0; b < 6; ++b) CHECK(g.somebody_holds(b));
    }
  }
}

TEST_CASE("templates: peers that remain keep most of what they have", "[stage][fast]") {
  auto policy = policy_for(1, 5);
  const auto made = policy.arrange(newcomers(6, 12, 5));
  REQUIRE(made);
  const auto g = after_losing(*made, 6, 12, {made->replicas[0].assignments[0].peer});
  const auto next = policy.arrange(g);
  REQUIRE(next);
  std::int64_t kept = 0, all = 0;
  for (const auto& p : g.peers) {
    const auto* assignment = next->find(p.id);
    REQUIRE(assignment != nullptr);
    kept += p.overlap(assignment->computes);
    all += assignment->computes.size();
  }
  CHECK(2 * kept > all);
}

TEST_CASE("templates: below (f + 1) n0 peers the run waits, and more than planned for are spare", "[stage][fast]") {
  auto policy = policy_for(1, 5);
  CHECK(policy.arrange(newcomers(6, 12, 3)).error().code == errc::out_of_memory);
  const auto made = policy.arrange(newcomers(6, 12, 6));
  REQUIRE(made);
  CHECK(made->check(6, 12));
}

}  // namespace causeway
