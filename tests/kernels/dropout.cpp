// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/dropout.hpp>

#include "support/catch.hpp"
#include "support/kernel_cases.hpp"

using namespace causeway;
using namespace causeway::kernels;

TEMPLATE_TEST_CASE("dropout: an element's fate is a function of seed, stream and index alone", "[kernels][fast]", float,
                   bf16) {
  constexpr std::uint64_t seed = 0x123456789ABCDEFULL, stream = 0xFEDCBA9876543210ULL;
  for (const std::size_t size : {1U, 63U, 1000U, 40009U}) {
    const auto x = test::stored<TestType>(test::uniform(size, 1, 1.0F, 2.0F));
    std::vector<TestType> expected(size);
    for (std::size_t i = 0; i < size; ++i) {
      const bool keeps = dropout_keeps(0.3F, seed, stream, static_cast<std::int64_t>(i));
      expected[i] = TestType{keeps ? static_cast<float>(x[i]) * (1.0F / (1.0F - 0.3F)) : 0.0F};
    }
    for (const unsigned threads : {1U, 3U}) {
      thread_pool pool{threads};
      for (const auto level : test::levels()) {
        auto y = x;
        dropout_apply(pool, y.data(), static_cast<std::int64_t>(size), 0.3F, seed, stream, level);
        INFO(to_string(level) << ", " << size << " elements, " << threads << " threads");
        CHECK(y == expected);
      }
    }
  }
}

TEST_CASE("dropout: drops the share it says, other elements for another seed or stream", "[kernels][fast]") {
  thread_pool pool{2};
  constexpr std::int64_t count = 200000;
  const auto mask = [&](float rate, std::uint64_t seed, std::uint64_t stream) {
    std::vector<float> x(static_cast<std::size_t>(count), 1.0F);
    dropout_apply(pool, x.data(), count, rate, seed, stream);
    return x;
  };
  for (const float rate : {0.1F, 0.5F, 0.9F}) {
    const auto x = mask(rate, 1, 2);
    const auto dropped = std::count(x.begin(), x.end(), 0.0F);
    const double deviation = std::sqrt(static_cast<double>(rate) * (1.0 - static_cast<double>(rate)) / count);
    CHECK(std::abs(static_cast<double>(dropped) / count - static_cast<double>(rate)) < 5.0 * deviation);
  }
  CHECK(mask(0.5F, 1, 2) == mask(0.5F, 1, 2));
  CHECK(mask(0.5F, 1, 2) != mask(0.5F, 1, 3));
  CHECK(mask(0.5F, 1, 2) != mask(0.5F, 2, 2));
}

TEST_CASE("dropout: rate zero changes nothing", "[kernels][fast]") {
  thread_pool pool;
  const auto x = test::uniform(100, 1);
  auto y = x;
  dropout_apply(pool, y.data(), 100, 0.0F, 1, 1);
  CHECK(y == x);
}

TEST_CASE("dropout: applied to the gradient it is the gradient, by finite differences", "[kernels][fast]") {
  thread_pool pool;
  const auto weights = test::uniform(70, 3);
  const auto loss = [&](const std::vector<double>& x) {
    double sum = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const bool keeps = dropout_keeps(0.4F, 7, 8, static_cast<std::int64_t>(i));
      sum += keeps ? x[i] / 0.6 * static_cast<double>(weights[i]) : 0.0;
    }
    return sum;
  };
  const auto expected = test::finite_differences(loss, test::as_double(test::uniform(70, 4)));
  auto gradient = weights;
  dropout_apply(pool, gradient.data(), 70, 0.4F, 7, 8);
  CHECK(test::worst_error(gradient, expected) < 1e-6);
}
