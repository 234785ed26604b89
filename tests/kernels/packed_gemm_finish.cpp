// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/packed_gemm_finish.hpp>

#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/activation.hpp>

#include "support/catch.hpp"
#include "support/gemm_cases.hpp"

#include <cstdint>
#include <vector>

using namespace causeway;
using namespace causeway::kernels;

TEST_CASE("packed gemm finish: the activation has the bits of gelu_forward at every level", "[kernels][fast]") {
  const std::int64_t n = 77;
  const auto sums = tests::gemm::random_values<float>(n, 1);
  thread_pool pool{1};
  for (const simd_level level : {simd_level::portable, simd_level::avx2, simd_level::avx512}) {
    if (level > detect_simd_level()) continue;
    std::vector<float> c(n), saved(n), expected(n);
    const kernels::detail::finish_args<float> to{.partial = nullptr,
                                                 .ld_partial = 0,
                                                 .bias = nullptr,
                                                 .residual = nullptr,
                                                 .ld_residual = 0,
                                                 .act = activation::gelu,
                                                 .accumulate = false,
                                                 .pre_activation = saved.data(),
                                                 .c = c.data(),
                                                 .ldc = n};
    kernels::detail::finish_sums(level, sums.data(), n, 1, n, &to);
    gelu_forward(pool, sums.data(), expected.data(), n, level);
    CHECK(c == expected);
    CHECK(saved == sums);
  }
}

TEST_CASE("packed gemm finish: adds earlier sums, C, bias and residual, and rounds once", "[kernels][fast]") {
  const std::int64_t rows = 3;
  const std::int64_t columns = 21;
  const auto make = [&](std::uint64_t seed) { return tests::gemm::random_values<float>(rows * columns, seed); };
  const auto sums = make(1), partial = make(2), bias = make(3), residual = make(4);
  const auto before = tests::gemm::random_values<bf16>(rows * columns, 5);
  for (const simd_level level : {simd_level::portable, simd_level::avx2, simd_level::avx512}) {
    if (level > detect_simd_level()) continue;
    std::vector<bf16> c = before;
    const kernels::detail::finish_args<bf16> to{.partial = partial.data(),
                                                .ld_partial = columns,
                                                .bias = bias.data(),
                                                .residual = residual.data(),
                                                .ld_residual = columns,
                                                .act = activation::none,
                                                .accumulate = true,
                                                .pre_activation = nullptr,
                                                .c = c.data(),
                                                .ldc = columns};
    kernels::detail::finish_sums(level, sums.data(), columns, rows, columns, &to);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < c.size(); ++i) {
      const float value = sums[i] + partial[i] + static_cast<float>(before[i]) + bias[i % columns] + residual[i];
      wrong += c[i] == bf16{value} ? 0U : 1U;
    }
    CHECK(wrong == 0);
  }
}
