// SPDX-License-Identifier: Apache-2.0
#include <causeway/axis/exchange.hpp>

#include <causeway/compress/block_int8.hpp>

#include "support/catch.hpp"

using namespace causeway;

TEST_CASE("exchange: recipes say what their exchange can do", "[axis][fast]") {
  STATIC_REQUIRE(axis::gather_mean<compress::block_int8>::traits.own_support);
  STATIC_REQUIRE_FALSE(axis::message_traits<axis::gather_mean<compress::block_int8>>().sparse);
  STATIC_REQUIRE(axis::by_context<axis::all_reduce<>>);
  const axis::gather_mean<compress::block_int8> recipe{compress::block_int8{{.block = 128}}};
  CHECK(recipe.make().codec().codec().block() == 128);
}
