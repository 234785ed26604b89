// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_PACKED_GEMM_AVX2_HPP
#define CAUSEWAY_KERNELS_PACKED_GEMM_AVX2_HPP

// Packing and tile product with AVX2 and FMA. A tile is 6 x 16 sums: 12 of the 16 registers, two for B, one for
// A. bf16 operands are widened to f32 while they are packed. Lanes beyond an operand's edge repeat its last lane or are
// zero: they feed only sums that nobody reads.

#include <causeway/config/config.hpp>
#include <causeway/kernels/cpu_features.hpp>
#include <causeway/kernels/packed_gemm_blocking.hpp>
#include <causeway/tensor/dtype.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if CAUSEWAY_X86_SIMD
#include <immintrin.h>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels { namespace detail {

/// Eight values, of which the first `count` exist and the others are zero.
struct avx2_values {
  CAUSEWAY_TARGET_AVX2 static CAUSEWAY_ALWAYS_INLINE __m256i first(std::int64_t count) noexcept {
    const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), index);
  }
  CAUSEWAY_TARGET_AVX2 static CAUSEWAY_ALWAYS_INLINE __m256 load(const float* from, std::int64_t count) noexcept {
    if (count >= 8) return _mm256_loadu_ps(from);
    return _mm256_maskload_ps(from, first(count));
  }
  /// Five to seven, as panels of A have: two loads that overlap. A load of what was just written one by one would wait.
  CAUSEWAY_TARGET_AVX2 static CAUSEWAY_ALWAYS_INLINE __m128i load_bits(const bf16* from, std::int64_t count) noexcept {
    if (count >= 8) return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    std::uint64_t low = 0, high = 0;
    if (count > 4) {
      std::memcpy(&low, from, sizeof low);
      std::memcpy(&high, from + count - 4, sizeof high);
      high >>= static_cast<unsigned>(16 * (8 - count));
    } else {
      std::memcpy(&low, from, static_cast<std::size_t>(std::max<std::int64_t>(count, 0)) * sizeof(bf16));
    }
    return _mm_set_epi64x(static_cast<long long>(high), static_cast<long long>(low));
  }
  CAUSEWAY_TARGET_AVX2 static CAUSEWAY_ALWAYS_INLINE __m256 load(const bf16* from, std::int64_t count) noexcept {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_bits(from, count)), 16));
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

struct avx2_tile : tile_defaults {
  using packed = float;
  static constexpr int rows = 6;
  static constexpr int columns = 16;
  static constexpr simd_level level = simd_level::avx2;
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
    static constexpr auto table = by_height<rows>([](auto n) { return &multiply_rows<n()>; });
    table[static_cast<std::size_t>(height - 1)](steps, a, b, c, ldc, add);
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

  /// Widened last: twice as many values are moved by each step before. r[i] holds lanes i and i + 4.
  CAUSEWAY_TARGET_AVX2 static CAUSEWAY_ALWAYS_INLINE void transpose_block(operand<bf16> source, int lanes, int lane,
                                                                          std::int64_t p, std::int64_t depth, int width,
                                                                          packed* out) {
    const int last = lanes - 1;
    __m128i row[8];
    CAUSEWAY_UNROLL
    for (int i = 0; i < 8; ++i) {
      row[i] = avx2_values::load_bits(source.data + std::min(lane + i, last) * source.lane_stride + p, depth);
    }
    __m256i r[4], t[4];
    CAUSEWAY_UNROLL
    for (int i = 0; i < 4; ++i) r[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(row[i]), row[i + 4], 1);
    CAUSEWAY_UNROLL
    for (int i = 0; i < 4; i += 2) {  // pairs of lanes: four steps of depth in t[i], four in t[i + 1]
      t[i] = _mm256_unpacklo_epi16(r[i], r[i + 1]);
      t[i + 1] = _mm256_unpackhi_epi16(r[i], r[i + 1]);
    }
    CAUSEWAY_UNROLL
    for (int i = 0; i < 2; ++i) {  // all lanes: two steps of depth in each
      r[2 * i] = _mm256_unpacklo_epi32(t[i], t[i + 2]);
      r[2 * i + 1] = _mm256_unpackhi_epi32(t[i], t[i + 2]);
    }
    const __m256i zero = _mm256_setzero_si256();
    CAUSEWAY_UNROLL
    for (int i = 0; i < 8; ++i) {
      const __m256i wide = i % 2 == 0 ? _mm256_unpacklo_epi16(zero, r[i / 2]) : _mm256_unpackhi_epi16(zero, r[i / 2]);
      if (i < depth) _mm256_storeu_ps(out + i * width, _mm256_castsi256_ps(wide));
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
};

}}}}  // namespace causeway::CAUSEWAY_ABI::kernels::detail

#endif  // CAUSEWAY_X86_SIMD

#endif  // CAUSEWAY_KERNELS_PACKED_GEMM_AVX2_HPP
