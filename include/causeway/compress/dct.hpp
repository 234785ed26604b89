// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMPRESS_DCT_HPP
#define CAUSEWAY_COMPRESS_DCT_HPP

// The orthonormal discrete cosine transform of the chunks of chunks.hpp, as DeMo applies it to momentum (Peng et al.,
// 2024): two-dimensional on tiles of matrices, one-dimensional on runs of vectors. As products with the basis, which for
// sides up to 64 are as quick as they need to be, in an order that is the same on every machine.

#include <causeway/compress/chunks.hpp>
#include <causeway/compress/transform.hpp>
#include <causeway/kernels/cpu_features.hpp>
#include <causeway/kernels/simd_math.hpp>
#include <causeway/kernels/targets.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numbers>
#include <span>
#include <string_view>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace compress {

namespace detail {

/// Room for a tile: 64 rows of 64, of which a smaller tile uses the upper left. Unused places are finite.
inline constexpr std::int64_t tile_pitch = 64;
struct alignas(64) tile {
  float at[tile_pitch * tile_pitch] = {};
};

/// forward row k, column i = s_k cos(π (2i + 1) k / 2n), with s_0 = sqrt(1/n) and s_k = sqrt(2/n).
struct dct_basis {
  tile forward;
  tile transposed;
};

/// Cosines from a series of our own: those of C libraries differ in the last bit from system to system.
CAUSEWAY_NOINLINE CAUSEWAY_EXACT_COPY inline void fill_dct_basis(dct_basis& basis, std::size_t n) {
  CAUSEWAY_EXACT_BODY
  double cosines[tile_pitch + 1];  // of π m / 2n for m = 0 to n
  for (std::size_t m = 0; m < n; ++m) {
    const double angle = std::numbers::pi / static_cast<double>(2 * n) * static_cast<double>(m);
    double series = 1;
    for (int j = 26; j > 0; j -= 2) series = 1 - angle * angle / static_cast<double>(j * (j - 1)) * series;
    cosines[m] = series;
  }
  cosines[n] = 0;
  for (std::size_t k = 0; k < n; ++k) {
    const double size = std::sqrt((k == 0 ? 1.0 : 2.0) / static_cast<double>(n));
    for (std::size_t i = 0; i < n; ++i) {
      std::size_t m = (2 * i + 1) * k % (4 * n);
      if (m > 2 * n) m = 4 * n - m;
      const double cosine = m > n ? -cosines[2 * n - m] : cosines[m];
      const auto value = static_cast<float>(size * cosine);
      basis.forward.at[k * tile_pitch + i] = value;
      basis.transposed.at[i * tile_pitch + k] = value;
    }
  }
}

/// out = a · b for `rows` times `inner` and `inner` times `columns`. Works on whole vectors and groups of four rows, so it
/// also writes beyond rows and columns, within the tile.
struct tile_product {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(const float* a, const float* b, float* out, std::int64_t rows, std::int64_t inner,
                                         std::int64_t columns) {
    using kernels::detail::f32x16;
    for (std::int64_t c = 0; c < columns; c += kernels::detail::vector_lanes) {
      for (std::int64_t r = 0; r < rows; r += 4) {
        CAUSEWAY_EXACT_BODY
        f32x16 sums[4] = {};
        const float* row = a + r * tile_pitch;
        for (std::int64_t j = 0; j < inner; ++j) {
          CAUSEWAY_EXACT_BODY
          f32x16 v;
          kernels::detail::load(v, b + j * tile_pitch + c, kernels::detail::whole{});
          sums[0] += row[j] * v;
          sums[1] += row[j + tile_pitch] * v;
          sums[2] += row[j + 2 * tile_pitch] * v;
          sums[3] += row[j + 3 * tile_pitch] * v;
        }
        for (std::int64_t i = 0; i < 4; ++i) {
          kernels::detail::store(out + (r + i) * tile_pitch + c, sums[i], kernels::detail::whole{});
        }
      }
    }
  }
};

}  // namespace detail

/// Transform: orthonormal DCT-II of each chunk; what is in no chunk is left as it is there. Costs 4 · 64 operations a value
/// for tiles of 64 by 64, and for messages a copy of the row. What it inverts differs from what it was given by rounding
/// only (about 1e-6 of the chunk's norm).
class dct_tiles {
 public:
  static constexpr std::string_view name = "dct_tiles";
  static constexpr bool identity = false;

  dct_tiles() : dct_tiles{chunking{}} {}
  /// `chunks.run` must not exceed 64.
  explicit dct_tiles(const chunking& chunks) : chunks_{chunks} {
    CAUSEWAY_EXPECT(validate(chunks) && chunks.run <= static_cast<std::uint32_t>(detail::tile_pitch));
  }

  [[nodiscard]] const chunking& chunks() const noexcept { return chunks_; }

  void forward(const message_context& ctx, std::span<const float> values, std::span<float> coefficients,
               kernels::simd_level level = kernels::detect_simd_level()) const {
    CAUSEWAY_EXPECT(values.size() == coefficients.size());
    apply(ctx, values.data(), coefficients, level,
          [](const detail::dct_basis& b, bool rows) -> const detail::tile& { return rows ? b.forward : b.transposed; });
  }
  void inverse(const message_context& ctx, std::span<float> row,
               kernels::simd_level level = kernels::detect_simd_level()) const {
    apply(ctx, row.data(), row, level,
          [](const detail::dct_basis& b, bool rows) -> const detail::tile& { return rows ? b.transposed : b.forward; });
  }

 private:
  using bases = std::vector<std::unique_ptr<detail::dct_basis>>;  // by side

  static const detail::dct_basis& basis_of(bases& all, std::size_t side) {
    if (!all[side]) {
      all[side] = std::make_unique<detail::dct_basis>();
      detail::fill_dct_basis(*all[side], side);
    }
    return *all[side];
  }

  /// tile -> left · tile · right for each chunk, where `choose(basis, whether it is left)` picks the factor.
  void apply(const message_context& ctx, const float* from, std::span<float> to, kernels::simd_level level,
             auto&& choose) const {
    bases all(detail::tile_pitch + 1);
    for (chunk_grid grid : cut_into_chunks(chunks_, ctx.matrices, to.size())) {
      const detail::tile& right = choose(basis_of(all, grid.columns), false);
      const detail::tile* left = grid.rows == 1 ? nullptr : &choose(basis_of(all, grid.rows), true);
      // Runs of a vector lie one after another, so 64 of them are as good as a tile.
      const std::int64_t together = grid.rows == 1 && grid.down == 1 ? detail::tile_pitch : 1;
      for_chunks(ctx.pool, grid, together, [&](index_range part) {
        detail::tile values, products;
        for (auto chunk = part.begin; chunk < part.end; chunk += together) {
          const auto index = static_cast<std::size_t>(chunk);
          chunk_grid piece = grid;
          if (together != 1) {
            piece = {grid.begin_of(index),
                     grid.columns,
                     static_cast<std::uint32_t>(std::min(together, part.end - chunk)),
                     grid.columns,
                     1,
                     1};
          } else {
            piece = {grid.begin_of(index), grid.stride, grid.rows, grid.columns, 1, 1};
          }
          gather_chunk(piece, 0, from, values.at, detail::tile_pitch);
          kernels::detail::dispatch<detail::tile_product>(level, static_cast<const float*>(values.at), right.at,
                                                          static_cast<float*>(products.at), std::int64_t{piece.rows},
                                                          std::int64_t{grid.columns}, std::int64_t{grid.columns});
          if (left != nullptr) {
            kernels::detail::dispatch<detail::tile_product>(level, left->at, static_cast<const float*>(products.at),
                                                            static_cast<float*>(values.at), std::int64_t{grid.rows},
                                                            std::int64_t{grid.rows}, std::int64_t{grid.columns});
          }
          scatter_chunk(piece, 0, left == nullptr ? products.at : values.at, to.data(), detail::tile_pitch);
        }
      });
    }
  }

  chunking chunks_;
};
static_assert(Transform<dct_tiles>);

}}}  // namespace causeway::CAUSEWAY_ABI::compress

CAUSEWAY_EXACT_KERNEL((const float*, const float*, float*, std::int64_t, std::int64_t, std::int64_t),
                      compress::detail::tile_product)

#endif  // CAUSEWAY_COMPRESS_DCT_HPP
