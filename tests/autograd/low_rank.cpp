// SPDX-License-Identifier: Apache-2.0
#include <causeway/autograd/low_rank.hpp>

#include <causeway/autograd/linear.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "op_checker.hpp"
#include "support/catch.hpp"

namespace causeway::autograd {

using testing::cpu_tape;
using testing::op_checker;
using variables = std::vector<variable>;

namespace {

tensor copy_of(cpu_tape& t, const std::vector<float>& values, tensor_shape shape) {
  tensor made = t.make(dtype::f32, shape);
  std::copy(values.begin(), values.end(), made.data<float>());
  return made;
}
std::vector<float> values_of(const tensor& t) { return {t.data<float>(), t.data<float>() + t.count()}; }

}  // namespace

TEST_CASE("low rank: gradient equals finite differences, beside all columns and beside some", "[autograd][fast]") {
  for (const std::int64_t column : {0, 3}) {
    op_checker c;
    c.input({9, 10});
    auto& weight = c.parameter(column == 0 ? 4 : 11, 10);
    auto& down = c.parameter(3, 10);
    auto& up = c.parameter(4, 3);
    c.compute([&, column](cpu_tape& t, variables& v) {
      return add_low_rank(t, linear(t, v[0], weight), v[0], down, up, column);
    });
    c.check();
  }
}

TEST_CASE("low rank: two beside one map, into the residual stream, have the gradients of finite differences",
          "[autograd][fast]") {
  op_checker c;
  c.input({8, 6});
  c.input({8, 5});
  auto& weight = c.parameter(6, 5);
  auto& a1 = c.parameter(2, 5);
  auto& b1 = c.parameter(6, 2);
  auto& a2 = c.parameter(3, 6);
  auto& b2 = c.parameter(2, 3);
  c.compute([&](cpu_tape& t, variables& v) {
    const auto y = add_low_rank(t, linear_to_residual(t, v[1], weight, {}, v[0]), v[1], a1, b1);
    return add_low_rank(t, y, v[0], a2, b2, 4);  // of another input, and y stays as it was
  });
  c.check();
}

TEST_CASE("low rank: bf16 agrees with f32", "[autograd][fast]") {
  for (const bool residual : {false, true}) {
    op_checker c;
    c.input({16, 24});
    auto& weight = c.parameter(12, 24, 0.3F);
    auto& down = c.parameter(4, 24, 0.3F);
    auto& up = c.parameter(8, 4, 0.3F);
    c.compute([&, residual](cpu_tape& t, variables& v) {
      auto y = residual ? linear_to_residual(t, v[0], weight) : linear(t, v[0], weight);
      return add_low_rank(t, std::move(y), v[0], down, up, 4);
    });
    c.compare_types();
  }
}

// By hand: W = [[1 2] [3 4] [5 6]], A = [1 -1], B = [[2] [0] [-3]], x = [[1 2] [4 1]], so A·x = [-1 3], and the gradient of
// the result is [[1 0 2] [-1 1 1]]. All numbers are small integers, which f32 has.
TEST_CASE("low rank: values and gradients are those worked out by hand", "[autograd][fast]") {
  kernels::cpu_backend backend;
  buffer_pool memory;
  cpu_tape t{backend, memory};
  const std::vector<float> w{1, 2, 3, 4, 5, 6}, a{1, -1}, b{2, 0, -3};
  std::vector<float> da(2), db(3);
  const parameter frozen{w.data(), nullptr, nullptr, 3, 2};
  const parameter down{a.data(), nullptr, da.data(), 1, 2}, up{b.data(), nullptr, db.data(), 3, 1};
  const variable x = t.leaf(copy_of(t, {1, 2, 4, 1}, {2, 2}));
  const variable y = add_low_rank(t, linear(t, x, frozen), x, down, up);
  CHECK(values_of(y.value) == std::vector<float>{5 - 2, 11, 17 + 3, 6 + 6, 16, 26 - 9});
  t.contribute(y.slot, copy_of(t, {1, 0, 2, -1, 1, 1}, {2, 3}));
  t.backward();
  // dB = dyᵀ·(A·x) = [-1·1 + 3·-1, 3·1, -1·2 + 3·1]; dh = dy·B = [2 - 6, -2 - 3]; dA = Σ dh·x; dx = dy·W + dh·A.
  CHECK(db == std::vector<float>{-4, 3, 1});
  CHECK(da == std::vector<float>{-4 * 1 - 5 * 4, -4 * 2 - 5 * 1});
  CHECK(values_of(t.take(x.slot)) == std::vector<float>{11 - 4, 14 + 4, 7 - 5, 8 + 5});
}

TEST_CASE("low rank: with B of zeros no bit is another, and A has no gradient", "[autograd][fast]") {
  const auto result = [](bool beside) {
    op_checker c;
    c.input({9, 10});
    auto& weight = c.parameter(7, 10);
    auto& down = c.parameter(3, 10);
    auto& up = c.parameter(7, 3, 0.0F);
    c.compute([&, beside](cpu_tape& t, variables& v) {
      auto y = linear(t, v[0], weight);
      return beside ? add_low_rank(t, std::move(y), v[0], down, up) : y;
    });
    c.run();
    for (const float g : c.parameter_gradient(1)) CHECK(g == 0.0F);
    std::vector<float> all{c.result().begin(), c.result().end()};
    all.insert(all.end(), c.input_gradient(0).begin(), c.input_gradient(0).end());
    return all;
  };
  const bool alike = result(true) == result(false);
  CHECK(alike);
}

TEST_CASE("low rank: maps that are frozen get no gradients, and pass that of the input on", "[autograd][fast]") {
  kernels::cpu_backend backend;
  buffer_pool memory;
  cpu_tape t{backend, memory};
  const std::vector<float> a{1, -1}, b{2};
  const parameter down{a.data(), nullptr, nullptr, 1, 2}, up{b.data(), nullptr, nullptr, 1, 1};
  const variable x = t.leaf(copy_of(t, {1, 2}, {1, 2}));
  const variable y = add_low_rank(t, t.leaf(copy_of(t, {5}, {1, 1})), x, down, up);
  CHECK(values_of(y.value) == std::vector<float>{3});
  t.contribute(y.slot, copy_of(t, {1}, {1, 1}));
  t.backward();
  CHECK(values_of(t.take(x.slot)) == std::vector<float>{2, -2});
}

}  // namespace causeway::autograd
