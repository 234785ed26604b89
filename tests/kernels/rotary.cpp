// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/rotary.hpp>

#include "support/catch.hpp"
#include "support/kernel_cases.hpp"

using namespace causeway;
using namespace causeway::kernels;

namespace {

struct layout {
  std::int64_t batch, T, heads, head_size, stride;  // `stride` beyond heads·head_size leaves neighbours untouched

  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(batch * T * stride); }
};

std::vector<double> rotated(const layout& l, std::vector<double> x) {
  const std::int64_t half = l.head_size / 2;
  for (std::int64_t row = 0; row < l.batch * l.T; ++row) {
    for (std::int64_t head = 0; head < l.heads; ++head) {
      for (std::int64_t i = 0; i < half; ++i) {
        const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(l.head_size);
        const double angle = static_cast<double>(row % l.T) * std::pow(10000.0, exponent);
        const auto at = static_cast<std::size_t>(row * l.stride + head * l.head_size + i);
        const auto pair = at + static_cast<std::size_t>(half);
        const double first = x[at];
        x[at] = first * std::cos(angle) - x[pair] * std::sin(angle);
        x[pair] = x[pair] * std::cos(angle) + first * std::sin(angle);
      }
    }
  }
  return x;
}

}  // namespace

TEMPLATE_TEST_CASE("rotary: turns every pair by position times frequency, and nothing else", "[kernels][fast]", float,
                   bf16) {
  for (const layout& l : {layout{1, 1, 1, 2, 2}, {2, 5, 3, 10, 37}, {2, 40, 4, 64, 256}, {1, 70, 2, 128, 300}}) {
    const rotary_table table{l.T + 3, l.head_size};
    const auto x = test::stored<TestType>(test::uniform(l.size(), 1));
    const auto expected = rotated(l, test::as_double(x));
    for (const unsigned threads : {1U, 3U}) {
      thread_pool pool{threads};
      for (const auto level : test::levels()) {
        auto y = x;
        rotary_apply(pool, table, y.data(), l.batch, l.T, l.stride, l.heads, l.head_size, false, level);
        INFO(to_string(level) << ", head " << l.head_size << ", " << threads << " threads");
        CHECK(test::worst_error(y, expected) < test::rounding<TestType>(1e-6));
        rotary_apply(pool, table, y.data(), l.batch, l.T, l.stride, l.heads, l.head_size, true, level);
        CHECK(test::worst_error(y, test::as_double(x)) < 2 * test::rounding<TestType>(1e-6));
      }
    }
  }
}

TEST_CASE("rotary: Llama 3.1's scaling divides slow turns, keeps quick ones and blends between them", "[kernels][fast]") {
  const rotary_scaling s{8.0F, 1.0F, 4.0F, 8192};
  const double turn = 6.283185307179586 / 8192;  // one in the original context
  CHECK(s.stretched(4.1 * turn) == 4.1 * turn);
  CHECK(s.stretched(0.9 * turn) == Approx(0.9 * turn / 8));
  CHECK(s.stretched(2.5 * turn) == Approx(2.5 * turn * (0.5 + 0.5 / 8)));  // half way
  CHECK(rotary_scaling{}.stretched(1e-9) == 1e-9);
  const rotary_table plain{16, 4, 10000.0}, scaled{16, 4, 10000.0, s};
  CHECK(scaled.cosine()[15 * 2] == plain.cosine()[15 * 2]);  // the first pair turns once a position
  CHECK(static_cast<double>(scaled.sine()[15 * 2 + 1]) == Approx(std::sin(15 * s.stretched(0.01))));
}

TEST_CASE("rotary: the inverse is the gradient, by finite differences", "[kernels][fast]") {
  const layout l{1, 4, 2, 6, 12};
  thread_pool pool;
  const rotary_table table{l.T, l.head_size};
  auto dy = test::uniform(l.size(), 2);
  const auto weights = test::as_double(dy);
  const auto loss = [&](const std::vector<double>& x) {
    const auto y = rotated(l, x);
    double sum = 0.0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * weights[i];
    return sum;
  };
  const auto expected = test::finite_differences(loss, test::as_double(test::uniform(l.size(), 3)));
  rotary_apply(pool, table, dy.data(), l.batch, l.T, l.stride, l.heads, l.head_size, true);
  CHECK(test::worst_error(dy, expected) < 1e-6);
}

TEST_CASE("rotary: a score depends on the distance of two positions only", "[kernels][fast]") {
  thread_pool pool;
  constexpr std::int64_t T = 50, head = 64;
  const rotary_table table{T, head};
  const auto q = test::uniform(head, 4);
  const auto k = test::uniform(head, 5);
  std::vector<float> queries, keys;
  for (std::int64_t t = 0; t < T; ++t) {
    queries.insert(queries.end(), q.begin(), q.end());
    keys.insert(keys.end(), k.begin(), k.end());
  }
  rotary_apply(pool, table, queries.data(), 1, T, head, 1, head, false);
  rotary_apply(pool, table, keys.data(), 1, T, head, 1, head, false);
  const auto score = [&](std::int64_t a, std::int64_t b) {
    double sum = 0.0;
    for (std::int64_t i = 0; i < head; ++i) {
      sum += static_cast<double>(queries[static_cast<std::size_t>(a * head + i)]) *
             static_cast<double>(keys[static_cast<std::size_t>(b * head + i)]);
    }
    return sum;
  };
  CHECK(score(20, 13) == Approx(score(49, 42)).margin(1e-5));
  CHECK(score(20, 13) != Approx(score(20, 14)).margin(1e-3));
}
