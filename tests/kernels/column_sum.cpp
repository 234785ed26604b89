// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/column_sum.hpp>

#include "support/catch.hpp"
#include "support/kernel_cases.hpp"

using namespace causeway;
using namespace causeway::kernels;

static_assert(kernels::detail::row_blocks(0) == 1);
static_assert(kernels::detail::row_blocks(63) == 1);
static_assert(kernels::detail::row_blocks(64) == 2);
static_assert(kernels::detail::row_blocks(1'000'000) == 64);

TEMPLATE_TEST_CASE("column sum: adds the rows of a piece of a wider matrix, in order", "[kernels][fast]", float, bf16) {
  constexpr std::int64_t rows = 9, stride = 50;
  const auto x = test::stored<TestType>(test::uniform(rows * stride, 1));
  for (const std::int64_t columns : {1, 16, 37}) {
    std::vector<float> expected(stride, 2.0F);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (static_cast<std::int64_t>(i) % stride < columns) expected[i % stride] += static_cast<float>(x[i]);
    }
    for (const auto level : test::levels()) {
      std::vector<float> sums(stride, 2.0F);
      kernels::detail::dispatch<kernels::detail::column_sum_kernel>(level, x.data(), sums.data(), rows, columns, stride);
      CHECK(sums == expected);
    }
  }
}
