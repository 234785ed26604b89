// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_BODIES_MATRIX_TILES_HPP
#define CAUSEWAY_CUDA_BODIES_MATRIX_TILES_HPP

// Tiles of bf16 in shared memory and the products a warp makes of them. Chunks of 16 bytes are swizzled: eight rows one
// below another have theirs in eight different groups of banks, so neither the loads of fragments nor the copies meet in a
// bank. A product's left operand is a tile, or sums of a product before it, which lie in registers just so that two 16 x 8
// sums are one 16 x 16 left operand.

#include <causeway/config/config.hpp>
#include <causeway/cuda/bodies/pack.hpp>
#include <causeway/cuda/bodies/warp.hpp>
#include <causeway/tensor/dtype.hpp>

#include <bit>
#include <cstdint>
#include <limits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// Rows of `Columns` bf16 (64 or 128) in shared memory, 16-byte aligned.
template <int Columns>
struct shared_tile {
  static_assert(Columns % 64 == 0);
  static constexpr int chunk = 8;  // values in 16 bytes
  bf16* data;

  /// Where values 8 c .. 8 c + 7 of a row lie.
  [[nodiscard]] CAUSEWAY_HD bf16* at(int row, int c) const { return data + row * Columns + ((c ^ (row & 7)) * chunk); }
};

/// 16 M rows of 8 N columns of sums that one warp holds.
template <class W, int M, int N>
struct tile_sum {
  fragment_sum<W> at[M][N];
};

namespace detail {

template <class W, int M, int N>
CAUSEWAY_HD void clear(W& w, tile_sum<W, M, N>& sums) {
  w.each([&](int lane) {
    CAUSEWAY_UNROLL_ON_DEVICE
    for (int m = 0; m < M; ++m) {
      CAUSEWAY_UNROLL_ON_DEVICE
      for (int n = 0; n < N; ++n) {
        for (float& v : sums.at[m][n][lane]) v = 0.0F;
      }
    }
  });
}

template <class W, int M, int N>
CAUSEWAY_HD void scale(W& w, tile_sum<W, M, N>& sums, float factor) {
  w.each([&](int lane) {
    CAUSEWAY_UNROLL_ON_DEVICE
    for (int m = 0; m < M; ++m) {
      CAUSEWAY_UNROLL_ON_DEVICE
      for (int n = 0; n < N; ++n) {
        for (float& v : sums.at[m][n][lane]) v *= factor;
      }
    }
  });
}

/// The row and the column of sum i of a lane, within its 16 x 8.
CAUSEWAY_HD constexpr int row_of(int lane, int i) noexcept { return lane / 4 + i / 2 * 8; }
CAUSEWAY_HD constexpr int column_of(int lane, int i) noexcept { return lane % 4 * 2 + i % 2; }

/// Starts copying rows first .. first + Rows - 1 of a matrix in global memory into a tile, 16 bytes a thread; rows from
/// `end` on become zero. Row r begins at from + r · stride, 16-byte aligned. The block has `Warps` warps.
template <int Rows, int Warps, int Columns, class W>
CAUSEWAY_HD void copy_rows(W& w, shared_tile<Columns> to, const bf16* from, std::int64_t stride, std::int64_t first,
                           std::int64_t end) {
  constexpr int chunks = Columns / shared_tile<Columns>::chunk;
  constexpr int at_once = Warps * 32 / chunks;
  static_assert(at_once > 0 && Rows % at_once == 0);
  w.each([&](int lane) {
    const int thread = w.warp() * 32 + lane, c = thread % chunks;
    CAUSEWAY_UNROLL_ON_DEVICE
    for (int pass = 0; pass < Rows / at_once; ++pass) {
      const int row = pass * at_once + thread / chunks;
      const bool real = first + row < end;
      w.template copy<16>(to.at(row, c), from + (real ? first + row : 0) * stride + c * shared_tile<Columns>::chunk, real);
    }
  });
}

/// A 16 x 16 left operand: rows `row` .. , values 16 k .. of a tile.
template <int Columns, class W>
CAUSEWAY_HD void load_left(W& w, fragment<W>& a, shared_tile<Columns> from, int row, int k) {
  w.load(a, [&](int lane) { return from.at(row + lane % 16, 2 * k + lane / 16); });
}

/// A 16 x 16 right operand whose columns are the tile's rows: sums run along its rows.
template <int Columns, class W>
CAUSEWAY_HD void load_right_by_rows(W& w, fragment<W>& b, shared_tile<Columns> from, int row, int k) {
  w.load(b, [&](int lane) { return from.at(row + lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2); });
}

/// A 16 x 16 right operand as the tile has it: sums run down its rows.
template <int Columns, class W>
CAUSEWAY_HD void load_right(W& w, fragment<W>& b, shared_tile<Columns> from, int row, int n) {
  w.load_transposed(b, [&](int lane) { return from.at(row + lane % 16, 2 * n + lane / 16); });
}

/// sums += A Bᵀ: A is 16 M rows of `a` from `row` on, B the first 8 N rows of `b`.
template <class W, int M, int N, int Columns>
CAUSEWAY_HD void multiply_by_rows(W& w, tile_sum<W, M, N>& sums, shared_tile<Columns> a, int row, shared_tile<Columns> b) {
  static_assert(N % 2 == 0);
  CAUSEWAY_UNROLL_ON_DEVICE
  for (int k = 0; k < Columns / 16; ++k) {
    fragment<W> left[M], right;
    CAUSEWAY_UNROLL_ON_DEVICE
    for (int m = 0; m < M; ++m) load_left(w, left[m], a, row + 16 * m, k);
    CAUSEWAY_UNROLL_ON_DEVICE
    for (int n = 0; n < N / 2; ++n) {
      load_right_by_rows(w, right, b, 16 * n, k);
      CAUSEWAY_UNROLL_ON_DEVICE
      for (int m = 0; m < M; ++m) {
        w.template multiply<0>(sums.at[m][2 * n], left[m], right);
        w.template multiply<1>(sums.at[m][2 * n + 1], left[m], right);
      }
    }
  }
}

/// sums += A B: A is 16 M x 8 K of sums, rounded to bf16, B the first 8 K rows of `b`.
template <class W, int M, int N, int K>
CAUSEWAY_HD void multiply_held(W& w, tile_sum<W, M, N>& sums, const tile_sum<W, M, K>& a, shared_tile<8 * N> b) {
  static_assert(K % 2 == 0 && N % 2 == 0);
  CAUSEWAY_UNROLL_ON_DEVICE
  for (int k = 0; k < K / 2; ++k) {
    fragment<W> left[M], right;
    w.each([&](int lane) {
      CAUSEWAY_UNROLL_ON_DEVICE
      for (int m = 0; m < M; ++m) {
        CAUSEWAY_UNROLL_ON_DEVICE
        for (int i = 0; i < 4; ++i) {  // rows 0 and 8 of the left half, then of the right half
          const auto& half = a.at[m][2 * k + i / 2][lane];
          left[m][lane][i] = packed_bf16(half[i % 2 * 2], half[i % 2 * 2 + 1]);
        }
      }
    });
    CAUSEWAY_UNROLL_ON_DEVICE
    for (int n = 0; n < N / 2; ++n) {
      load_right(w, right, b, 16 * k, n);
      CAUSEWAY_UNROLL_ON_DEVICE
      for (int m = 0; m < M; ++m) {
        w.template multiply<0>(sums.at[m][2 * n], left[m], right);
        w.template multiply<1>(sums.at[m][2 * n + 1], left[m], right);
      }
    }
  }
}

enum class masked : bool { right_of_diagonal, left_of_diagonal };

/// Sums at (row, column) become -infinity where column > row + offset, or where column < row + offset.
template <masked What, class W, int M, int N>
CAUSEWAY_HD void mask(W& w, tile_sum<W, M, N>& sums, int offset) {
  w.each([&](int lane) {
    CAUSEWAY_UNROLL_ON_DEVICE
    for (int m = 0; m < M; ++m) {
      CAUSEWAY_UNROLL_ON_DEVICE
      for (int n = 0; n < N; ++n) {
        CAUSEWAY_UNROLL_ON_DEVICE
        for (int i = 0; i < 4; ++i) {
          const int row = 16 * m + row_of(lane, i), column = 8 * n + column_of(lane, i);
          const bool out = What == masked::right_of_diagonal ? column > row + offset : column < row + offset;
          if (out) sums.at[m][n][lane][i] = -std::numeric_limits<float>::infinity();
        }
      }
    }
  });
}

CAUSEWAY_HD inline void store_pair(bf16* to, float low, float high) {
  *reinterpret_cast<pack<bf16, 2>*>(to) = std::bit_cast<pack<bf16, 2>>(packed_bf16(low, high));
}

/// Rounds the sums to bf16 and writes them to rows `first` .. of a matrix in global memory, below `end`. They pass through
/// rows `row` .. of `room`, which this warp alone may use by now, so that 16 bytes are written at a time.
template <class W, int M, int N>
CAUSEWAY_HD void store_rows(W& w, const tile_sum<W, M, N>& sums, shared_tile<8 * N> room, int row, bf16* to,
                            std::int64_t stride, std::int64_t first, std::int64_t end) {
  using chunk = pack<bf16, 8>;
  w.sync_lanes();
  w.each([&](int lane) {
    CAUSEWAY_UNROLL_ON_DEVICE
    for (int m = 0; m < M; ++m) {
      CAUSEWAY_UNROLL_ON_DEVICE
      for (int n = 0; n < N; ++n) {
        const auto& v = sums.at[m][n][lane];
        store_pair(room.at(row + 16 * m + lane / 4, n) + lane % 4 * 2, v[0], v[1]);
        store_pair(room.at(row + 16 * m + lane / 4 + 8, n) + lane % 4 * 2, v[2], v[3]);
      }
    }
  });
  w.sync_lanes();
  w.each([&](int lane) {
    CAUSEWAY_UNROLL_ON_DEVICE
    for (int i = 0; i < M * N / 2; ++i) {  // 16 M rows of N chunks
      const int r = (i * 32 + lane) / N, c = (i * 32 + lane) % N;
      if (first + r < end) {
        *reinterpret_cast<chunk*>(to + (first + r) * stride + c * 8) = *reinterpret_cast<const chunk*>(room.at(row + r, c));
      }
    }
  });
}

}  // namespace detail

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_BODIES_MATRIX_TILES_HPP
