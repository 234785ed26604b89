// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/half_open.hpp>

#include "support/catch.hpp"

#include <optional>
#include <string>

using causeway::net::detail::half_open;

TEST_CASE("half_open: there is room for so many, then the oldest silent one goes", "[net][fast]") {
  half_open<int> all{3};
  for (int n = 0; n < 3; ++n) CHECK_FALSE(all.enter(n, "one"));
  CHECK(all.enter(3, "one") == 0);
  all.leave(2);
  CHECK(all.size() == 2);
  CHECK_FALSE(all.enter(4, "one"));
  CHECK(all.enter(5, "one") == 1);
  CHECK(all.expel() == 3);
  CHECK(all.expel() == 4);
  CHECK(all.expel() == 5);
  CHECK_FALSE(all.expel());
}

TEST_CASE("half_open: a flood from one address pushes itself out, not the others", "[net][fast]") {
  half_open<int> all{8};
  CHECK_FALSE(all.enter(-1, "honest"));
  for (int n = 0; n < 1000; ++n) CHECK(all.enter(n, "flood") == (n < 7 ? std::nullopt : std::optional{n - 7}));
  CHECK_FALSE(all.enter(-2, "another") == -1);
}

TEST_CASE("half_open: who said who it is goes last", "[net][fast]") {
  half_open<int> all{2};
  all.enter(1, "one");
  all.introduce(1);
  CHECK_FALSE(all.enter(2, "one"));
  CHECK(all.enter(3, "two") == 2);
  CHECK(all.enter(4, "three") == 3);
  all.introduce(4);
  CHECK(all.enter(5, "four") == 1);
}
