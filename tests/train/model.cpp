// SPDX-License-Identifier: Apache-2.0
#include <causeway/train/model.hpp>

#include <causeway/nn/gpt.hpp>

#include <cstdint>
#include <vector>

#include "support/catch.hpp"
#include "support/model_conformance.hpp"
#include "support/quadratic.hpp"

TEST_CASE("model: the shipped models and the test model are models, other types are not", "[train][fast]") {
  STATIC_REQUIRE(causeway::Model<causeway::nn::gpt>);
  STATIC_REQUIRE(causeway::Model<support::quadratic>);
  STATIC_REQUIRE(!causeway::Model<int>);
}

TEST_CASE("model: the shipped models and the test model pass what every model must show", "[train][fast]") {
  const std::vector<std::int32_t> inputs{1, 2, 3, 4, 5, 6, 7, 0}, targets{2, 3, 4, 5, 6, 7, 0, 1};
  support::check_model([] { return support::quadratic{}; }, {inputs, targets, 2});
  const auto gpt = [] {
    return *causeway::nn::gpt::create({.layers = 2, .heads = 2, .width = 16, .context = 4, .vocabulary = 8});
  };
  support::check_model(gpt, {inputs, targets, 2});
}
