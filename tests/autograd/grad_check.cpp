// SPDX-License-Identifier: Apache-2.0
// The tool by which gradients of operations are judged.

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "support/catch.hpp"
#include "support/grad_check.hpp"

namespace causeway::autograd {
namespace {

// f(x) = Σ sin(x_i)·(i + 1) + x_0·x_1, and its gradient.
struct problem {
  std::vector<float> x{0.3F, -0.7F, 1.1F, 0.2F, -1.9F};

  [[nodiscard]] double loss() const {
    double sum = static_cast<double>(x[0]) * static_cast<double>(x[1]);
    for (std::size_t i = 0; i < x.size(); ++i) sum += std::sin(static_cast<double>(x[i])) * static_cast<double>(i + 1);
    return sum;
  }
  [[nodiscard]] std::vector<float> gradient() const {
    std::vector<float> g;
    for (std::size_t i = 0; i < x.size(); ++i) g.push_back(std::cos(x[i]) * static_cast<float>(i + 1));
    g[0] += x[1];
    g[1] += x[0];
    return g;
  }
};

}  // namespace

TEST_CASE("gradient check: a right gradient passes with room to spare", "[autograd][fast]") {
  problem p;
  const auto before = p.x;
  CHECK(support::grad_check(p.x, p.gradient(), [&] { return p.loss(); }) < 1e-5);
  CHECK(p.x == before);
}

TEST_CASE("gradient check: one element wrong by two percent of the length is found", "[autograd][fast]") {
  problem p;
  for (std::size_t i = 0; i < p.x.size(); ++i) {
    auto g = p.gradient();
    float length = 0.0F;
    for (const float v : g) length += v * v;
    g[i] += 0.02F * std::sqrt(length);
    CHECK(support::grad_check(p.x, g, [&] { return p.loss(); }) > 5e-3);
  }
}

TEST_CASE("gradient check: a gradient of zero where there is one is found, and the reverse", "[autograd][fast]") {
  problem p;
  const std::vector<float> zero(p.x.size());
  CHECK(support::grad_check(p.x, zero, [&] { return p.loss(); }) > 0.5);
  CHECK(support::grad_check(p.x, p.gradient(), [] { return 1.0; }) > 0.5);
}

TEST_CASE("gradient check: NaN is an error, not a pass", "[autograd][fast]") {
  problem p;
  auto g = p.gradient();
  g[2] = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isinf(support::grad_check(p.x, g, [&] { return p.loss(); })));
  CHECK(std::isinf(support::grad_check(p.x, p.gradient(), [] { return std::nan(""); })));
}

}  // namespace causeway::autograd
