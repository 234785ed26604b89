// SPDX-License-Identifier: Apache-2.0
#include <causeway/axis/arrivals.hpp>

#include <cmath>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;

namespace {

double closes(const auto& arrivals, const std::vector<double>& arrived, std::size_t expected, double slack = 0) {
  return arrivals.closes_after(axis::waiting_pushes{.arrived = arrived, .expected = expected, .slack = slack});
}

}  // namespace

TEST_CASE("one by one: a push is applied after the grace period, whoever else comes", "[axis][fast]") {
  CHECK(closes(axis::one_by_one{}, {0}, 5) == 0);
  CHECK(closes(axis::one_by_one{2.5}, {0, 1}, 5) == 2.5);
}

TEST_CASE("quorum: K pushes are waited for, fewer when fewer peers are left", "[axis][fast]") {
  const axis::quorum q{.least = 3, .gamma = 0};
  CHECK(std::isinf(closes(q, {0, 1}, 4)));
  CHECK(closes(q, {0, 1, 4}, 4) == 4);
  CHECK(closes(q, {0, 1, 4, 5}, 4) == 4);
  CHECK(closes(q, {0, 1}, 2) == 1);
  CHECK(closes(q, {0}, 0) == 0);
}

TEST_CASE("quorum: the grace is what overlap leaves free, times gamma, within its bounds", "[axis][fast]") {
  const axis::quorum q{.least = 2, .gamma = 0.5, .cap_seconds = 3};
  CHECK(closes(q, {0, 2}, 4, 6) == 2 + 0.5 * (6 - 2));
  CHECK(closes(q, {0, 2}, 4, 20) == 2 + 3);
  CHECK(closes(q, {0, 2}, 4, 1) == 2);
  CHECK(closes(q, {0, 2}, 4, -9) == 2);
}

TEST_CASE("arrivals: options that cannot work are refused", "[axis][fast]") {
  CHECK(axis::one_by_one{}.check(1));
  CHECK_FALSE(axis::one_by_one{-1}.check(1));
  CHECK(axis::quorum{.least = 3}.check(3));
  CHECK_FALSE(axis::quorum{.least = 4}.check(3));
  CHECK_FALSE(axis::quorum{.least = 0}.check(3));
  CHECK_FALSE(axis::quorum{.gamma = -1}.check(3));
  CHECK_FALSE(axis::quorum{.gamma = NAN}.check(3));
  CHECK_FALSE(axis::quorum{.cap_seconds = -1}.check(3));
}
