// SPDX-License-Identifier: Apache-2.0
#include <causeway/nn/pass.hpp>

#include <causeway/kernels/backend.hpp>

#include <vector>

#include "support/catch.hpp"

namespace causeway::nn {
namespace {

using backend = kernels::cpu_backend;

parameter_store two_parameters() {
  parameter_store store;
  store.add("first", parameter_kind::vector, 1, 5);
  store.add("second", parameter_kind::matrix, 3, 5);
  store.allocate();
  return store;
}

}  // namespace

TEST_CASE("pass: a parameter is its values, its gradient and, in bf16 mode, its copy", "[nn][fast]") {
  parameter_store store = two_parameters();
  pass<backend> p;
  p.store = &store;
  CHECK(p.type() == dtype::f32);
  CHECK(p[1].value == store.value(1));
  CHECK(p[1].gradient == store.gradient(1));
  CHECK(p[1].rows == 3);
  CHECK(p[1].columns == 5);
  CHECK(p[1].low == nullptr);
  const std::vector<bf16> low(static_cast<std::size_t>(store.length()));
  p.low = low.data();
  CHECK(p.type() == dtype::bf16);
  CHECK(p[1].low == low.data() + 16);
}

TEST_CASE("pass: with dropout the sum is made apart from the product, and only the product is dropped", "[nn][fast]") {
  parameter_store store = two_parameters();
  for (std::int64_t i = 0; i < 15; ++i) store.value(1)[i] = 1.0F;
  backend b;
  buffer_pool memory;
  autograd::tape<backend> t{b, memory};
  const std::vector<float> ones(100 * 5, 1.0F);
  std::vector<float> residual(100 * 3, 10.0F);
  const autograd::variable x{tensor::borrow(const_cast<float*>(ones.data()), {100, 5})};
  const autograd::variable r{tensor::borrow(residual.data(), {100, 3})};
  pass<backend> p;
  p.store = &store;
  const auto sum = p.add_linear(t, r, x, p[1], {}, linear_map::output, 3);
  for (const float v : sum.value.span<float>()) CHECK(v == 15.0F);
  p.dropout = 0.5F;
  const auto dropped = p.add_linear(t, r, x, p[1], {}, linear_map::output, 3);
  int zero = 0;
  for (const float v : dropped.value.span<float>()) {
    CHECK((v == 10.0F || v == 20.0F));
    zero += v == 10.0F ? 1 : 0;
  }
  CHECK(zero > 100);  // 150 of 300 expected
  CHECK(zero < 200);
}

TEST_CASE("pooled bytes: what the pool really gives", "[nn][fast]") {
  STATIC_REQUIRE(pooled_bytes(1024, 256, 4) == buffer_pool::rounded(1 << 20));
  STATIC_REQUIRE(pooled_bytes(1, 1, 4) >= 64);
}

}  // namespace causeway::nn
