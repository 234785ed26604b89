// SPDX-License-Identifier: Apache-2.0
#include <causeway/membership/protocol.hpp>

#include "membership/cluster.hpp"
#include "membership/nemesis.hpp"
#include "support/catch.hpp"

using namespace causeway;
using namespace causeway::test;

TEST_CASE("protocol: a rough ride breaks no promise, and the run goes on afterwards", "[membership][fast]") {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    INFO("seed " << seed);
    const outcome o = rough_ride(seed);
    INFO(o.violation);
    REQUIRE(o.violation.empty());
    INFO(o.stuck);
    REQUIRE(o.stuck.empty());
  }
}

TEST_CASE("protocol: a thousand rough rides", "[membership][.long]") {
  for (std::uint64_t seed = 1000; seed < 2000; ++seed) {
    INFO("seed " << seed);
    const outcome o = rough_ride(seed);
    INFO(o.violation << o.stuck);
    REQUIRE((o.violation.empty() && o.stuck.empty()));
  }
}

TEST_CASE("protocol: three hundred peers come together, and outlive their leader", "[membership][fast]") {
  options o;
  o.run = 9;
  o.expected = 300;
  o.quota = 64;
  cluster c{1, o};
  c.restart_after = 0;
  for (int i = 0; i < 300; ++i) c.add();
  c.boot(*c.hosts[0], true);
  for (std::size_t i = 1; i < c.hosts.size(); ++i) c.boot(*c.hosts[i]);
  REQUIRE(c.run_until_true(60, [&] { return c.newest >= 1 && c.agreed(); }));
  const auto before = c.messages;
  auto round = c.newest;
  REQUIRE(c.run_until_true(60, [&] { return c.newest > round; }));
  CHECK(c.messages - before < 300 * 40);  // per round and heartbeat, a few messages for each peer: a star, not a mesh
  c.crash(*c.hosts[0]);
  round = c.newest;
  REQUIRE(c.run_until_true(100, [&] { return c.newest > round; }));
  INFO(c.violation);
  CHECK(c.violation.empty());
}

TEST_CASE("protocol: the checker finds each planted bug", "[membership][slow]") {
  for (const planted bug : {planted::no_persist, planted::forged_votes, planted::hidden_votes, planted::any_leader,
                            planted::off_by_one, planted::stale_updates}) {
    std::uint64_t seed = 1;
    while (seed <= 600 && rough_ride(seed, bug).violation.empty() && storm(seed, bug).violation.empty()) ++seed;
    INFO("bug " << static_cast<int>(bug));
    CHECK(seed <= 600);
    WARN("planted bug " << static_cast<int>(bug) << " was found at seed " << seed);
  }
}
