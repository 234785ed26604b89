// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/simd_math.hpp>

#include "support/catch.hpp"
#include "support/kernel_cases.hpp"

#include <cstring>
#include <limits>
#include <vector>

using namespace causeway;
using namespace causeway::kernels;
namespace simd = causeway::kernels::detail;

namespace {

struct exponential_of {
  static constexpr bool exact = false;
  CAUSEWAY_ALWAYS_INLINE static void run(const float* x, float* y, std::int64_t count) {
    simd::for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      simd::f32x16 v;
      simd::load(v, x + i, part);
      simd::exponential(v);
      simd::store(y + i, v, part);
    });
  }
};

struct root_and_sum {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static float run(const float* x, float* y) {
    simd::f32x16 v;
    simd::load(v, x, simd::whole{});
    simd::square_root(v);
    simd::store(y, v, simd::whole{});
    return simd::horizontal_sum(v);
  }
};

// a·b - c with c the rounded product: zero unless a copy contracts, which an exact kernel must not.
struct rounding_error {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(const float* a, const float* b, const float* product, float* y) {
    simd::for_lanes(16, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      CAUSEWAY_EXACT_BODY
      simd::f32x16 va, vb, vc;
      simd::load(va, a + i, part);
      simd::load(vb, b + i, part);
      simd::load(vc, product + i, part);
      simd::store(y + i, va * vb - vc, part);
    });
  }
};

struct sum_of {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static float run(const float* x, std::int64_t count) {
    return simd::sum_lanes(
        count, [&](simd::f32x8& v, std::int64_t i) CAUSEWAY_INLINE_LAMBDA { std::memcpy(&v, x + i, sizeof v); },
        [&](std::int64_t i) CAUSEWAY_INLINE_LAMBDA { return x[i]; });
  }
};

struct sum_in_loop {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static float run(const float* x, std::int64_t count) {
    simd::lane_sum sum;
    simd::for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      simd::f32x16 v;
      simd::load(v, x + i, part);
      sum.add(v);
    });
    return sum.total();
  }
};

/// Sixteen lanes, as horizontal_sum adds them.
float sum_of_lanes(const std::vector<float>& v) {
  float c[4];
  for (std::size_t i = 0; i < 4; ++i) c[i] = (v[i] + v[i + 8]) + (v[i + 4] + v[i + 12]);
  return (c[0] + c[2]) + (c[1] + c[3]);
}

}  // namespace

TEST_CASE("simd math: sums are made in one order at every level", "[kernels][fast]") {
  auto x = test::uniform(331, 4);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] *= std::exp2(static_cast<float>(i % 30));
  for (std::size_t count = 0; count <= x.size(); count += 3) {
    std::vector<float> sums(64), one(16);
    std::size_t i = 0;
    for (; i + 64 <= count; i += 64) {
      for (std::size_t k = 0; k < 64; ++k) sums[k] += x[i + k];
    }
    for (; i + 16 <= count; i += 16) {
      for (std::size_t k = 0; k < 16; ++k) sums[k] += x[i + k];
    }
    for (std::size_t k = 0; k < 16; ++k) sums[k] = (sums[k] + sums[16 + k]) + (sums[32 + k] + sums[48 + k]);
    float expected = sum_of_lanes(sums);
    for (; i < count; ++i) expected += x[i];
    for (std::size_t k = 0; k < count; ++k) one[k % 16] += x[k];
    for (const auto level : test::levels()) {
      INFO(to_string(level) << ", " << count << " values");
      CHECK(simd::dispatch<sum_of>(level, static_cast<const float*>(x.data()), static_cast<std::int64_t>(count)) ==
            expected);
      CHECK(simd::dispatch<sum_in_loop>(level, static_cast<const float*>(x.data()), static_cast<std::int64_t>(count)) ==
            sum_of_lanes(one));
    }
  }
}

TEST_CASE("simd math: the exponential is within 1.2e-7 of libm over its whole range", "[kernels][fast]") {
  std::vector<float> x;
  for (int i = -86999; i <= 86999; i += 7) x.push_back(static_cast<float>(i) * 1e-3F);
  for (int i = -500; i <= 500; ++i) x.push_back(static_cast<float>(i) * 1e-6F);
  for (const auto level : test::levels()) {
    std::vector<float> y(x.size());
    simd::dispatch<exponential_of>(level, x.data(), y.data(), static_cast<std::int64_t>(x.size()));
    double worst = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double expected = std::exp(static_cast<double>(x[i]));
      worst = std::max(worst, std::abs(static_cast<double>(y[i]) - expected) / expected);
    }
    INFO(to_string(level));
    CHECK(worst < 1.2e-7);
  }
}

TEST_CASE("simd math: the exponential saturates beyond 87 and passes NaN on", "[kernels][fast]") {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> x{infinity, -infinity, 1e30F, -1e30F, std::numeric_limits<float>::quiet_NaN(), 0.0F};
  for (const auto level : test::levels()) {
    std::vector<float> y(x.size());
    simd::dispatch<exponential_of>(level, x.data(), y.data(), static_cast<std::int64_t>(x.size()));
    INFO(to_string(level));
    CHECK(y[0] == Approx(std::exp(87.0)).epsilon(1e-6));
    CHECK(y[1] == Approx(std::exp(-87.0)).epsilon(1e-6));
    CHECK(y[2] == y[0]);
    CHECK(y[3] == y[1]);
    CHECK(std::isnan(y[4]));
    CHECK(y[5] == 1.0F);
    CHECK(std::isnormal(y[1]));
    CHECK(std::isnormal(1.0F / y[0]));
  }
}

TEST_CASE("simd math: square roots are libm's and the sum of lanes is the same at every level", "[kernels][fast]") {
  auto x = test::uniform(16, 1, 0.0F, 1e6F);
  x[3] = 0.0F;
  std::vector<float> sums;
  for (const auto level : test::levels()) {
    std::vector<float> y(16);
    sums.push_back(simd::dispatch<root_and_sum>(level, x.data(), y.data()));
    for (std::size_t i = 0; i < 16; ++i) CHECK(y[i] == std::sqrt(x[i]));
    double expected = 0.0;
    for (const float v : y) expected += static_cast<double>(v);
    CHECK(static_cast<double>(sums.back()) == Approx(expected).epsilon(1e-6));
    CHECK(sums.back() == sums.front());
  }
}

TEST_CASE("simd math: an exact kernel is not contracted at any level", "[kernels][fast]") {
  const auto a = test::uniform(16, 2);
  const auto b = test::uniform(16, 3);
  std::vector<float> product(16);
  for (std::size_t i = 0; i < 16; ++i)
    product[i] = static_cast<float>(static_cast<double>(a[i]) * static_cast<double>(b[i]));
  for (const auto level : test::levels()) {
    std::vector<float> y(16, 1.0F);
    simd::dispatch<rounding_error>(level, a.data(), b.data(), product.data(), y.data());
    INFO(to_string(level));
    for (const float error : y) CHECK(error == 0.0F);
  }
}

TEST_CASE("simd math: a tail touches nothing beyond its end", "[kernels][fast]") {
  const std::vector<float> x(15, 0.0F);
  std::vector<float> y(16, -7.0F);
  simd::dispatch<exponential_of>(simd_level::portable, x.data(), y.data(), std::int64_t{15});
  CHECK(std::all_of(y.begin(), y.begin() + 15, [](float v) { return v == 1.0F; }));
  CHECK(y[15] == -7.0F);
}
