// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_PACKED_GEMM_AVX512_BF16_HPP
#define CAUSEWAY_KERNELS_PACKED_GEMM_AVX512_BF16_HPP

// Packing and tile product with AVX-512's bf16 dot products, on Zen 4 and 5 at twice the rate of f32
// (bf16_level.hpp asks the machine). A packed element is 32 bits: two
// bf16 that follow each other along k, which is what vdpbf16ps multiplies with another such pair and adds to an f32 sum.

#include <causeway/config/config.hpp>
#include <causeway/kernels/cpu_features.hpp>
#include <causeway/kernels/packed_gemm_avx512.hpp>
#include <causeway/kernels/packed_gemm_blocking.hpp>
#include <causeway/kernels/packed_gemm_finish.hpp>
#include <causeway/tensor/dtype.hpp>

#include <cstddef>
#include <cstdint>

#if CAUSEWAY_X86_SIMD
#include <immintrin.h>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels { namespace detail {

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 sees one inside its own intrinsics (its bug 105593)
#endif

/// Reads 16 packed elements, pairs of bf16. One element holds two values of k; beyond the end of k it is zero.
struct avx512_pairs {
  static constexpr int depth_step = 2;

  CAUSEWAY_TARGET_AVX512 static CAUSEWAY_ALWAYS_INLINE __m512i along_depth(const bf16* from, std::int64_t depth) noexcept {
    const std::uint32_t mask = depth >= 32 ? 0xFFFFFFFFU : (1U << depth) - 1U;
    return _mm512_maskz_loadu_epi16(mask, from);
  }
  CAUSEWAY_TARGET_AVX512 static CAUSEWAY_ALWAYS_INLINE __m512i along_lanes(const bf16* from, std::int64_t stride,
                                                                           std::int64_t depth,
                                                                           std::uint16_t mask) noexcept {
    const __m512i even = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from));
    if (depth < 2) return even;
    const __m512i odd = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from + stride));
    return _mm512_or_si512(even, _mm512_slli_epi32(odd, 16));
  }
};

/// bf16 dot products of pairs, summed in f32.
struct avx512_bf16_tile : avx512_tile_base {
  using packed = std::uint32_t;
  static constexpr int depth_step = 2;
  static constexpr block_sizes blocks{768, 256, 1536};

  static void pack(operand<bf16> source, int lanes, std::int64_t depth, int width, packed* out) {
    using packing = avx512_packing<avx512_pairs, bf16, packed>;
    if (source.lane_stride == 1) return packing::along_lanes(source, lanes, depth, width, out);
    packing::along_depth(source, lanes, depth, width, out);
  }

  static void multiply(int height, std::int64_t steps, const packed* a, const packed* b, float* c, std::int64_t ldc,
                       bool add) {
    static constexpr auto table = by_height<rows>([](auto n) { return &multiply_rows<n()>; });
    table[static_cast<std::size_t>(height - 1)](steps, a, b, c, ldc, add);
  }

  /// The frequent finish of a whole strip without a detour: a b, earlier sums and bias, if any, rounded to bf16.
  static void multiply_and_round(int height, std::int64_t steps, const packed* a, const packed* b,
                                 const finish_args<bf16>& to) {
    static constexpr auto table = by_height<rows>([](auto n) { return &round_rows<n()>; });
    table[static_cast<std::size_t>(height - 1)](steps, a, b, to);
  }

 private:
  template <int Height>
  CAUSEWAY_TARGET_AVX512_BF16 static CAUSEWAY_ALWAYS_INLINE void sum_up(__m512 (&sum)[Height][2], std::int64_t steps,
                                                                        const packed* a, const packed* b) noexcept {
    for (std::int64_t p = 0; p < steps; ++p, a += Height, b += columns) {
      const auto left = (__m512bh)_mm512_loadu_si512(b);
      const auto right = (__m512bh)_mm512_loadu_si512(b + 16);
      _mm_prefetch(b + 8 * columns, _MM_HINT_T0);
      _mm_prefetch(b + 8 * columns + 16, _MM_HINT_T0);
      CAUSEWAY_UNROLL
      for (int i = 0; i < Height; ++i) {
        const auto x = (__m512bh)_mm512_set1_epi32(static_cast<int>(a[i]));
        sum[i][0] = _mm512_dpbf16_ps(sum[i][0], x, left);
        sum[i][1] = _mm512_dpbf16_ps(sum[i][1], x, right);
      }
    }
  }

  template <int Height>
  CAUSEWAY_TARGET_AVX512_BF16 static void multiply_rows(std::int64_t steps, const packed* a, const packed* b, float* c,
                                                        std::int64_t ldc, bool add) {
    __m512 sum[Height][2];
    CAUSEWAY_UNROLL
    for (int i = 0; i < Height; ++i) {
      sum[i][0] = _mm512_setzero_ps();
      sum[i][1] = _mm512_setzero_ps();
      _mm_prefetch(c + i * ldc, _MM_HINT_T0);
      _mm_prefetch(c + i * ldc + 16, _MM_HINT_T0);
    }
    sum_up(sum, steps, a, b);
    store(sum, c, ldc, add);
  }

  template <int Height>
  CAUSEWAY_TARGET_AVX512_BF16 static void round_rows(std::int64_t steps, const packed* a, const packed* b,
                                                     const finish_args<bf16>& to) {
    __m512 sum[Height][2];
    const __m512 left = to.bias == nullptr ? _mm512_setzero_ps() : _mm512_loadu_ps(to.bias);
    const __m512 right = to.bias == nullptr ? _mm512_setzero_ps() : _mm512_loadu_ps(to.bias + 16);
    CAUSEWAY_UNROLL
    for (int i = 0; i < Height; ++i) {
      sum[i][0] = left;
      sum[i][1] = right;
      _mm_prefetch(to.c + i * to.ldc, _MM_HINT_T0);
    }
    sum_up(sum, steps, a, b);
    if (to.partial != nullptr) {
      CAUSEWAY_UNROLL
      for (int i = 0; i < Height; ++i) {
        sum[i][0] = _mm512_add_ps(sum[i][0], _mm512_loadu_ps(to.partial + i * to.ld_partial));
        sum[i][1] = _mm512_add_ps(sum[i][1], _mm512_loadu_ps(to.partial + i * to.ld_partial + 16));
      }
    }
    CAUSEWAY_UNROLL
    for (int i = 0; i < Height; ++i) {
      _mm512_storeu_si512(to.c + i * to.ldc, (__m512i)_mm512_cvtne2ps_pbh(sum[i][1], sum[i][0]));
    }
  }
};

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

}}}}  // namespace causeway::CAUSEWAY_ABI::kernels::detail

#endif  // CAUSEWAY_X86_SIMD

#endif  // CAUSEWAY_KERNELS_PACKED_GEMM_AVX512_BF16_HPP
