// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/activation.hpp>

#include "support/catch.hpp"
#include "support/kernel_cases.hpp"

#include <limits>
#include <numbers>
#include <utility>

using namespace causeway;
using namespace causeway::kernels;

namespace {

double gelu(double x) {
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

double silu(double x) { return x / (1.0 + std::exp(-x)); }

double slope(double (*f)(double), double x) { return (f(x + 1e-5) - f(x - 1e-5)) / 2e-5; }

}  // namespace

TEMPLATE_TEST_CASE("gelu: forward is libm's tanh form and backward its slope", "[kernels][fast]", float, bf16) {
  for (const unsigned threads : {1U, 3U}) {
    thread_pool pool{threads};
    for (const std::size_t size : {1U, 19U, 16384U, 40001U}) {
      const auto x = test::stored<TestType>(test::uniform(size, 1, -8.0F, 8.0F));
      const auto dy = test::stored<TestType>(test::uniform(size, 2));
      const auto count = static_cast<std::int64_t>(size);
      std::vector<double> value(size), gradient(size);
      for (std::size_t i = 0; i < size; ++i) {
        const auto v = static_cast<double>(static_cast<float>(x[i]));
        value[i] = gelu(v);
        gradient[i] = slope(gelu, v) * static_cast<double>(static_cast<float>(dy[i]));
      }
      for (const auto level : test::levels()) {
        std::vector<TestType> y(size);
        auto dx = dy;  // in place
        gelu_forward(pool, x.data(), y.data(), count, level);
        gelu_backward(pool, x.data(), dx.data(), dx.data(), count, level);
        INFO(to_string(level) << ", " << size << " elements, " << threads << " threads");
        CHECK(test::worst_error(y, value) < test::rounding<TestType>(5e-7));
        CHECK(test::worst_error(dx, gradient) < test::rounding<TestType>(1e-6));
      }
    }
  }
}

TEST_CASE("gelu: far out it is zero or the identity, and NaN stays", "[kernels][fast]") {
  thread_pool pool;
  const std::vector<float> x{-1e30F, -40.0F, 40.0F, 1e30F, 0.0F, std::numeric_limits<float>::quiet_NaN()};
  const std::vector<float> ones(x.size(), 1.0F);
  for (const auto level : test::levels()) {
    std::vector<float> y(x.size()), dx(x.size());
    gelu_forward(pool, x.data(), y.data(), static_cast<std::int64_t>(x.size()), level);
    gelu_backward(pool, x.data(), ones.data(), dx.data(), static_cast<std::int64_t>(x.size()), level);
    CHECK(std::abs(y[1]) < 1e-30F);
    CHECK(y[2] == 40.0F);
    CHECK(y[3] == 1e30F);
    CHECK(y[4] == 0.0F);
    CHECK(std::isnan(y[5]));
    CHECK(std::abs(dx[1]) < 1e-30F);
    CHECK(dx[2] == 1.0F);
    CHECK(dx[4] == 0.5F);
    CHECK(std::isnan(dx[5]));
  }
}

TEMPLATE_TEST_CASE("swiglu: forward is silu(gate)·up and backward its gradient", "[kernels][fast]", float, bf16) {
  for (const unsigned threads : {1U, 3U}) {
    thread_pool pool{threads};
    for (const std::int64_t hidden : {1, 20, 300}) {
      constexpr std::int64_t rows = 67;
      const auto size = static_cast<std::size_t>(rows * hidden);
      const auto x = test::stored<TestType>(test::uniform(2 * size, 3, -6.0F, 6.0F));
      const auto dy = test::stored<TestType>(test::uniform(size, 4));
      std::vector<double> value(size), gradient(2 * size);
      for (std::size_t i = 0; i < size; ++i) {
        const std::size_t at = i / static_cast<std::size_t>(hidden) * static_cast<std::size_t>(hidden) + i;
        const auto gate = static_cast<double>(static_cast<float>(x[at]));
        const auto up = static_cast<double>(static_cast<float>(x[at + static_cast<std::size_t>(hidden)]));
        const auto d = static_cast<double>(static_cast<float>(dy[i]));
        value[i] = silu(gate) * up;
        gradient[at] = d * up * slope(silu, gate);
        gradient[at + static_cast<std::size_t>(hidden)] = d * silu(gate);
      }
      for (const auto level : test::levels()) {
        std::vector<TestType> y(size);
        auto dx = x;  // in place
        swiglu_forward(pool, x.data(), y.data(), rows, hidden, level);
        swiglu_backward(pool, dx.data(), dy.data(), dx.data(), rows, hidden, level);
        INFO(to_string(level) << ", hidden " << hidden << ", " << threads << " threads");
        CHECK(test::worst_error(y, value) < test::rounding<TestType>(1e-6));
        CHECK(test::worst_error(dx, gradient) < test::rounding<TestType>(2e-6));
      }
    }
  }
}

TEMPLATE_TEST_CASE("bias gradient: adds column sums, the same bits for any number of threads", "[kernels][fast]", float,
                   bf16) {
  scratch memory;
  for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {5, 33}, {130, 257}, {400, 129}}) {
    const auto dy = test::stored<TestType>(test::uniform(static_cast<std::size_t>(rows * columns), 5));
    std::vector<double> expected(static_cast<std::size_t>(columns), 1.0);
    for (std::size_t i = 0; i < dy.size(); ++i) {
      expected[i % static_cast<std::size_t>(columns)] += static_cast<double>(static_cast<float>(dy[i]));
    }
    std::vector<float> first;
    for (const unsigned threads : {1U, 2U, 3U}) {
      thread_pool pool{threads};
      for (const auto level : test::levels()) {
        std::vector<float> sums(static_cast<std::size_t>(columns), 1.0F);
        bias_gradient(pool, memory, dy.data(), sums.data(), rows, columns, level);
        CHECK(test::worst_error(sums, expected) < 1e-5);
        if (first.empty()) first = sums;
        CHECK(sums == first);
      }
    }
  }
}
