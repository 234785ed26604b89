// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/reduce.hpp>

#include "support/catch.hpp"
#include "support/kernel_cases.hpp"

#include <limits>
#include <utility>

using namespace causeway;
using namespace causeway::kernels;

TEST_CASE("reduce: sums agree with a plain f64 loop", "[kernels][fast]") {
  thread_pool pool{3};
  for (const std::size_t size : {0U, 1U, 7U, 64U, 1001U, 50001U}) {
    const auto x = test::uniform(size, 1);
    const auto y = test::uniform(size, 2);
    double total = 0.0, squares = 0.0, products = 0.0;
    for (std::size_t i = 0; i < size; ++i) {
      total += static_cast<double>(x[i]);
      squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
      products += static_cast<double>(x[i]) * static_cast<double>(y[i]);
    }
    const auto count = static_cast<std::int64_t>(size);
    for (const auto level : test::levels()) {
      CHECK(sum(pool, x.data(), count, level) == Approx(total).margin(1e-10));
      CHECK(sum_of_squares(pool, x.data(), count, level) == Approx(squares).epsilon(1e-13));
      CHECK(dot(pool, x.data(), y.data(), count, level) == Approx(products).margin(1e-10));
    }
  }
}

TEST_CASE("reduce: the result is the same bits at every level and for every number of threads", "[kernels][fast]") {
  const auto x = test::uniform(100003, 3);
  const auto y = test::uniform(100003, 4);
  thread_pool one{1};
  const double total = sum(one, x.data(), 100003, simd_level::portable);
  const double product = dot(one, x.data(), y.data(), 100003, simd_level::portable);
  for (const unsigned threads : {1U, 2U, 3U, 5U}) {
    thread_pool pool{threads};
    for (const auto level : test::levels()) {
      CHECK(sum(pool, x.data(), 100003, level) == total);
      CHECK(dot(pool, x.data(), y.data(), 100003, level) == product);
    }
  }
}

TEST_CASE("reduce: all_finite finds one NaN or infinity anywhere", "[kernels][fast]") {
  thread_pool pool{3};
  for (const std::size_t size : {1U, 15U, 16U, 100U, 33333U}) {
    const auto count = static_cast<std::int64_t>(size);
    for (const auto level : test::levels()) {
      auto x = test::uniform(size, 5, -1e38F, 1e38F);
      CHECK(all_finite(pool, x.data(), count, level));
      for (const std::size_t at : {std::size_t{0}, size / 2, size - 1}) {
        for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                                std::numeric_limits<float>::quiet_NaN()}) {
          const float good = std::exchange(x[at], bad);
          CHECK_FALSE(all_finite(pool, x.data(), count, level));
          x[at] = good;
        }
      }
    }
  }
}
