// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/bodies/activation_bodies.hpp>

#include <causeway/kernels/activation.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/kernels/rotary.hpp>

#include "cuda/body_support.hpp"
#include "support/catch.hpp"

#include <cstdint>
#include <type_traits>
#include <vector>

namespace {

using namespace causeway;
using causeway_test::differing;
using causeway_test::distance;
using causeway_test::numbers;

/// Fused and unfused arithmetic differ by a few roundings; in bf16 that can be one step of the format.
template <class T>
constexpr double near = std::is_same_v<T, float> ? 2e-6 : 0x1p-7;

constexpr std::int64_t count = 4 * 97 + 3;

}  // namespace

TEMPLATE_TEST_CASE("cuda activations: GELU and its gradient are the CPU's", "[cuda][fast]", float, bf16) {
  thread_pool pool{1};
  const auto x = numbers<TestType>(count, 1, 2.0F), dy = numbers<TestType>(count, 2);
  std::vector<TestType> expected(x.size()), got(x.size());
  kernels::gelu_forward(pool, x.data(), expected.data(), count);
  cuda::run_here(cuda::gelu_forward_body<TestType>{x.data(), got.data()}, count);
  CHECK(distance(got, expected, 1e-3) < near<TestType>);

  kernels::gelu_backward(pool, x.data(), dy.data(), expected.data(), count);
  got = dy;  // in place
  cuda::run_here(cuda::gelu_backward_body<TestType>{x.data(), got.data(), got.data()}, count);
  CHECK(distance(got, expected, 1e-2) < near<TestType>);
}

TEST_CASE("cuda activations: GELU and its slope have the values of the formula in f64", "[cuda][fast]") {
  // at -2, -0.5, 0.5, 3, as Python computes them
  const std::vector<float> x{-2.0F, -0.5F, 0.5F, 3.0F}, ones(4, 1.0F);
  std::vector<float> y(4), dx(4);
  cuda::run_here(cuda::gelu_forward_body<float>{x.data(), y.data()}, 4);
  cuda::run_here(cuda::gelu_backward_body<float>{x.data(), ones.data(), dx.data()}, 4);
  CHECK(distance(y, {-0.0454023F, -0.1542860F, 0.3457140F, 2.9963627F}, 0.1) < 2e-6);
  CHECK(distance(dx, {-0.0860993F, 0.1326301F, 0.8673699F, 1.0115842F}, 0.1) < 2e-6);
}

TEMPLATE_TEST_CASE("cuda activations: SwiGLU and its gradient are the CPU's, for any width", "[cuda][fast]", float, bf16) {
  thread_pool pool{1};
  for (const std::int64_t hidden : {1, 6, 16, 52}) {
    const std::int64_t rows = 7;
    const auto n = static_cast<std::size_t>(rows * hidden);
    const auto gate_up = numbers<TestType>(2 * n, 3), dy = numbers<TestType>(n, 4);
    std::vector<TestType> expected(n), got(n), wide(2 * n), wide_got = gate_up;
    kernels::swiglu_forward(pool, gate_up.data(), expected.data(), rows, hidden);
    cuda::run_here(cuda::swiglu_forward_body<TestType>{gate_up.data(), got.data(), hidden}, rows * hidden);
    CHECK(distance(got, expected, 1e-2) < near<TestType>);

    kernels::swiglu_backward(pool, gate_up.data(), dy.data(), wide.data(), rows, hidden);
    cuda::run_here(cuda::swiglu_backward_body<TestType>{wide_got.data(), dy.data(), wide_got.data(), hidden},
                   rows * hidden);  // in place
    CHECK(distance(wide_got, wide, 1e-2) < near<TestType>);
  }
}

TEMPLATE_TEST_CASE("cuda activations: sums are the CPU's to the bit", "[cuda][fast]", float, bf16) {
  thread_pool pool{1};
  const auto a = numbers<TestType>(count, 5), b = numbers<TestType>(count, 6);
  std::vector<TestType> expected(a.size()), got(a.size());
  kernels::add(pool, expected.data(), a.data(), b.data(), count);
  cuda::run_here(cuda::add_body<TestType>{a.data(), b.data(), got.data()}, count);
  CHECK(differing(got, expected) == 0);
}

TEMPLATE_TEST_CASE("cuda activations: rounding is the CPU's to the bit", "[cuda][fast]", bf16, f16) {
  thread_pool pool{1};
  const auto x = numbers<float>(count, 7, 1e4F);
  std::vector<TestType> expected(x.size()), got(x.size());
  kernels::convert(pool, x.data(), expected.data(), count);
  cuda::run_here(cuda::convert_body<float, TestType>{x.data(), got.data()}, count);
  CHECK(differing(got, expected) == 0);
}

TEMPLATE_TEST_CASE("cuda activations: rotary embedding is the CPU's, and its inverse undoes it", "[cuda][fast]", float,
                   bf16) {
  thread_pool pool{1};
  for (const std::int64_t head_size : {6, 64}) {
    const std::int64_t batch = 2, positions = 5, heads = 3, half = head_size / 2;
    const std::int64_t stride = heads * head_size + 2 * head_size;  // keys and values behind the queries
    const kernels::rotary_table table{positions, head_size};
    const auto x = numbers<TestType>(static_cast<std::size_t>(batch * positions * stride), 8);
    auto expected = x, got = x;
    kernels::rotary_apply(pool, table, expected.data(), batch, positions, stride, heads, head_size, false);
    cuda::rotary_body<TestType> body{table.cosine(), table.sine(), got.data(), positions, stride, heads, half, 1.0F};
    const std::int64_t pairs = batch * positions * heads * half;
    cuda::run_here(body, pairs);
    CHECK(distance(got, expected) < near<TestType>);
    CHECK(differing(got, x) > 0);
    body.sign = -1.0F;
    cuda::run_here(body, pairs);
    CHECK(distance(got, x) < 2 * near<TestType>);
  }
}
