// SPDX-License-Identifier: Apache-2.0
#include <causeway/nn/micro_batch.hpp>

#include <cstdint>
#include <vector>

#include "support/catch.hpp"

namespace causeway::nn {

using Catch::Matchers::Contains;

namespace {

constexpr token_limits limits{"gpt2", 4, 10};

}  // namespace

TEST_CASE("batch: inputs must make equal sequences no longer than the context", "[nn][fast]") {
  const std::vector<std::int32_t> eight(8, 1);
  CHECK(check_inputs(limits, {eight, {}, 2}));
  CHECK(check_inputs(limits, {eight, {}, 8}));
  CHECK_THAT(check_inputs(limits, {eight, {}, 3}).error().text(), Contains("8 tokens do not make 3 sequences"));
  CHECK_THAT(check_inputs(limits, {eight, {}, 1}).error().text(), Contains("the context is 4"));
  CHECK_FALSE(check_inputs(limits, {eight, {}, 0}));
  CHECK_FALSE(check_inputs(limits, {eight, {}, -2}));
  CHECK_FALSE(check_inputs(limits, {{}, {}, 1}));
}

TEST_CASE("batch: a token outside the vocabulary is named", "[nn][fast]") {
  const std::vector<std::int32_t> high{0, 9, 10};
  CHECK_THAT(check_inputs(limits, {high, {}, 1}).error().text(), Contains("token 10") && Contains("vocabulary has 10"));
  const std::vector<std::int32_t> negative{0, -1};
  CHECK_FALSE(check_inputs(limits, {negative, {}, 1}));
}

TEST_CASE("batch: targets may be negative, not missing and not beyond the vocabulary", "[nn][fast]") {
  const std::vector<std::int32_t> inputs{1, 2};
  const std::vector<std::int32_t> ignored{-1, 9};
  const std::vector<std::int32_t> beyond{1, 10};
  CHECK(check_targets(limits, {inputs, ignored, 1}));
  CHECK_FALSE(check_targets(limits, {inputs, beyond, 1}));
  CHECK_THAT(check_targets(limits, {inputs, {}, 1}).error().text(), Contains("0 targets for 2 inputs"));
}

TEST_CASE("batch: a boundary must have the stage's shape and type", "[nn][fast]") {
  const std::vector<std::int32_t> inputs{1, 2};
  const micro_batch b{inputs, {}, 1};
  float numbers[6] = {};
  bf16 low[6] = {};
  CHECK(check_boundary(limits, b, tensor::borrow(numbers, {2, 3}), 3));
  CHECK_FALSE(check_boundary(limits, b, tensor::borrow(numbers, {3, 2}), 3));
  CHECK_FALSE(check_boundary(limits, b, tensor::borrow(low, {2, 3}), 3));
  CHECK_THAT(check_boundary(limits, b, {}, 3).error().text(), Contains("nothing arrived") && Contains("[2, 3]"));
}

}  // namespace causeway::nn
