// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_PACKED_GEMM_PORTABLE_HPP
#define CAUSEWAY_KERNELS_PACKED_GEMM_PORTABLE_HPP

// Packing and tile product without any particular instruction set: what a machine runs that has neither AVX2 nor
// AVX-512, and what the others are tested against.

#include <causeway/config/config.hpp>
#include <causeway/kernels/cpu_features.hpp>
#include <causeway/kernels/packed_gemm_blocking.hpp>

#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels { namespace detail {

/// A tile of 4 x 8 sums, made of vectors that every 64-bit processor has.
struct portable_tile : tile_defaults {
  using packed = float;
  static constexpr int rows = 4;
  static constexpr int columns = 8;
  static constexpr simd_level level = simd_level::portable;
  static constexpr int depth_step = 1;  ///< values of k in one packed element
  static constexpr block_sizes blocks{256, 128, 1024};

  /// Writes out[step * width + lane] for `lanes` lanes; lanes from there to `width` are zero.
  template <class In>
  static void pack(operand<In> source, int lanes, std::int64_t depth, int width, packed* out) {
    for (std::int64_t p = 0; p < depth; ++p, out += width) {
      const In* from = source.data + p * source.depth_stride;
      for (int lane = 0; lane < lanes; ++lane) out[lane] = static_cast<float>(from[lane * source.lane_stride]);
      for (int lane = lanes; lane < width; ++lane) out[lane] = 0.0F;
    }
  }

  /// c = a b, or c += a b, for a panel of `height` rows and one strip.
  static void multiply(int height, std::int64_t steps, const packed* a, const packed* b, float* c, std::int64_t ldc,
                       bool add) {
    switch (height) {
      case 1: return multiply_rows<1>(steps, a, b, c, ldc, add);
      case 2: return multiply_rows<2>(steps, a, b, c, ldc, add);
      case 3: return multiply_rows<3>(steps, a, b, c, ldc, add);
      default: return multiply_rows<4>(steps, a, b, c, ldc, add);
    }
  }

 private:
  template <int Height>
  static void multiply_rows(std::int64_t steps, const packed* a, const packed* b, float* c, std::int64_t ldc, bool add) {
    float sum[Height][columns] = {};
    for (std::int64_t p = 0; p < steps; ++p, a += Height, b += columns) {
      for (int i = 0; i < Height; ++i) {
        for (int j = 0; j < columns; ++j) sum[i][j] += a[i] * b[j];
      }
    }
    for (int i = 0; i < Height; ++i) {
      for (int j = 0; j < columns; ++j) c[i * ldc + j] = add ? c[i * ldc + j] + sum[i][j] : sum[i][j];
    }
  }
};

}}}}  // namespace causeway::CAUSEWAY_ABI::kernels::detail

#endif  // CAUSEWAY_KERNELS_PACKED_GEMM_PORTABLE_HPP
