// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/mirror_lines.hpp>

#include <causeway/net/memory_transport.hpp>

#include <cstdint>
#include <utility>

#include "support/catch.hpp"

using namespace causeway;
using namespace causeway::comm::detail;

TEST_CASE("mirror lines: who has greeted, goes on and is behind holds a peer", "[comm][fast]") {
  const net::memory_network network{2};
  net::any_transport a{network.transport(0)}, b{network.transport(1)};
  mirror_audience ours, theirs;
  ours.meet(a, {0, 1}, 64, 7);
  theirs.meet(b, {0, 1}, 64, 4);
  REQUIRE(ours.mirrors.size() == 1);
  mirror& m = ours.mirrors[0];
  CHECK_FALSE(m.holds(9, 2));  // it has not greeted yet
  REQUIRE(m.hear(no_deadline));
  CHECK_FALSE(m.holds(5, 2));
  CHECK(m.holds(6, 2));
  theirs.say(mirror_word::rests, 4);
  REQUIRE(m.hear(no_deadline));
  CHECK_FALSE(m.holds(6, 2));
  theirs.say(mirror_word::barrier, 5);
  REQUIRE(m.hear(no_deadline));
  CHECK(m.holds(5, 2));  // what is announced is not here
  m.known = 5;
  CHECK_FALSE(m.holds(5, 2));
  theirs.say(mirror_word::done, 5);
  REQUIRE(m.hear(no_deadline));
  CHECK(m.is_done());
  CHECK_FALSE(m.holds(100, 1));
  CHECK(ours.is_done());
}

TEST_CASE("mirror lines: what makes no sense after a clock is refused", "[comm][fast]") {
  for (const auto& [word, clock] : {std::pair{mirror_word::updates, std::uint64_t{6}},
                                    {mirror_word::barrier, 4},
                                    {mirror_word::done, 5},
                                    {mirror_word::hello, 4},
                                    {mirror_word::rests, 5}}) {
    const net::memory_network network{2};
    net::any_transport a{network.transport(0)}, b{network.transport(1)};
    mirror_audience ours, theirs;
    ours.meet(a, {1}, 64, 4);
    theirs.meet(b, {0}, 64, 4);
    REQUIRE(ours.mirrors[0].hear(no_deadline));
    theirs.say(word, clock);
    const auto refused = ours.mirrors[0].hear(no_deadline);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == errc::protocol);
    CHECK(refused.error().where == "peer 1");
  }
}
