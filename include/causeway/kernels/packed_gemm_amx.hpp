// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_PACKED_GEMM_AMX_HPP
#define CAUSEWAY_KERNELS_PACKED_GEMM_AMX_HPP

// Packing and tile product with AMX: eight registers of 16 rows of 64 bytes, and one instruction that multiplies 16 x 32
// bf16 by 32 x 16 and adds to 16 x 16 sums in f32. Ours is 2 x 2 of those. A packed element is 64 bytes: of A, 32 values
// of one row along k; of B, half a row of pairs (as in packed_gemm_avx512_bf16.hpp), 16 columns of two values of k. Beyond
// the end of k both are zero. Rows beyond an operand's edge are whatever follows: they feed only sums that nobody reads.

#include <causeway/config/config.hpp>
#include <causeway/kernels/cpu_features.hpp>
#include <causeway/kernels/packed_gemm_avx512.hpp>
#include <causeway/kernels/packed_gemm_avx512_bf16.hpp>
#include <causeway/kernels/packed_gemm_blocking.hpp>
#include <causeway/kernels/packed_gemm_finish.hpp>
#include <causeway/tensor/dtype.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

#if CAUSEWAY_X86_SIMD
#include <immintrin.h>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels { namespace detail {

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 sees one inside its own intrinsics (its bug 105593)
#endif

/// What ldtilecfg reads: every register has 16 rows of 64 bytes.
struct alignas(64) amx_configuration {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(amx_configuration) == 64);
inline constexpr amx_configuration amx_full_tiles{};

/// 32 x 32 sums of products of bf16. The registers are a thread's own: open() before its first product, close() after
/// its last.
struct amx_tile : tile_defaults {
  struct packed {
    std::uint32_t pairs[16];
  };
  static constexpr int rows = 32;
  static constexpr int columns = 32;
  static constexpr std::int64_t row_unit = rows;  // a lower panel costs as much as a full one
  static constexpr int depth_step = 32;
  static constexpr simd_level level = simd_level::avx512;
  static constexpr block_sizes blocks{1536, 128, 384};

  CAUSEWAY_TARGET_AMX static void open() noexcept { _tile_loadconfig(&amx_full_tiles); }
  CAUSEWAY_TARGET_AMX static void close() noexcept { _tile_release(); }

  /// A strip of B: for each step, 16 rows of `columns` pairs.
  static void pack(operand<bf16> source, int lanes, std::int64_t depth, int /*width*/, packed* out) {
    auto* pairs = reinterpret_cast<std::uint32_t*>(out);
    avx512_bf16_tile::pack(source, lanes, depth, columns, pairs);
    const std::int64_t used = divide_up(depth, 2) * columns;
    const std::int64_t all = divide_up(depth, depth_step) * columns * 16;
    std::memset(pairs + used, 0, static_cast<std::size_t>(all - used) * sizeof(*pairs));
  }

  /// A panel of A: for each step, one element of each of `lanes` rows.
  CAUSEWAY_TARGET_AVX512 static void pack_panel(operand<bf16> source, int lanes, std::int64_t depth, packed* out) {
    if (source.lane_stride == 1) return pack_transposed(source, lanes, depth, out);
    for (std::int64_t p = 0; p < depth; p += depth_step, out += lanes) {
      for (int lane = 0; lane < lanes; ++lane) {
        const bf16* from = source.data + lane * source.lane_stride + p;
        _mm512_storeu_si512(out + lane, avx512_pairs::along_depth(from, depth - p));
        _mm_prefetch(from + lanes * source.lane_stride, _MM_HINT_T1);  // the next panel
      }
    }
  }

  /// c = a b, or c += a b, for a panel of `height` rows and one strip.
  CAUSEWAY_TARGET_AMX static void multiply(int height, std::int64_t steps, const packed* a, const packed* b, float* c,
                                           std::int64_t ldc, bool add) {
    const coming soon{c, ldc * static_cast<std::int64_t>(sizeof(float))};
    if (height == rows && !add) return sum_up<true>(height, steps, a, b, c, ldc, soon);
    alignas(64) float sums[rows * columns];
    sum_up(height, steps, a, b, sums, soon);
    for (int i = 0; i < height; ++i) {
      for (int j = 0; j < columns; j += 16) {
        const __m512 sum = _mm512_load_ps(sums + i * columns + j);
        float* to = c + i * ldc + j;
        _mm512_storeu_ps(to, add ? _mm512_add_ps(sum, _mm512_loadu_ps(to)) : sum);
      }
    }
  }

  /// The frequent finish of a whole strip: a b, earlier sums and bias, if any, rounded to bf16.
  CAUSEWAY_TARGET_AMX static void multiply_and_round(int height, std::int64_t steps, const packed* a, const packed* b,
                                                     const finish_args<bf16>& to) {
    alignas(64) float sums[rows * columns];
    sum_up(height, steps, a, b, sums, {to.c, to.ldc * static_cast<std::int64_t>(sizeof(bf16))});
    const __m512 left = to.bias == nullptr ? _mm512_setzero_ps() : _mm512_loadu_ps(to.bias);
    const __m512 right = to.bias == nullptr ? _mm512_setzero_ps() : _mm512_loadu_ps(to.bias + 16);
    for (int i = 0; i < height; ++i) {
      __m512 x = _mm512_add_ps(_mm512_load_ps(sums + i * columns), left);
      __m512 y = _mm512_add_ps(_mm512_load_ps(sums + i * columns + 16), right);
      if (to.partial != nullptr) {
        x = _mm512_add_ps(x, _mm512_loadu_ps(to.partial + i * to.ld_partial));
        y = _mm512_add_ps(y, _mm512_loadu_ps(to.partial + i * to.ld_partial + 16));
      }
      _mm512_storeu_si512(to.c + i * to.ldc, (__m512i)_mm512_cvtne2ps_pbh(y, x));
    }
  }

 private:
  /// Rows of A lie along k in memory's second dimension: 16 x 16 pairs at a time are turned.
  CAUSEWAY_TARGET_AVX512 static void pack_transposed(operand<bf16> source, int lanes, std::int64_t depth, packed* out) {
    for (std::int64_t p = 0; p < depth; p += depth_step, out += lanes) {
      for (int lane = 0; lane < lanes; lane += 16) {
        const bf16* from = source.data + p * source.depth_stride + lane;
        __m512i r[16];
        CAUSEWAY_UNROLL
        for (int i = 0; i < 16; ++i) {
          const std::int64_t left = depth - p - 2 * i;
          r[i] = left > 0 ? avx512_pairs::along_lanes(from + 2 * i * source.depth_stride, source.depth_stride, left,
                                                      low_bits(lanes - lane))
                          : _mm512_setzero_si512();
        }
        transpose_16x16(r);
        CAUSEWAY_UNROLL
        for (int i = 0; i < 16; ++i) {
          if (lane + i < lanes) _mm512_storeu_si512(out + lane + i, r[i]);
        }
      }
    }
  }

  static constexpr std::int64_t line = sizeof(packed);

  /// Rows of C, `pitch` bytes apart, that will be written once the sums are there.
  struct coming {
    const void* c;
    std::int64_t pitch;
  };

  CAUSEWAY_TARGET_AMX static void sum_up(int height, std::int64_t steps, const packed* a, const packed* b, float* sums,
                                         coming soon) noexcept {
    if (height > 16) return sum_up<true>(height, steps, a, b, sums, columns, soon);
    sum_up<false>(height, steps, a, b, sums, columns, soon);
  }

  /// Registers 0 to 3 are the sums, 4 and 5 rows of A, 6 and 7 columns of B. Without `Two`, only the upper 16 rows. The
  /// compiler does not know what these instructions read: nothing may move past either end.
  template <bool Two>
  CAUSEWAY_TARGET_AMX static void sum_up(std::int64_t height, std::int64_t steps, const packed* a, const packed* b,
                                         float* sums, std::int64_t ld, coming soon) noexcept {
    const std::int64_t pitch = ld * static_cast<std::int64_t>(sizeof(float));
    const char* row = static_cast<const char*>(soon.c);
    asm volatile("" ::: "memory");
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (std::int64_t p = 0; p < steps; ++p, a += height, b += columns) {
      if (p < rows / 4) {
        CAUSEWAY_UNROLL
        for (int i = 0; i < 4; ++i, row += soon.pitch) {
          _mm_prefetch(row, _MM_HINT_T0);
          _mm_prefetch(row + line, _MM_HINT_T0);
        }
      }
      _tile_loadd(6, b, 2 * line);
      _tile_loadd(4, a, line);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(7, b + 1, 2 * line);
      _tile_dpbf16ps(1, 4, 7);
      if constexpr (Two) {
        _tile_loadd(5, a + 16, line);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
      }
    }
    _tile_stored(0, sums, pitch);
    _tile_stored(1, sums + 16, pitch);
    if constexpr (Two) {
      _tile_stored(2, sums + 16 * ld, pitch);
      _tile_stored(3, sums + 16 * ld + 16, pitch);
    }
    asm volatile("" ::: "memory");
  }
};

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

}}}}  // namespace causeway::CAUSEWAY_ABI::kernels::detail

#endif  // CAUSEWAY_X86_SIMD

#endif  // CAUSEWAY_KERNELS_PACKED_GEMM_AMX_HPP
