// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_EMBEDDING_HPP
#define CAUSEWAY_KERNELS_EMBEDDING_HPP

// Token and position tables: look-up, and the gradient, which is a scatter. The gradient is cut by columns, so every thread
// adds its own part of each row in token order: deterministic without atomics, and the same for any number of threads.

#include <causeway/config/config.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/simd_math.hpp>
#include <causeway/kernels/targets.hpp>
#include <causeway/tensor/scratch.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

namespace detail {

struct embedding_forward_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(const std::int32_t* tokens, const float* token_table, const float* position_table,
                                         float* x, std::int64_t begin, std::int64_t end, std::int64_t positions,
                                         std::int64_t columns) {
    for (std::int64_t row = begin; row < end; ++row) {
      const float* token = token_table + tokens[row] * columns;
      const float* position = position_table == nullptr ? nullptr : position_table + row % positions * columns;
      if (position == nullptr) {
        std::memcpy(x + row * columns, token, static_cast<std::size_t>(columns) * sizeof(float));
        continue;
      }
      for_lanes(columns, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
        f32x16 v, p;
        load(v, token + i, part);
        load(p, position + i, part);
        store(x + row * columns + i, v + p, part);
      });
    }
  }
};

/// table[row_of(row)] += dx[row] for all rows, columns [0, count) of tables and dx that are `stride` wide.
struct embedding_backward_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(const std::int32_t* tokens, const float* dx, float* dtoken, float* dposition,
                                         std::int64_t rows, std::int64_t positions, std::int64_t count,
                                         std::int64_t stride) {
    for (std::int64_t row = 0; row < rows; ++row) {
      add_row(dtoken + tokens[row] * stride, dx + row * stride, count);
      if (dposition != nullptr) add_row(dposition + row % positions * stride, dx + row * stride, count);
    }
  }

  CAUSEWAY_ALWAYS_INLINE static void add_row(float* sum, const float* x, std::int64_t count) {
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      f32x16 s, v;
      load(s, sum + i, part);
      load(v, x + i, part);
      store(sum + i, s + v, part);
    });
  }
};

}  // namespace detail

/// x[b,t] = token_table[tokens[b,t]] + position_table[t], f32 [batch, T, C]; position_table may be null. Tokens must be
/// rows of the table. Moves 8 bytes an element, and 4 more where positions do not stay in the cache.
inline void embedding_forward(thread_pool& pool, const std::int32_t* tokens, const float* token_table,
                              const float* position_table, float* x, std::int64_t batch, std::int64_t T, std::int64_t C,
                              simd_level level = detect_simd_level()) {
  detail::for_rows(pool, batch * T, C, [&](index_range part) {
    detail::dispatch<detail::embedding_forward_kernel>(level, tokens, token_table, position_table, x, part.begin, part.end,
                                                       T, C);
  });
}

/// dtoken[tokens[b,t]] += dx[b,t] and dposition[t] += dx[b,t]; dposition may be null. Moves 12 bytes an element, and 8 more
/// where positions do not stay in the cache.
inline void embedding_backward(thread_pool& pool, scratch& memory, const std::int32_t* tokens, const float* dx,
                               float* dtoken, float* dposition, std::int64_t batch, std::int64_t T, std::int64_t C,
                               std::int64_t vocabulary, simd_level level = detect_simd_level()) {
  (void)memory;
  (void)vocabulary;
  const auto add_columns = [&](index_range part) {
    float* positions = dposition == nullptr ? nullptr : dposition + part.begin;
    detail::dispatch<detail::embedding_backward_kernel>(level, tokens, dx + part.begin, dtoken + part.begin, positions,
                                                        batch * T, T, part.size(), C);
  };
  if (batch * T * C <= detail::smallest_share) {
    add_columns({0, C});
  } else {
    pool.for_range(C, 16, add_columns);
  }
}

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

CAUSEWAY_EXACT_KERNEL((const std::int32_t*, const float*, const float*, float*, std::int64_t, std::int64_t, std::int64_t,
                       std::int64_t),
                      embedding_forward_kernel)
CAUSEWAY_EXACT_KERNEL((const std::int32_t*, const float*, float*, float*, std::int64_t, std::int64_t, std::int64_t,
                       std::int64_t),
                      embedding_backward_kernel)

#endif  // CAUSEWAY_KERNELS_EMBEDDING_HPP
