// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMPRESS_CHUNKS_HPP
#define CAUSEWAY_COMPRESS_CHUNKS_HPP

// How a row is cut into chunks, within which coefficients compete to be sent or are transformed together: square tiles of
// matrices and runs of vectors. A pure function of the matrices, so all peers cut alike.

#include <causeway/compress/message.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/targets.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace compress {

/// How to cut. By default as DeMo and SparseLoCo do (Peng et al., 2024; Sarfi et al., 2025): each side of a matrix's tiles,
/// and the length of a vector's runs, is the largest divisor of the dimension up to 64. Where that is below a quarter of
/// `side` (a prime dimension), chunks are `side` long and the last one shorter, since chunks of a few values select
/// nothing.
struct chunking {
  std::uint32_t side = 64;  ///< largest side of a tile and length of a run: 2 to 64
  std::uint32_t run = 0;    ///< when not 0: matrices are ignored, and the row is cut in runs of so many values, to 65536

  void serialize(auto& ar) { ar(side, run); }
  friend bool operator==(const chunking&, const chunking&) = default;
};

/// errc::invalid_argument when the options cannot work.
inline result<void> validate(const chunking& o) {
  if (o.side >= 2 && o.side <= 64 && o.run <= 65536) return {};
  return fail(errc::invalid_argument, "chunking",
              "tiles of side " + std::to_string(o.side) + " or runs of " + std::to_string(o.run) +
                  " values; take sides of 2 to 64 and runs up to 65536");
}

/// Chunks of one shape: `down` times `across` of them, each of rows · columns values, `stride` values between rows.
struct chunk_grid {
  std::size_t first = 0;
  std::size_t stride = 0;
  std::uint32_t rows = 1;
  std::uint32_t columns = 0;
  std::size_t down = 1;
  std::size_t across = 0;

  [[nodiscard]] CAUSEWAY_HD std::size_t count() const noexcept { return down * across; }
  [[nodiscard]] CAUSEWAY_HD std::uint32_t size() const noexcept { return rows * columns; }
  /// Where chunk `index`, counted along rows of chunks, begins.
  [[nodiscard]] CAUSEWAY_HD std::size_t begin_of(std::size_t index) const noexcept {
    return first + index / across * rows * stride + index % across * columns;
  }
  friend bool operator==(const chunk_grid&, const chunk_grid&) = default;
};

namespace detail {

constexpr std::size_t chunk_side(std::size_t dimension, std::size_t largest) noexcept {
  if (dimension <= largest) return dimension;
  for (std::size_t side = largest; side * 4 >= largest; --side) {
    if (dimension % side == 0) return side;
  }
  return largest;
}

class chunk_cutter {
 public:
  explicit chunk_cutter(std::vector<chunk_grid>& grids) : grids_{grids} {}

  void vector(std::size_t first, std::size_t count, std::size_t run) {
    add({first, count, 1, static_cast<std::uint32_t>(run), 1, run == 0 ? 0 : count / run});
    const std::size_t rest = run == 0 ? 0 : count % run;
    add({first + count - rest, count, 1, static_cast<std::uint32_t>(rest), 1, rest == 0 ? std::size_t{0} : 1});
  }

  /// Whole tiles, then the shorter ones at the right and at the bottom, if there are such.
  void matrix(const matrix_range& m, std::size_t side) {
    const std::size_t rows = chunk_side(m.rows, side), columns = chunk_side(m.columns, side);
    const std::size_t below = m.rows % rows, beside = m.columns % columns;
    const std::size_t right = m.offset + m.columns - beside, bottom = m.offset + (m.rows - below) * m.columns;
    tiles(m, m.offset, rows, columns, m.rows / rows, m.columns / columns);
    tiles(m, right, rows, beside, m.rows / rows, 1);
    tiles(m, bottom, below, columns, 1, m.columns / columns);
    tiles(m, bottom + m.columns - beside, below, beside, 1, 1);
  }

 private:
  void tiles(const matrix_range& m, std::size_t first, std::size_t rows, std::size_t columns, std::size_t down,
             std::size_t across) {
    add({first, m.columns, static_cast<std::uint32_t>(rows), static_cast<std::uint32_t>(columns), down, across});
  }
  void add(const chunk_grid& grid) {
    if (grid.count() != 0 && grid.size() != 0) grids_.push_back(grid);
  }

  std::vector<chunk_grid>& grids_;
};

}  // namespace detail

/// The chunks of a row of n values. Without matrices, or with runs, each value is in exactly one. Else the tensors' values
/// are, and what lies between them is padding: zero, in no chunk, never sent. Matrices with one row or column are vectors.
inline std::vector<chunk_grid> cut_into_chunks(const chunking& how, std::span<const matrix_range> matrices, std::size_t n) {
  std::vector<chunk_grid> grids;
  detail::chunk_cutter cutter{grids};
  const auto vector = [&](std::size_t first, std::size_t count) {
    cutter.vector(first, count, how.run != 0 ? std::min<std::size_t>(how.run, count) : detail::chunk_side(count, how.side));
  };
  if (how.run != 0 || matrices.empty()) {
    vector(0, n);
    return grids;
  }
  [[maybe_unused]] std::size_t at = 0;  // the end of the matrix before
  for (const matrix_range& m : matrices) {
    const std::size_t size = m.rows * m.columns;
    CAUSEWAY_EXPECT(m.offset >= at && m.offset <= n && size <= n - m.offset);
    if (m.rows > 1 && m.columns > 1) {
      cutter.matrix(m, how.side);
    } else {
      vector(m.offset, size);
    }
    at = m.offset + size;
  }
  return grids;
}

/// Copies chunk `index` to contiguous memory, `pitch` values (at least grid.columns) from row to row.
inline void gather_chunk(const chunk_grid& grid, std::size_t index, const float* row, float* chunk, std::size_t pitch) {
  const float* from = row + grid.begin_of(index);
  for (std::uint32_t r = 0; r < grid.rows; ++r) {
    std::memcpy(chunk + r * pitch, from + r * grid.stride, grid.columns * sizeof(float));
  }
}

/// The way back.
inline void scatter_chunk(const chunk_grid& grid, std::size_t index, const float* chunk, float* row, std::size_t pitch) {
  float* to = row + grid.begin_of(index);
  for (std::uint32_t r = 0; r < grid.rows; ++r) {
    std::memcpy(to + r * grid.stride, chunk + r * pitch, grid.columns * sizeof(float));
  }
}

/// Calls f(range of chunk indices) for parts of the grid on the pool's threads. Parts begin at multiples of `grain` chunks.
void for_chunks(thread_pool& pool, const chunk_grid& grid, std::int64_t grain, auto&& f) {
  const auto count = static_cast<std::int64_t>(grid.count());
  if (count * grid.size() <= kernels::detail::smallest_share) {
    f(index_range{0, count});
  } else {
    pool.for_range(count, grain, f);
  }
}

}}}  // namespace causeway::CAUSEWAY_ABI::compress

#endif  // CAUSEWAY_COMPRESS_CHUNKS_HPP
