// SPDX-License-Identifier: Apache-2.0
#include <causeway/axis/own_sum_mean.hpp>

#include "support/catch.hpp"

using namespace causeway;

TEST_CASE("own_sum_mean: the recipe says what its exchange can do", "[axis][fast]") {
  STATIC_REQUIRE(axis::own_sum_mean::traits.bit_parity == axis::split_mean<>::traits.bit_parity);
  STATIC_REQUIRE(axis::own_sum_mean::decides == axis::part::exchange);
  CHECK(axis::own_sum_mean{}.make().traits.bit_parity == axis::own_sum_mean::traits.bit_parity);
}
