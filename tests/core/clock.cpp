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
