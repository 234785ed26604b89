// SPDX-License-Identifier: Apache-2.0
// A release build's view of config.hpp, whatever this build is: preconditions are not looked at.
#undef CAUSEWAY_CHECKED
#ifndef NDEBUG
#define NDEBUG
#endif
#include <causeway/config/config.hpp>

#include "support/catch.hpp"

TEST_CASE("expect: a release build does not evaluate the condition", "[config][fast]") {
  int evaluations = 0;
  CAUSEWAY_EXPECT(++evaluations == 99);
  CHECK(evaluations == 0);
  const auto plain = [](int n) { return CAUSEWAY_EXPECT(n != 0), n; };
  CHECK(plain(0) == 0);
}
