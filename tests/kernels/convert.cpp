// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/convert.hpp>

#include "support/catch.hpp"
#include "support/kernel_cases.hpp"

#include <bit>

using namespace causeway;
using namespace causeway::kernels;

namespace {

// Every 16-bit pattern's neighbourhood in f32: the value, halfway to the next, and both sides of halfway.
template <class Half>
std::vector<float> interesting_values() {
  std::vector<float> values;
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    Half half;
    half.bits = static_cast<std::uint16_t>(bits);
    const auto base = std::bit_cast<std::uint32_t>(static_cast<float>(half));
    for (const std::uint32_t low : {0U, 1U, 0xFFFU, 0x1000U, 0x1001U, 0x7FFFU, 0x8000U, 0x8001U}) {
      values.push_back(std::bit_cast<float>(base + low));
    }
  }
  for (std::uint32_t u = 0x32000000U; u < 0x39000000U; u += 0x1357U) values.push_back(std::bit_cast<float>(u));
  return values;
}

template <class Half>
void check_against_the_constructor() {
  thread_pool pool{3};
  const auto values = interesting_values<Half>();
  const auto count = static_cast<std::int64_t>(values.size());
  for (const auto level : test::levels()) {
    std::vector<Half> narrow(values.size());
    convert(pool, values.data(), narrow.data(), count, level);
    std::vector<float> wide(values.size());
    convert(pool, narrow.data(), wide.data(), count, level);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Half expected{values[i]};
      wrong += narrow[i] == expected ? 0U : 1U;
      const auto back = std::bit_cast<std::uint32_t>(static_cast<float>(expected));
      wrong += std::bit_cast<std::uint32_t>(wide[i]) == back ? 0U : 1U;
    }
    INFO(to_string(level));
    CHECK(wrong == 0);
  }
}

}  // namespace

TEST_CASE("convert: bf16 is bit for bit what its constructor makes, special values included", "[kernels][fast]") {
  check_against_the_constructor<bf16>();
}

TEST_CASE("convert: f16 is bit for bit what its constructor makes, special values included", "[kernels][fast]") {
  check_against_the_constructor<f16>();
}

TEST_CASE("convert: any count works and nothing beyond it is written", "[kernels][fast]") {
  thread_pool pool{2};
  const auto x = test::uniform(70, 5);
  for (std::int64_t count = 0; count < 70; ++count) {
    std::vector<bf16> y(70, bf16{9.0F});
    convert(pool, x.data(), y.data(), count);
    for (std::int64_t i = 0; i < 70; ++i) {
      const auto index = static_cast<std::size_t>(i);
      CHECK(y[index] == (i < count ? bf16{x[index]} : bf16{9.0F}));
    }
  }
}
