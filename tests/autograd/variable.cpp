// SPDX-License-Identifier: Apache-2.0
#include <causeway/autograd/variable.hpp>

#include <type_traits>

#include "support/catch.hpp"

namespace causeway::autograd {

TEST_CASE("variable: without a slot it wants no gradient", "[autograd][fast]") {
  CHECK_FALSE(variable{}.wants_gradient());
  CHECK(variable{{}, 0}.wants_gradient());
}

TEST_CASE("parameter: data gives the type that the product reads", "[autograd][fast]") {
  const float value = 1.5F;
  const bf16 low{1.5F};
  const parameter p{&value, &low, nullptr, 1, 1};
  STATIC_REQUIRE(std::is_same_v<decltype(p.data<float>()), const float*>);
  STATIC_REQUIRE(std::is_same_v<decltype(p.data<bf16>()), const bf16*>);
  CHECK(p.data<float>() == &value);
  CHECK(p.data<bf16>() == &low);
  CHECK(p);
  CHECK_FALSE(parameter{});
}

TEST_CASE("activation types: dispatch calls with the element type of the dtype", "[autograd][fast]") {
  const auto bytes = []<class T>() { return sizeof(T); };
  CHECK(detail::with_activation_type(dtype::f32, bytes) == 4);
  CHECK(detail::with_activation_type(dtype::bf16, bytes) == 2);
}

}  // namespace causeway::autograd
