// SPDX-License-Identifier: Apache-2.0
#include <causeway/membership/attendance.hpp>

#include <chrono>

#include "support/catch.hpp"

using namespace causeway;
using namespace std::chrono_literals;
using causeway::membership::detail::transfer_time;

TEST_CASE("transfer time: is earned by the time since the last wait, more slowly by many", "[membership][fast]") {
  transfer_time t{time_point{0s}, 1s};
  t.ask(7, {10s}, time_point{0s});
  CHECK_FALSE(t.give(7, 1, time_point{19s}));
  CHECK_FALSE(t.give(7, 4, time_point{79s}));
  CHECK(t.give(7, 4, time_point{80s}) == 10s);
  CHECK(t.until(7, time_point{85s}) == time_point{96s});
  t.took_part(7, time_point{90s});
  CHECK(t.until(7, time_point{90s}) == time_point{90s});
  t.ask(8, {10s}, time_point{90s});
  CHECK_FALSE(t.give(8, 1, time_point{109s}));
  CHECK(t.give(8, 1, time_point{110s}));
}

TEST_CASE("transfer time: who is not ready by then waits twice as long for the next", "[membership][fast]") {
  transfer_time t{time_point{0s}, 0s};
  time_point now{0s};
  for (const auto wait : {20s, 40s, 80s, 160s}) {
    t.ask(7, {10s}, now);
    CHECK_FALSE(t.give(7, 1, now + (wait - 1s)));
    REQUIRE(t.give(7, 1, now + wait));
    now = now + (wait + 15s);
    CHECK(t.until(7, now) == now);
    t.forget(7, now);  // a new connection is no new beginning
  }
  t.ask(7, {10s}, now);
  REQUIRE(t.give(7, 1, now + 320s));
  t.forget(7, now + 320s);
  t.ask(7, {10s}, now);
  CHECK_FALSE(t.give(7, 1, now + 320s + 639s));
  t.ask(9, {0s}, now);
  CHECK_FALSE(t.give(9, 1, now + 1h));
  CHECK(t.until(3, now) == now);
}

TEST_CASE("transfer time: who turns out to need more is waited for as long as it would have been", "[membership][fast]") {
  transfer_time t{time_point{0s}, 1s};
  t.ask(7, {4s}, time_point{0s});
  REQUIRE(t.give(7, 2, time_point{40s}));  // 10 s at most
  CHECK(t.until(7, time_point{40s}) == time_point{47s});
  t.ask(7, {6s}, time_point{42s});
  CHECK(t.until(7, time_point{42s}) == time_point{52s});
  t.ask(7, {1s}, time_point{43s});
  CHECK(t.until(7, time_point{43s}) == time_point{52s});
  t.ask(7, {1h}, time_point{44s});
  CHECK(t.until(7, time_point{44s}) == time_point{56s});
}

TEST_CASE("transfer time: who has begun is waited for if what is left then is worth it", "[membership][fast]") {
  transfer_time t{time_point{0s}, 1s};
  t.ask(7, {8s, 3s}, time_point{100s});
  CHECK_FALSE(t.give(7, 4, time_point{104s}));  // 4 s are left
  CHECK(t.give(7, 4, time_point{106s}) == 2s);
  CHECK(t.until(7, time_point{106s}) == time_point{110s});
  t.ask(7, {1h, 3s}, time_point{109s});
  CHECK(t.until(7, time_point{109s}) == time_point{114500ms});  // as for 3 s
  t.ask(7, {1h}, time_point{109s});
  CHECK(t.until(7, time_point{109s}) == time_point{106s} + 13250ms * 3 / 2 + 1s);  // an eighth of 106 s
  t.took_part(7, time_point{110s});
  t.ask(8, {2s, 3s}, time_point{110s});
  CHECK_FALSE(t.give(8, 4, time_point{111s}));  // too soon after the last
  CHECK(t.give(8, 4, time_point{118s}) == 0s);  // it should be there any moment
}
