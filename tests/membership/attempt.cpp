// SPDX-License-Identifier: Apache-2.0
#include <causeway/membership/attempt.hpp>

#include "support/catch.hpp"

#include <chrono>

using namespace causeway;
using namespace std::chrono_literals;
using membership::options;
using membership::detail::wait_times;

namespace {

time_point at(duration since) { return time_point{since}; }

/// A round of 10 s in which enough peers are ready. What is lost by who is left out is 12 s: the round, and to catch up.
wait_times ten_seconds() {
  wait_times waits{options{}};
  waits.begin_round(at(0s));
  waits.somebody_ready(at(10s), 1);
  waits.enough_ready(at(10s), 100);
  return waits;
}

}  // namespace

TEST_CASE("grace: one of many is hardly waited for, one of four is", "[membership][fast]") {
  CHECK(ten_seconds().grace_deadline(1.0 / 1000) == at(10s + 12ms));
  CHECK(ten_seconds().grace_deadline(1.0 / 10) == at(11'200ms));
  CHECK(ten_seconds().grace_deadline(1.0 / 4) == at(12'500ms));  // no longer than a quarter of the round
}

TEST_CASE("grace: while many still come, each who comes is worth a wait for the others", "[membership][fast]") {
  wait_times waits = ten_seconds();
  CHECK(waits.grace_deadline(0.2) == at(12'400ms));
  waits.somebody_ready(at(11s), 2);
  CHECK(waits.grace_deadline(0.1) == at(12'200ms));  // counted from the beginning it would be over at 11.2 s
  waits.somebody_ready(at(12s), 3);
  CHECK(waits.grace_deadline(0.01) == at(12'120ms));
  CHECK(waits.grace_deadline(0.1) == at(12'400ms));  // in all no longer than was worth it for all who were late
}

TEST_CASE("grace: a new round knows nothing of who was late in the last one", "[membership][fast]") {
  wait_times waits = ten_seconds();
  (void)waits.grace_deadline(0.5);
  waits.begin_round(at(20s));
  waits.somebody_ready(at(30s), 1);
  waits.enough_ready(at(30s), 100);
  waits.somebody_ready(at(31s), 2);
  CHECK(waits.grace_deadline(0.05) == at(30'600ms));
}
