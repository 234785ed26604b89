// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_ATTENTION_TILES_AVX2_HPP
#define CAUSEWAY_KERNELS_ATTENTION_TILES_AVX2_HPP

// The steps of attention_tiles.hpp for AVX2: products by hand, the rest from the same loops as the portable level, which
// the compiler vectorises.

#include <causeway/config/config.hpp>
#include <causeway/kernels/attention_tiles.hpp>
#include <causeway/kernels/cpu_features.hpp>

#include <cstdint>

#if CAUSEWAY_X86_SIMD

#include <immintrin.h>

namespace causeway::inline CAUSEWAY_ABI::kernels::detail {

/// c[4][16] (+)= A B: 8 sums, 2 columns and a row's value fill 11 of the 16 registers.
template <bool ByRows>
CAUSEWAY_ALWAYS_INLINE CAUSEWAY_TARGET_AVX2 void product4x16(std::int64_t depth, const float* a, std::int64_t lda,
                                                             const float* b, float* c, std::int64_t ldc, bool accumulate) {
  __m256 sums[4][2];
  CAUSEWAY_UNROLL
  for (int i = 0; i < 4; ++i) {
    sums[i][0] = accumulate ? _mm256_loadu_ps(c + i * ldc) : _mm256_setzero_ps();
    sums[i][1] = accumulate ? _mm256_loadu_ps(c + i * ldc + 8) : _mm256_setzero_ps();
  }
  for (std::int64_t p = 0; p < depth; ++p) {
    const __m256 left = _mm256_loadu_ps(b + p * tile_columns);
    const __m256 right = _mm256_loadu_ps(b + p * tile_columns + 8);
    CAUSEWAY_UNROLL
    for (int i = 0; i < 4; ++i) {
      const __m256 x = _mm256_broadcast_ss(ByRows ? a + i * lda + p : a + p * lda + i);
      sums[i][0] = _mm256_fmadd_ps(x, left, sums[i][0]);
      sums[i][1] = _mm256_fmadd_ps(x, right, sums[i][1]);
    }
  }
  CAUSEWAY_UNROLL
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(c + i * ldc, sums[i][0]);
    _mm256_storeu_ps(c + i * ldc + 8, sums[i][1]);
  }
}

/// c[8][width] (+)= A B.
template <bool ByRows>
CAUSEWAY_TARGET_AVX2 void product_avx2(std::int64_t depth, const float* a, std::int64_t lda, const float* b, float* c,
                                       std::int64_t ldc, std::int64_t width, bool accumulate) {
  const std::int64_t columns = width > 16 ? 32 : 16;
  for (std::int64_t i = 0; i < panel_rows; i += 4) {
    const float* rows = ByRows ? a + i * lda : a + i;
    for (std::int64_t j = 0; j < columns; j += 16) {
      product4x16<ByRows>(depth, rows, lda, b + j, c + i * ldc + j, ldc, accumulate);
    }
  }
}

/// The AVX2 steps.
template <class Act>
struct avx2_tiles {
  using unit = float;
  static constexpr std::int64_t pair = 1;

  static CAUSEWAY_TARGET_AVX2_LOOPS void pack_rows(head_view<const Act> x, unit* out, std::int64_t ld, std::int64_t rows) {
    pack_rows_loop(x, out, ld, rows);
  }
  static CAUSEWAY_TARGET_AVX2_LOOPS void pack_transposed(head_view<const Act> x, unit* out, std::int64_t depth,
                                                         std::int64_t tokens) {
    pack_transposed_loop(x, out, depth, tokens);
  }
  static CAUSEWAY_TARGET_AVX2_LOOPS void pack_tokens(head_view<const Act> x, unit* out, std::int64_t columns,
                                                     std::int64_t tokens) {
    pack_tokens_loop(x, out, columns, tokens);
  }
  static void product_by_rows(std::int64_t depth, const unit* a, std::int64_t lda, const unit* b, float* c,
                              std::int64_t ldc, std::int64_t width, bool accumulate) {
    product_avx2<true>(depth, a, lda, b, c, ldc, width, accumulate);
  }
  static void product_by_columns(std::int64_t depth, const unit* a, std::int64_t lda, const unit* b, float* c,
                                 std::int64_t ldc, std::int64_t width, bool accumulate) {
    product_avx2<false>(depth, a, lda, b, c, ldc, width, accumulate);
  }
  static CAUSEWAY_TARGET_AVX2_LOOPS void softmax(float* s, std::int64_t ld, std::int64_t first, float scale, unit* p,
                                                 std::int64_t ldp, softmax_rows& rows) {
    softmax_loop(s, ld, first, scale, p, ldp, rows);
  }
  static CAUSEWAY_TARGET_AVX2_LOOPS void gradients(const float* s, const float* dp, std::int64_t ld, std::int64_t first,
                                                   std::int64_t columns, float scale, const gradient_rows& rows, unit* p,
                                                   unit* ds, std::int64_t ldp, unit*, std::int64_t) {
    gradients_loop(s, dp, ld, first, columns, scale, rows, p, ds, ldp);
  }
  static CAUSEWAY_TARGET_AVX2_LOOPS void store_rows(const float* tile, std::int64_t ld, head_view<Act> out,
                                                    const float* factors) {
    store_rows_loop(tile, ld, out, factors);
  }
  static CAUSEWAY_TARGET_AVX2_LOOPS void row_dots(head_view<const Act> a, head_view<const Act> b, float* dots) {
    row_dots_loop(a, b, dots);
  }
};

}  // namespace causeway::inline CAUSEWAY_ABI::kernels::detail

#endif  // CAUSEWAY_X86_SIMD

#endif  // CAUSEWAY_KERNELS_ATTENTION_TILES_AVX2_HPP
