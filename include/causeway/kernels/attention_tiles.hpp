// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_ATTENTION_TILES_HPP
#define CAUSEWAY_KERNELS_ATTENTION_TILES_HPP

// The small dense steps that attention is made of, for the portable and the AVX2 level. All operands are matrices of
// 32-bit units padded with zeros: a unit is one f32 here, two neighbouring bf16 in attention_tiles_avx512.hpp, and `pair`
// says how many values of the summed dimension it holds. Every step works on panels of 8 rows.
//   A operand, by rows:    [m][lda] units, the summed dimension contiguous
//   A operand, by columns: [k/pair][lda] units, the rows contiguous
//   B operand:             [n/32][k/pair][32] units
// Padding lets the products do without any edge case; a caller never looks at a padded result.

#include <causeway/config/config.hpp>
#include <causeway/kernels/cpu_features.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#if CAUSEWAY_X86_SIMD
#include <immintrin.h>
#endif

// Loops over register arrays must be unrolled completely, or the arrays live in memory.
#if defined(__clang__)
#define CAUSEWAY_TARGET_AVX2_LOOPS CAUSEWAY_TARGET_AVX2
#else
#define CAUSEWAY_TARGET_AVX2_LOOPS __attribute__((optimize("O3"))) CAUSEWAY_TARGET_AVX2
#endif

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels { namespace detail {

inline constexpr std::int64_t panel_rows = 8;     ///< rows of one product step
inline constexpr std::int64_t tile_columns = 32;  ///< columns of one product step, or half of them
inline constexpr float log2_of_e = 1.44269504088896341F;

constexpr std::int64_t rounded_up(std::int64_t n, std::int64_t multiple) noexcept {
  return (n + multiple - 1) / multiple * multiple;
}

/// One head's rows of an activation: `rows` tokens of `columns` values, `stride` apart.
template <class Act>
struct head_view {
  Act* data = nullptr;
  std::int64_t stride = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;

  [[nodiscard]] Act* row(std::int64_t i) const noexcept { return data + i * stride; }
  [[nodiscard]] head_view from(std::int64_t first, std::int64_t count) const noexcept {
    return {row(first), stride, std::min(count, rows - first), columns};
  }
};

/// What the softmax of a panel leaves behind.
struct softmax_rows {
  float inverse_sum[panel_rows];
  float logsumexp[panel_rows];
};

/// What the backward pass knows of a panel's rows: logsumexp in units of log 2 (infinite for padding rows, whose
/// probabilities so become zero) and sum(d_o * o).
struct gradient_rows {
  float logsumexp2[panel_rows];
  float correction[panel_rows];
};

/// 2^t for t below 128; 0 below -126. Relative error 1e-7.
CAUSEWAY_ALWAYS_INLINE float power_of_two(float t) noexcept {
  const float clamped = t > -126.0F ? (t < 127.0F ? t : 127.0F) : -126.0F;
  const float rounded = (clamped + 12582912.0F) - 12582912.0F;
  const float r = clamped - rounded;
  float p = 0.001327647129F;
  p = p * r + 0.009675540961F;
  p = p * r + 0.055507130921F;
  p = p * r + 0.240221202374F;
  p = p * r + 0.693146944046F;
  p = p * r + 1.00000012F;
  const float scale = std::bit_cast<float>((static_cast<std::int32_t>(rounded) + 127) << 23);
  return t < -126.0F ? 0.0F : p * scale;
}

// ---- loops for any level --------------------------------------------------------------------------------------------

template <class Act>
CAUSEWAY_ALWAYS_INLINE void pack_rows_loop(const head_view<const Act>& x, float* out, std::int64_t ld, std::int64_t rows) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t n = i < x.rows ? x.columns : 0;
    const Act* row = x.row(i);
    for (std::int64_t j = 0; j < n; ++j) out[i * ld + j] = static_cast<float>(row[j]);
    for (std::int64_t j = n; j < ld; ++j) out[i * ld + j] = 0.0F;
  }
}

/// B operand whose columns are the tokens: sums run over the head.
template <class Act>
CAUSEWAY_ALWAYS_INLINE void pack_transposed_loop(const head_view<const Act>& x, float* out, std::int64_t depth,
                                                 std::int64_t tokens) {
  for (std::int64_t block = 0; block < tokens; block += tile_columns) {
    for (std::int64_t j = 0; j < tile_columns; ++j) {
      const bool real = block + j < x.rows;
      const Act* row = x.row(real ? block + j : 0);
      float* column = out + block * depth + j;
      for (std::int64_t p = 0; p < depth; ++p) {
        column[p * tile_columns] = real && p < x.columns ? static_cast<float>(row[p]) : 0.0F;
      }
    }
  }
}

/// B operand whose columns are the head: sums run over the tokens.
template <class Act>
CAUSEWAY_ALWAYS_INLINE void pack_tokens_loop(const head_view<const Act>& x, float* out, std::int64_t columns,
                                             std::int64_t tokens) {
  for (std::int64_t block = 0; block < columns; block += tile_columns) {
    for (std::int64_t i = 0; i < tokens; ++i) {
      const std::int64_t n = i < x.rows ? std::min(tile_columns, x.columns - block) : 0;
      const Act* row = x.row(n > 0 ? i : 0) + block;
      float* line = out + block * tokens + i * tile_columns;
      for (std::int64_t j = 0; j < n; ++j) line[j] = static_cast<float>(row[j]);
      for (std::int64_t j = std::max<std::int64_t>(n, 0); j < tile_columns; ++j) line[j] = 0.0F;
    }
  }
}

CAUSEWAY_ALWAYS_INLINE void softmax_loop(float* s, std::int64_t ld, std::int64_t first, float scale, float* p,
                                         std::int64_t ldp, softmax_rows& rows) {
  const float scale2 = scale * log2_of_e;
  const std::int64_t columns = rounded_up(first + panel_rows, 16);
  for (std::int64_t i = 0; i < panel_rows; ++i) {
    float* line = s + i * ld;
    std::fill(line + first + i + 1, line + columns, -std::numeric_limits<float>::infinity());
    const float top = *std::max_element(line, line + columns);
    const float shift = -top * scale2;
    float sum = 0.0F;
    for (std::int64_t j = 0; j < columns; ++j) sum += p[i * ldp + j] = power_of_two(line[j] * scale2 + shift);
    rows.inverse_sum[i] = 1.0F / sum;
    rows.logsumexp[i] = top * scale + std::log(sum);
  }
}

CAUSEWAY_ALWAYS_INLINE void gradients_loop(const float* s, const float* dp, std::int64_t ld, std::int64_t first,
                                           std::int64_t columns, float scale, const gradient_rows& rows, float* p,
                                           float* ds, std::int64_t ldp) {
  const float scale2 = scale * log2_of_e;
  for (std::int64_t i = 0; i < panel_rows; ++i) {
    const std::int64_t valid = std::min(first + i + 1, columns);
    const float shift = -rows.logsumexp2[i];
    const float correction = rows.correction[i];
    for (std::int64_t j = 0; j < valid; ++j) {
      const float probability = power_of_two(s[i * ld + j] * scale2 + shift);
      p[i * ldp + j] = probability;
      ds[i * ldp + j] = scale * probability * (dp[i * ld + j] - correction);
    }
    for (std::int64_t j = valid; j < columns; ++j) p[i * ldp + j] = ds[i * ldp + j] = 0.0F;
  }
}

template <class Act>
CAUSEWAY_ALWAYS_INLINE void store_rows_loop(const float* tile, std::int64_t ld, const head_view<Act>& out,
                                            const float* factors) {
  for (std::int64_t i = 0; i < out.rows; ++i) {
    const float factor = factors == nullptr ? 1.0F : factors[i];
    Act* row = out.row(i);
    for (std::int64_t j = 0; j < out.columns; ++j) row[j] = static_cast<Act>(tile[i * ld + j] * factor);
  }
}

template <class Act>
CAUSEWAY_ALWAYS_INLINE void row_dots_loop(const head_view<const Act>& a, const head_view<const Act>& b, float* dots) {
  for (std::int64_t i = 0; i < a.rows; ++i) {
    float sum = 0.0F;
    for (std::int64_t j = 0; j < a.columns; ++j) sum += static_cast<float>(a.row(i)[j]) * static_cast<float>(b.row(i)[j]);
    dots[i] = sum;
  }
}

/// c[8][width] (+)= sum over p of A(i, p) B(p, j), A(i, p) = a[i*row_step + p*sum_step].
CAUSEWAY_ALWAYS_INLINE void product_loop(std::int64_t depth, const float* a, std::int64_t row_step, std::int64_t sum_step,
                                         const float* b, float* c, std::int64_t ldc, std::int64_t width, bool accumulate) {
  for (std::int64_t i = 0; i < panel_rows; ++i) {
    float sums[tile_columns] = {};
    for (std::int64_t p = 0; p < depth; ++p) {
      const float x = a[i * row_step + p * sum_step];
      for (std::int64_t j = 0; j < tile_columns; ++j) sums[j] += x * b[p * tile_columns + j];
    }
    for (std::int64_t j = 0; j < std::min(width, tile_columns); ++j)
      c[i * ldc + j] = (accumulate ? c[i * ldc + j] : 0.0F) + sums[j];
  }
}

/// The steps without any instruction set.
template <class Act>
struct portable_tiles {
  using unit = float;
  static constexpr std::int64_t pair = 1;

  static void pack_rows(head_view<const Act> x, unit* out, std::int64_t ld, std::int64_t rows) {
    pack_rows_loop(x, out, ld, rows);
  }
  static void pack_transposed(head_view<const Act> x, unit* out, std::int64_t depth, std::int64_t tokens) {
    pack_transposed_loop(x, out, depth, tokens);
  }
  static void pack_tokens(head_view<const Act> x, unit* out, std::int64_t columns, std::int64_t tokens) {
    pack_tokens_loop(x, out, columns, tokens);
  }
  static void product_by_rows(std::int64_t depth, const unit* a, std::int64_t lda, const unit* b, float* c,
                              std::int64_t ldc, std::int64_t width, bool accumulate) {
    product_loop(depth, a, lda, 1, b, c, ldc, width, accumulate);
  }
  static void product_by_columns(std::int64_t depth, const unit* a, std::int64_t lda, const unit* b, float* c,
                                 std::int64_t ldc, std::int64_t width, bool accumulate) {
    product_loop(depth, a, 1, lda, b, c, ldc, width, accumulate);
  }
  static void softmax(float* s, std::int64_t ld, std::int64_t first, float scale, unit* p, std::int64_t ldp,
                      softmax_rows& rows) {
    softmax_loop(s, ld, first, scale, p, ldp, rows);
  }
  static void gradients(const float* s, const float* dp, std::int64_t ld, std::int64_t first, std::int64_t columns,
                        float scale, const gradient_rows& rows, unit* p, unit* ds, std::int64_t ldp, unit*, std::int64_t) {
    gradients_loop(s, dp, ld, first, columns, scale, rows, p, ds, ldp);
  }
  static void store_rows(const float* tile, std::int64_t ld, head_view<Act> out, const float* factors) {
    store_rows_loop(tile, ld, out, factors);
  }
  static void row_dots(head_view<const Act> a, head_view<const Act> b, float* dots) { row_dots_loop(a, b, dots); }
};

}}}}  // namespace causeway::CAUSEWAY_ABI::kernels::detail

#endif  // CAUSEWAY_KERNELS_ATTENTION_TILES_HPP
