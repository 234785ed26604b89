// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/square_cube.hpp>

#include "support/catch.hpp"

using namespace causeway;

TEST_CASE("a pipeline is viable where a stage computes as long as its messages take", "[plan][fast]") {
  const plan::link_cost link{0.1, 8e6};  // 1 MB/s
  const auto even = plan::check_square_cube(2.0, 1e6, link, 1);
  CHECK(even.viable());
  CHECK(even.ratio() == Approx(2.0 / 1.1));
  CHECK_FALSE(plan::check_square_cube(1.05, 1e6, link, 1).viable());
  CHECK(plan::check_square_cube(1.05, 1e6, link, 2).viable());  // the delay is shared
  CHECK(plan::check_square_cube(0, 0, {}, 1).viable());
}

TEST_CASE("twice the width doubles what the links can be slower by", "[plan][fast]") {
  const plan::link_cost link{0, 1e8};
  const auto ratio = [&](double width) { return plan::check_square_cube(width * width, width, link, 1).ratio(); };
  CHECK(ratio(2048) == Approx(2 * ratio(1024)));
}
