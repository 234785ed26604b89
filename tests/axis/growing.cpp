// SPDX-License-Identifier: Apache-2.0
#include <causeway/axis/growing.hpp>

#include "support/catch.hpp"

using namespace causeway;

TEST_CASE("growing: rounds double while the model hardly moves, up to the limit", "[axis][fast]") {
  axis::growing t{{.local_steps = 10, .most = 35, .factor = 2, .tolerance = 0.1}};
  int nobody = 0;
  REQUIRE(t.exchanged(nobody, {.movement = 0.2}));
  CHECK(t.next(0, 1) == 10);
  REQUIRE(t.exchanged(nobody, {.movement = 0.05}));
  CHECK(t.next(0, 1) == 20);
  REQUIRE(t.exchanged(nobody, {.movement = 0.05}));
  CHECK(t.next(0, 1) == 35);
  CHECK(t.first(0, 1) == 10);
}

TEST_CASE("growing: options that cannot work", "[axis][fast]") {
  CHECK(axis::growing{{.local_steps = 0}}.check(1).error().code == errc::invalid_argument);
  CHECK(axis::growing{{.local_steps = 9, .most = 8}}.check(1).error().code == errc::invalid_argument);
  CHECK(axis::growing{{.factor = 0}}.check(1).error().code == errc::invalid_argument);
}
