// SPDX-License-Identifier: Apache-2.0
#include "cuda/device_functions.hpp"
#include "support/catch.hpp"

#include <numeric>
#include <vector>

using causeway::errc;

TEST_CASE("cuda memory: a steady step reserves nothing", "[cuda][gpu][fast]") {
  const auto reservations = causeway_test::reservations_of_second_step();
  if (reservations) {
    CHECK(reservations.value() == 0);
  } else {
    CHECK(reservations.error().code == errc::unsupported);
    WARN("not run: " << reservations.error().text());
  }
}

TEST_CASE("cuda memory: a stream that waits for an event sees what came before it", "[cuda][gpu][fast]") {
  std::vector<int> values(3'000'000);
  std::iota(values.begin(), values.end(), 5);
  const auto back = causeway_test::through_two_streams(values);
  if (back) {
    CHECK(back.value() == values);
  } else {
    CHECK(back.error().code == errc::unsupported);
    WARN("not run: " << back.error().text());
  }
}
