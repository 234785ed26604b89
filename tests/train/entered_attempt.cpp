// SPDX-License-Identifier: Apache-2.0
#include <causeway/train/entered_attempt.hpp>

#include <causeway/io/memory_storage.hpp>
#include <causeway/sim/world.hpp>

#include "support/catch.hpp"

using namespace causeway;

TEST_CASE("entered_attempt: what the network or another peer did may be tried again, the rest not for ever",
          "[train][fast]") {
  sim::world world{{}};
  const auto host = world.add_host();
  int checked = 0;
  world.boot(host, [&](sim::process& p) {
    const auto fabric = p.make_fabric(7);
    auto control = member_control::make(fabric, io::any_storage{io::memory_storage{}}, {}, p.log());
    REQUIRE(control);
    detail::entered_attempt attempt{fabric, **control, {}};
    const error unusable = fail(errc::non_finite, "peer 3", "its values hold NaN or infinity");
    CHECK(attempt.may_try_again(fail(errc::timeout, "peer 3", "did not answer")));
    CHECK(!attempt.may_try_again(fail(errc::disk_full, "disk", "is full")));
    CHECK(!attempt.may_try_again(unusable));  // not let into any attempt: its own

    membership::situation s;
    s.current.at = {1, 1};
    s.current.round = 5;
    s.current.members = {{7, "", 0}, {8, "", 0}};  // nothing to exchange, so nobody has to be connected
    fabric->locked([&] { fabric->attach(nullptr); });
    const auto entry = attempt.enter(s, 4);
    REQUIRE(entry);
    REQUIRE(*entry);
    CHECK((*entry)->empty);
    error by_another = unusable;
    by_another.culprit = 1;
    for (int i = 0; i < 100; ++i) REQUIRE(attempt.may_try_again(by_another));
    int times = 0;
    while (attempt.may_try_again(unusable)) REQUIRE(++times < 100);
    CHECK(times == 16);
    s.current.round = 6;
    REQUIRE(attempt.enter(s, 4));
    CHECK(attempt.may_try_again(unusable));  // another round
    ++checked;
  });
  REQUIRE(world.run());
  CHECK(checked == 1);
}
