// SPDX-License-Identifier: Apache-2.0
#include <causeway/train/model.hpp>

#include <causeway/nn/gpt.hpp>

#include "support/catch.hpp"
#include "support/quadratic.hpp"

TEST_CASE("model: the shipped models and the test model are models, other types are not", "[train][fast]") {
  STATIC_REQUIRE(causeway::Model<causeway::nn::gpt>);
  STATIC_REQUIRE(causeway::Model<support::quadratic>);
  STATIC_REQUIRE(!causeway::Model<int>);
}
