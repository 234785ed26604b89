// SPDX-License-Identifier: Apache-2.0
#include <causeway/axis/every.hpp>

#include <set>

#include "support/catch.hpp"

using namespace causeway;

TEST_CASE("every: the same number of steps for all fragments", "[axis][fast]") {
  const axis::every t{30};
  CHECK(t.first(2, 5) == 30);
  CHECK(t.next(2, 5) == 30);
  CHECK(t.check(5));
  CHECK(axis::every{0}.check(1).error().code == errc::invalid_argument);
}

TEST_CASE("staggered: each fragment has a step of its own in the first round", "[axis][fast]") {
  for (const std::size_t count : {1U, 2U, 3U, 7U, 30U}) {
    const axis::staggered t{30};
    std::set<std::uint32_t> steps;
    for (std::size_t f = 0; f < count; ++f) {
      CHECK(t.first(f, count) >= 1);
      CHECK(t.first(f, count) <= 30);
      steps.insert(t.first(f, count));
      CHECK(t.next(f, count) == 30);
    }
    CHECK(steps.size() == count);
  }
  CHECK(axis::staggered{8}.check(8));
  CHECK(axis::staggered{8}.check(9).error().code == errc::invalid_argument);
}

TEST_CASE("periods: one for every fragment, the last one for the rest", "[axis][fast]") {
  const axis::periods t{{2, 6, 12}};
  CHECK(t.first(0, 4) == 2);
  CHECK(t.next(1, 4) == 6);
  CHECK(t.next(2, 4) == 12);
  CHECK(t.next(3, 4) == 12);
  CHECK(axis::periods{std::vector<std::uint32_t>{}}.check(1).error().code == errc::invalid_argument);
  CHECK(axis::periods{{3, 0}}.check(1).error().code == errc::invalid_argument);
}
