// SPDX-License-Identifier: Apache-2.0
#include <causeway/tensor/shape.hpp>

#include "support/catch.hpp"

using causeway::tensor_shape;

TEST_CASE("shape: rows are everything but the last dimension", "[tensor][fast]") {
  STATIC_REQUIRE(tensor_shape{4, 256, 768}.rows() == 1024);
  STATIC_REQUIRE(tensor_shape{4, 256, 768}.columns() == 768);
  STATIC_REQUIRE(tensor_shape{4, 256, 768}.count() == 4 * 256 * 768);
  STATIC_REQUIRE(tensor_shape{7}.rows() == 1);
  STATIC_REQUIRE(tensor_shape{7}.columns() == 7);
}

TEST_CASE("shape: no dimension is one element, a zero dimension is none", "[tensor][fast]") {
  STATIC_REQUIRE(tensor_shape{}.count() == 1);
  STATIC_REQUIRE(tensor_shape{3, 0, 5}.count() == 0);
}

TEST_CASE("shape: equal only with equal rank and dimensions", "[tensor][fast]") {
  STATIC_REQUIRE(tensor_shape{2, 3} == tensor_shape{2, 3});
  STATIC_REQUIRE(tensor_shape{2, 3} != tensor_shape{3, 2});
  STATIC_REQUIRE(tensor_shape{6} != tensor_shape{6, 1});
}

TEST_CASE("shape: text lists the dimensions", "[tensor][fast]") {
  CHECK(tensor_shape{4, 256, 768}.text() == "[4, 256, 768]");
  CHECK(tensor_shape{}.text() == "[]");
}
