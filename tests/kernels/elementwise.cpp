// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/elementwise.hpp>

#include "support/catch.hpp"
#include "support/kernel_cases.hpp"

#include <array>

using namespace causeway;
using namespace causeway::kernels;

namespace {

// Sizes around the vector width, the share of a thread and beyond.
constexpr std::array<std::size_t, 6> sizes{1, 16, 17, 1000, 16384, 40003};

}  // namespace

TEST_CASE("elementwise: add, axpy, scale and lerp round once an operation at every level", "[kernels][fast]") {
  for (const unsigned threads : {1U, 3U}) {
    thread_pool pool{threads};
    for (const std::size_t size : sizes) {
      const auto a = test::uniform(size, 1);
      const auto b = test::uniform(size, 2);
      const auto count = static_cast<std::int64_t>(size);
      for (const auto level : test::levels()) {
        std::vector<float> sum(size), difference(size);
        auto moved = a;
        auto scaled = a;
        auto mixed = a;
        add(pool, sum.data(), a.data(), b.data(), count, level);
        subtract(pool, difference.data(), a.data(), b.data(), count, level);
        axpy(pool, moved.data(), 0.3F, b.data(), count, level);
        scale(pool, scaled.data(), 0.3F, count, level);
        lerp(pool, mixed.data(), b.data(), 0.3F, count, level);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < size; ++i) {
          const volatile float product = 0.3F * b[i];  // volatile: a rounding of its own
          const volatile float step = 0.3F * (b[i] - a[i]);
          wrong += sum[i] == a[i] + b[i] ? 0U : 1U;
          wrong += difference[i] == a[i] - b[i] ? 0U : 1U;
          wrong += moved[i] == a[i] + product ? 0U : 1U;
          wrong += scaled[i] == 0.3F * a[i] ? 0U : 1U;
          wrong += mixed[i] == a[i] + step ? 0U : 1U;
        }
        INFO(to_string(level) << ", " << size << " elements, " << threads << " threads");
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("elementwise: add of bf16 rounds the f32 sum, in place too", "[kernels][fast]") {
  thread_pool pool{2};
  const auto a = test::stored<bf16>(test::uniform(1003, 1));
  const auto b = test::stored<bf16>(test::uniform(1003, 2));
  for (const auto level : test::levels()) {
    auto y = a;
    add(pool, y.data(), y.data(), b.data(), 1003, level);
    for (std::size_t i = 0; i < y.size(); ++i) {
      CHECK(y[i] == bf16{static_cast<float>(a[i]) + static_cast<float>(b[i])});
    }
  }
}

TEST_CASE("elementwise: fill and zero write what they say and no more", "[kernels][fast]") {
  thread_pool pool{3};
  for (const std::size_t size : sizes) {
    std::vector<float> y(size + 1, 5.0F);
    fill(pool, y.data(), 2.5F, static_cast<std::int64_t>(size));
    CHECK(std::all_of(y.begin(), y.end() - 1, [](float v) { return v == 2.5F; }));
    CHECK(y.back() == 5.0F);
    zero(pool, y.data(), static_cast<std::int64_t>(size));
    CHECK(std::all_of(y.begin(), y.end() - 1, [](float v) { return v == 0.0F; }));
    CHECK(y.back() == 5.0F);
  }
}
