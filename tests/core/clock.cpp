// SPDX-License-Identifier: Apache-2.0
#include <causeway/core/clock.hpp>

#include <chrono>
#include <memory>

#include "support/catch.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

struct manual_clock {
  std::shared_ptr<time_point> time = std::make_shared<time_point>();
  time_point now() const { return *time; }
};

}  // namespace

TEST_CASE("clock: moments and durations add up", "[core][fast]") {
  const time_point start{1s};
  CHECK((start + 250ms) - start == 250ms);
  CHECK(start + 1ns > start);
  CHECK(start < no_deadline);
  CHECK(seconds(1500ms) == Approx(1.5));
}

TEST_CASE("steady clock: never goes back", "[core][fast]") {
  const steady_clock clock;
  time_point last = clock.now();
  for (int i = 0; i < 1000; ++i) {
    const time_point now = clock.now();
    CHECK(now >= last);
    last = now;
  }
}

TEST_CASE("any clock: copies share the clock that they were made from", "[core][fast]") {
  const manual_clock manual;
  const any_clock one{manual};
  const any_clock other = one;
  *manual.time = time_point{5s};
  CHECK(one.now() == time_point{5s});
  CHECK(other.now() == time_point{5s});
}

TEST_CASE("clock: moments compare as their distances do, and no deadline comes last", "[core][fast]") {
  static_assert(time_point{} == time_point{0ns});
  static_assert(time_point{2ns} - time_point{5ns} == -3ns);
  static_assert(seconds(-250ms) == -0.25);
  CHECK(time_point{std::chrono::hours{24 * 365 * 200}} < no_deadline);
  static_assert(!Clock<int> && !Clock<std::chrono::steady_clock>, "a clock hands out our moments");
}

TEST_CASE("any clock: keeps its clock alive, and assignment changes to the other one", "[core][fast]") {
  auto one = std::make_unique<any_clock>(manual_clock{std::make_shared<time_point>(time_point{1s})});
  const any_clock copy = *one;
  *one = any_clock{manual_clock{std::make_shared<time_point>(time_point{2s})}};
  CHECK(one->now() == time_point{2s});
  one.reset();
  CHECK(copy.now() == time_point{1s});
}

TEST_CASE("any clock: without a choice it is the machine's", "[core][fast]") {
  const any_clock clock;
  const time_point before = steady_clock{}.now();
  const time_point now = clock.now();
  CHECK(before <= now);
  CHECK(now <= steady_clock{}.now());
}
