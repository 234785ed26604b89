// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_COLUMN_SUM_HPP
#define CAUSEWAY_KERNELS_COLUMN_SUM_HPP

// Sums over the rows of a matrix, for the gradients of biases and gains: rows are cut into blocks that depend on their
// number alone, each block has a partial sum, and these are added in order. So results do not depend on the number of
// threads.

#include <causeway/config/config.hpp>
#include <causeway/kernels/simd_math.hpp>
#include <causeway/kernels/targets.hpp>

#include <algorithm>
#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels { namespace detail {

/// Enough blocks for 64 threads, but so few that the partial sums are small beside the rows.
constexpr std::int64_t row_blocks(std::int64_t rows) noexcept { return std::clamp<std::int64_t>(rows / 32, 1, 64); }

struct column_sum_kernel {
  static constexpr bool exact = true;
  /// sums[0, columns) += the sum over rows, of a piece of a matrix whose rows are `stride` apart.
  template <class T>
  CAUSEWAY_ALWAYS_INLINE static void run(const T* x, float* sums, std::int64_t rows, std::int64_t columns,
                                         std::int64_t stride) {
    for (std::int64_t row = 0; row < rows; ++row, x += stride) {
      for_lanes(columns, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
        f32x16 sum, a;
        load(sum, sums + i, part);
        load(a, x + i, part);
        store(sums + i, sum + a, part);
      });
    }
  }
};

}}}}  // namespace causeway::CAUSEWAY_ABI::kernels::detail

CAUSEWAY_EXACT_KERNEL((const float*, float*, std::int64_t, std::int64_t, std::int64_t), column_sum_kernel)
CAUSEWAY_EXACT_KERNEL((const bf16*, float*, std::int64_t, std::int64_t, std::int64_t), column_sum_kernel)

#endif  // CAUSEWAY_KERNELS_COLUMN_SUM_HPP
