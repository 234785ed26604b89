// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_PACKED_GEMM_AVX512_HPP
#define CAUSEWAY_KERNELS_PACKED_GEMM_AVX512_HPP

// Packing and tile product with AVX-512. A tile is 14 x 32 sums: 28 of the 32 registers, two for B, one for A. A packed
// element is 32 bits. bf16 operands are widened to f32 while they are packed, for processors without bf16 products. Lanes
// beyond an operand's edge repeat its last lane: they feed only sums that nobody reads.

#include <causeway/config/config.hpp>
#include <causeway/kernels/cpu_features.hpp>
#include <causeway/kernels/packed_gemm_blocking.hpp>
#include <causeway/tensor/dtype.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#if CAUSEWAY_X86_SIMD
#include <immintrin.h>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels { namespace detail {

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 sees one inside its own intrinsics (its bug 105593)
#endif

/// The lowest `count` bits of 16.
constexpr std::uint16_t low_bits(std::int64_t count) noexcept {
  return count >= 16 ? std::uint16_t{0xFFFF} : static_cast<std::uint16_t>((1U << count) - 1U);
}

/// Reads 16 packed elements, f32 from `In`. One element holds one value of k.
template <class In>
struct avx512_values {
  static constexpr int depth_step = 1;

  CAUSEWAY_TARGET_AVX512 static CAUSEWAY_ALWAYS_INLINE __m512i load(const float* from, std::uint16_t mask) noexcept {
    return _mm512_maskz_loadu_epi32(mask, from);
  }
  CAUSEWAY_TARGET_AVX512 static CAUSEWAY_ALWAYS_INLINE __m512i load(const bf16* from, std::uint16_t mask) noexcept {
    return _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from)), 16);
  }
  /// 16 successive elements along k, of which `depth` values exist.
  CAUSEWAY_TARGET_AVX512 static CAUSEWAY_ALWAYS_INLINE __m512i along_depth(const In* from, std::int64_t depth) noexcept {
    return load(from, low_bits(depth));
  }
  /// One element of each of 16 lanes.
  CAUSEWAY_TARGET_AVX512 static CAUSEWAY_ALWAYS_INLINE __m512i along_lanes(const In* from, std::int64_t /*stride*/,
                                                                           std::int64_t /*depth*/,
                                                                           std::uint16_t mask) noexcept {
    return load(from, mask);
  }
};

/// r[i][j] becomes r[j][i], for 16 x 16 elements of 32 bits.
CAUSEWAY_TARGET_AVX512 CAUSEWAY_ALWAYS_INLINE void transpose_16x16(__m512i* r) noexcept {
  __m512i t[16];
  CAUSEWAY_UNROLL
  for (int i = 0; i < 16; i += 2) {  // pairs of elements
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  CAUSEWAY_UNROLL
  for (int i = 0; i < 16; i += 4) {  // groups of four within each 128-bit lane
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  CAUSEWAY_UNROLL
  for (int i = 0; i < 4; ++i) {  // 128-bit lanes of rows 0..7 and 8..15
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xDD);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xDD);
  }
  CAUSEWAY_UNROLL
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xDD);
    r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
    r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xDD);
  }
}

/// Packs any operand; `Reader` says what an element is. Each element row is written as whole vectors, so up to 15 elements
/// beyond a panel are overwritten: by the rows that follow, or into the slack at the block's end.
template <class Reader, class In, class Packed>
struct avx512_packing {
  CAUSEWAY_TARGET_AVX512 static void along_lanes(operand<In> source, int lanes, std::int64_t depth, int width,
                                                 Packed* out) {
    for (std::int64_t p = 0; p < depth; p += Reader::depth_step, out += width) {
      const In* from = source.data + p * source.depth_stride;
      for (int lane = 0; lane < width; lane += 16) {
        const auto mask = lane < lanes ? low_bits(lanes - lane) : std::uint16_t{0};
        _mm512_storeu_si512(out + lane, Reader::along_lanes(from + lane, source.depth_stride, depth - p, mask));
      }
    }
  }

  CAUSEWAY_TARGET_AVX512 static void along_depth(operand<In> source, int lanes, std::int64_t depth, int width,
                                                 Packed* out) {
    constexpr std::int64_t block = 16 * Reader::depth_step;
    for (std::int64_t p = 0; p < depth; p += block, out += 16 * width) {
      for (int lane = 0; lane < width; lane += 16) transpose_block(source, lanes, lane, p, depth - p, width, out + lane);
    }
  }

 private:
  CAUSEWAY_TARGET_AVX512 static CAUSEWAY_ALWAYS_INLINE void transpose_block(operand<In> source, int lanes, int lane,
                                                                            std::int64_t p, std::int64_t depth, int width,
                                                                            Packed* out) {
    __m512i r[16];
    const int last = lanes - 1;
    CAUSEWAY_UNROLL
    for (int i = 0; i < 16; ++i) {
      const In* from = source.data + std::min(lane + i, last) * source.lane_stride + p;
      r[i] = Reader::along_depth(from, depth);
      _mm_prefetch(from + width * source.lane_stride, _MM_HINT_T1);  // the next panel: hardware follows fewer streams
    }
    transpose_16x16(r);
    const std::int64_t steps = divide_up(depth, Reader::depth_step);
    CAUSEWAY_UNROLL
    for (int i = 0; i < 16; ++i) {
      if (i < steps) _mm512_storeu_si512(out + i * width, r[i]);
    }
  }
};

/// What the f32 and the bf16 tile have in common.
struct avx512_tile_base : tile_defaults {
  static constexpr int rows = 14;
  static constexpr int columns = 32;
  static constexpr simd_level level = simd_level::avx512;

 protected:
  template <int Height>
  CAUSEWAY_TARGET_AVX512 static CAUSEWAY_ALWAYS_INLINE void store(__m512 (&sum)[Height][2], float* c, std::int64_t ldc,
                                                                  bool add) noexcept {
    if (add) {
      CAUSEWAY_UNROLL
      for (int i = 0; i < Height; ++i) {
        sum[i][0] = _mm512_add_ps(sum[i][0], _mm512_loadu_ps(c + i * ldc));
        sum[i][1] = _mm512_add_ps(sum[i][1], _mm512_loadu_ps(c + i * ldc + 16));
      }
    }
    CAUSEWAY_UNROLL
    for (int i = 0; i < Height; ++i) {
      _mm512_storeu_ps(c + i * ldc, sum[i][0]);
      _mm512_storeu_ps(c + i * ldc + 16, sum[i][1]);
    }
  }
};

/// f32 multiply-adds; bf16 operands are widened while they are packed.
struct avx512_tile : avx512_tile_base {
  using packed = float;
  static constexpr int depth_step = 1;
  static constexpr block_sizes blocks{384, 256, 1536};

  template <class In>
  static void pack(operand<In> source, int lanes, std::int64_t depth, int width, packed* out) {
    using packing = avx512_packing<avx512_values<In>, In, packed>;
    if (source.lane_stride == 1) return packing::along_lanes(source, lanes, depth, width, out);
    packing::along_depth(source, lanes, depth, width, out);
  }

  static void multiply(int height, std::int64_t steps, const packed* a, const packed* b, float* c, std::int64_t ldc,
                       bool add) {
    static constexpr auto table = by_height<rows>([](auto n) { return &multiply_rows<n()>; });
    table[static_cast<std::size_t>(height - 1)](steps, a, b, c, ldc, add);
  }

 private:
  template <int Height>
  CAUSEWAY_TARGET_AVX512 static void multiply_rows(std::int64_t steps, const packed* a, const packed* b, float* c,
                                                   std::int64_t ldc, bool add) {
    __m512 sum[Height][2];
    CAUSEWAY_UNROLL
    for (int i = 0; i < Height; ++i) {
      sum[i][0] = _mm512_setzero_ps();
      sum[i][1] = _mm512_setzero_ps();
      _mm_prefetch(c + i * ldc, _MM_HINT_T0);
      _mm_prefetch(c + i * ldc + 16, _MM_HINT_T0);
    }
    for (std::int64_t p = 0; p < steps; ++p, a += Height, b += columns) {
      const __m512 left = _mm512_loadu_ps(b);
      const __m512 right = _mm512_loadu_ps(b + 16);
      _mm_prefetch(b + 8 * columns, _MM_HINT_T0);
      _mm_prefetch(b + 8 * columns + 16, _MM_HINT_T0);
      CAUSEWAY_UNROLL
      for (int i = 0; i < Height; ++i) {
        const __m512 x = _mm512_set1_ps(a[i]);
        sum[i][0] = _mm512_fmadd_ps(x, left, sum[i][0]);
        sum[i][1] = _mm512_fmadd_ps(x, right, sum[i][1]);
      }
    }
    store(sum, c, ldc, add);
  }
};

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

}}}}  // namespace causeway::CAUSEWAY_ABI::kernels::detail

#endif  // CAUSEWAY_X86_SIMD

#endif  // CAUSEWAY_KERNELS_PACKED_GEMM_AVX512_HPP
