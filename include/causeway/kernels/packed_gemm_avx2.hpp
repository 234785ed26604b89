// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_PACKED_GEMM_AVX2_HPP
#define CAUSEWAY_KERNELS_PACKED_GEMM_AVX2_HPP

// Packing, tile product and epilogue with AVX2 and FMA. A tile is 6 x 16 sums: 12 of the 16 registers, two for B, one for
// A. bf16 operands are widened to f32 while they are packed. Lanes beyond an operand's edge repeat its last lane or are
// zero: they feed only sums that nobody reads.

#include <causeway/config/config.hpp>
#include <causeway/kernels/cpu_features.hpp>
#include <causeway/kernels/packed_gemm_blocking.hpp>
#include <causeway/tensor/dtype.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#if CAUSEWAY_X86_SIMD
#include <immintrin.h>

namespace causeway::inline CAUSEWAY_ABI::kernels::detail {

/// Eight values, of which the first `count` exist and the others are zero; or the same written.
struct avx2_values {
  CAUSEWAY_TARGET_AVX2 static CAUSEWAY_ALWAYS_INLINE __m256i first(std::int64_t count) noexcept {
    const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), index);
  }
  CAUSEWAY_TARGET_AVX2 static CAUSEWAY_ALWAYS_INLINE __m256 load(const float* from, std::int64_t count) noexcept {
    if (count >= 8) return _mm256_loadu_ps(from);
    return _mm256_maskload_ps(from, first(count));
  }
  CAUSEWAY_TARGET_AVX2 static CAUSEWAY_ALWAYS_INLINE __m256 load(const bf16* from, std::int64_t count) noexcept {
    bf16 copy[8] = {};
    if (count < 8) {
      for (std::int64_t i = 0; i < count; ++i) copy[i] = from[i];
      from = copy;
    }
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  CAUSEWAY_TARGET_AVX2 static CAUSEWAY_ALWAYS_INLINE void store(float* to, std::int64_t count, __m256 value) noexcept {
    if (count >= 8) return _mm256_storeu_ps(to, value);
    _mm256_maskstore_ps(to, first(count), value);
  }
  CAUSEWAY_TARGET_AVX2 static CAUSEWAY_ALWAYS_INLINE void store(bf16* to, std::int64_t count, __m256 value) noexcept {
    const __m256i u = _mm256_castps_si256(value);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
    const __m256i quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
    const __m256 nan = _mm256_cmp_ps(value, value, _CMP_UNORD_Q);
    const __m256i bits = _mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(nan));
    const __m256i high = _mm256_srli_epi32(bits, 16);
    alignas(16) bf16 copy[8];
    _mm_store_si128(reinterpret_cast<__m128i*>(copy),
                    _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1)));
    if (count >= 8) return _mm_storeu_si128(reinterpret_cast<__m128i*>(to), *reinterpret_cast<const __m128i*>(copy));
    for (std::int64_t i = 0; i < count; ++i) to[i] = copy[i];
  }
};

/// r[i][j] becomes r[j][i], for 8 x 8 values.
CAUSEWAY_TARGET_AVX2 CAUSEWAY_ALWAYS_INLINE void transpose_8x8(__m256* r) noexcept {
  __m256 t[8];
  CAUSEWAY_UNROLL
  for (int i = 0; i < 8; i += 2) {  // pairs of values
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  CAUSEWAY_UNROLL
  for (int i = 0; i < 8; i += 4) {  // groups of four within each 128-bit lane
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xEE);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xEE);
  }
  CAUSEWAY_UNROLL
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
    t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
  }
  CAUSEWAY_UNROLL
  for (int i = 0; i < 8; ++i) r[i] = t[i];
}

/// exp to about 1 ulp, for arguments clamped to [-87, 88]; NaN stays NaN.
CAUSEWAY_TARGET_AVX2 CAUSEWAY_ALWAYS_INLINE __m256 exp_avx2(__m256 x) noexcept {
  x = _mm256_max_ps(_mm256_set1_ps(-87.0F), _mm256_min_ps(_mm256_set1_ps(88.0F), x));
  const __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504F)), 0x08);
  __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693359375F), x);
  r = _mm256_fnmadd_ps(n, _mm256_set1_ps(-2.12194440e-4F), r);
  __m256 p = _mm256_set1_ps(1.9875691500e-4F);  // the polynomial of Cephes' expf
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.3981999507e-3F));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(8.3334519073e-3F));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(4.1665795894e-2F));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.6666665459e-1F));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(5.0000001201e-1F));
  p = _mm256_add_ps(_mm256_fmadd_ps(_mm256_mul_ps(p, r), r, r), _mm256_set1_ps(1.0F));
  const __m256i power = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
  return _mm256_mul_ps(p, _mm256_castsi256_ps(power));
}

CAUSEWAY_TARGET_AVX2 CAUSEWAY_ALWAYS_INLINE __m256 gelu_avx2(__m256 x) noexcept {
  const __m256 cubed = _mm256_mul_ps(_mm256_mul_ps(x, x), _mm256_mul_ps(x, _mm256_set1_ps(gelu_cubic)));
  const __m256 e = exp_avx2(_mm256_mul_ps(_mm256_add_ps(x, cubed), _mm256_set1_ps(-gelu_scale)));
  return _mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1.0F), e));
}

struct avx2_tile {
  using packed = float;
  static constexpr int rows = 6;
  static constexpr int columns = 16;
  static constexpr int depth_step = 1;
  static constexpr block_sizes blocks{256, 144, 1536};

  template <class In>
  CAUSEWAY_TARGET_AVX2 static void pack(operand<In> source, int lanes, std::int64_t depth, int width, packed* out) {
    if (source.lane_stride == 1) return pack_along_lanes(source, lanes, depth, width, out);
    for (std::int64_t p = 0; p < depth; p += 8, out += 8 * width) {
      for (int lane = 0; lane < width; lane += 8) transpose_block(source, lanes, lane, p, depth - p, width, out + lane);
    }
  }

  static void multiply(int height, std::int64_t steps, const packed* a, const packed* b, float* c, std::int64_t ldc,
                       bool add) {
    static constexpr auto table = []<int... I>(std::integer_sequence<int, I...>) {
      using function = void (*)(std::int64_t, const packed*, const packed*, float*, std::int64_t, bool);
      return std::array<function, rows>{&multiply_rows<I + 1>...};
    }
    (std::make_integer_sequence<int, rows>{});
    table[static_cast<std::size_t>(height - 1)](steps, a, b, c, ldc, add);
  }

  /// Turns `height` x `width` sums in `tile` (rows `columns` apart) into C.
  template <class Out>
  CAUSEWAY_TARGET_AVX2 static void finish(const float* tile, int height, int width, const tile_finish<Out>& to) {
    for (int i = 0; i < height; ++i) {
      for (int j = 0; j < width; j += 8) finish_vector(tile + i * columns + j, i, j, width - j, to);
    }
  }

 private:
  template <class In>
  CAUSEWAY_TARGET_AVX2 static CAUSEWAY_ALWAYS_INLINE void pack_along_lanes(operand<In> source, int lanes,
                                                                           std::int64_t depth, int width, packed* out) {
    for (std::int64_t p = 0; p < depth; ++p, out += width) {
      const In* from = source.data + p * source.depth_stride;
      for (int lane = 0; lane < width; lane += 8) {
        const int left = std::max(lanes - lane, 0);
        _mm256_storeu_ps(out + lane, avx2_values::load(from + std::min(lane, lanes), left));
      }
    }
  }

  template <class In>
  CAUSEWAY_TARGET_AVX2 static CAUSEWAY_ALWAYS_INLINE void transpose_block(operand<In> source, int lanes, int lane,
                                                                          std::int64_t p, std::int64_t depth, int width,
                                                                          packed* out) {
    __m256 r[8];
    const int last = lanes - 1;
    CAUSEWAY_UNROLL
    for (int i = 0; i < 8; ++i) {
      r[i] = avx2_values::load(source.data + std::min(lane + i, last) * source.lane_stride + p, depth);
    }
    transpose_8x8(r);
    CAUSEWAY_UNROLL
    for (int i = 0; i < 8; ++i) {
      if (i < depth) _mm256_storeu_ps(out + i * width, r[i]);
    }
  }

  template <int Height>
  CAUSEWAY_TARGET_AVX2 static void multiply_rows(std::int64_t steps, const packed* a, const packed* b, float* c,
                                                 std::int64_t ldc, bool add) {
    __m256 sum[Height][2];
    CAUSEWAY_UNROLL
    for (int i = 0; i < Height; ++i) {
      sum[i][0] = _mm256_setzero_ps();
      sum[i][1] = _mm256_setzero_ps();
      _mm_prefetch(c + i * ldc, _MM_HINT_T0);
    }
    for (std::int64_t p = 0; p < steps; ++p, a += Height, b += columns) {
      const __m256 left = _mm256_loadu_ps(b);
      const __m256 right = _mm256_loadu_ps(b + 8);
      _mm_prefetch(b + 16 * columns, _MM_HINT_T0);
      CAUSEWAY_UNROLL
      for (int i = 0; i < Height; ++i) {
        const __m256 x = _mm256_broadcast_ss(a + i);
        sum[i][0] = _mm256_fmadd_ps(x, left, sum[i][0]);
        sum[i][1] = _mm256_fmadd_ps(x, right, sum[i][1]);
      }
    }
    CAUSEWAY_UNROLL
    for (int i = 0; i < Height; ++i) {
      float* to = c + i * ldc;
      if (add) {
        sum[i][0] = _mm256_add_ps(sum[i][0], _mm256_loadu_ps(to));
        sum[i][1] = _mm256_add_ps(sum[i][1], _mm256_loadu_ps(to + 8));
      }
      _mm256_storeu_ps(to, sum[i][0]);
      _mm256_storeu_ps(to + 8, sum[i][1]);
    }
  }

  template <class Out>
  CAUSEWAY_TARGET_AVX2 static CAUSEWAY_ALWAYS_INLINE void finish_vector(const float* sums, int i, int j, std::int64_t count,
                                                                        const tile_finish<Out>& to) noexcept {
    using values = avx2_values;
    __m256 value = _mm256_loadu_ps(sums);
    if (to.partial != nullptr) value = _mm256_add_ps(value, values::load(to.partial + i * to.ld_partial + j, count));
    if (to.accumulate) value = _mm256_add_ps(value, values::load(to.c + i * to.ldc + j, count));
    if (to.bias != nullptr) value = _mm256_add_ps(value, values::load(to.bias + j, count));
    if (to.pre_activation != nullptr) values::store(to.pre_activation + i * to.ldc + j, count, value);
    if (to.act == activation::gelu) value = gelu_avx2(value);
    if (to.residual != nullptr) value = _mm256_add_ps(value, values::load(to.residual + i * to.ld_residual + j, count));
    values::store(to.c + i * to.ldc + j, count, value);
  }
};

}  // namespace causeway::inline CAUSEWAY_ABI::kernels::detail

#endif  // CAUSEWAY_X86_SIMD

#endif  // CAUSEWAY_KERNELS_PACKED_GEMM_AVX2_HPP
