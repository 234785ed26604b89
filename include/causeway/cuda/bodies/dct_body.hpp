// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_BODIES_DCT_BODY_HPP
#define CAUSEWAY_CUDA_BODIES_DCT_BODY_HPP

// The discrete cosine transform of compress/dct.hpp, both ways, to the bit: the same products with the same basis, each
// sum in the same order, one rounding an operation. Equal bits matter on the way back, where replicas apply what they
// decode. A group has a tile of a matrix, or up to 64 runs of a vector; its values and the product between the two factors
// lie in shared memory.

#include <causeway/compress/chunks.hpp>
#include <causeway/config/config.hpp>
#include <causeway/cuda/bodies/group.hpp>
#include <causeway/cuda/bodies/pack.hpp>

#include <cstddef>
#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// to = left · tile · right for every chunk of a grid, to = run · right where chunks have one row (left is null then).
/// `left` and `right` are 64 x 64 with the basis in the upper left corner, 16-byte aligned. `to` may be `from`.
struct dct_body {
  static constexpr std::int32_t pitch = 64;
  static constexpr int block = 4;  // rows and columns of sums that a thread has at a time

  compress::chunk_grid grid{};
  const float* from = nullptr;
  float* to = nullptr;
  const float* left = nullptr;
  const float* right = nullptr;

  [[nodiscard]] static constexpr std::size_t working_bytes() { return sizeof(float) * 2 * pitch * pitch; }
  [[nodiscard]] static bool aligned() { return false; }
  /// Runs of a vector lie one after another, so 64 of them are as good as a tile.
  [[nodiscard]] CAUSEWAY_HD std::int64_t together() const { return grid.rows == 1 && grid.down == 1 ? pitch : 1; }
  [[nodiscard]] std::int64_t items() const {
    return (static_cast<std::int64_t>(grid.count()) + together() - 1) / together();
  }

  template <int N, Group G>
  CAUSEWAY_HD void run(G& g, std::int64_t item, float* memory) const {
    const std::int64_t chunk = item * together(), chunks_left = static_cast<std::int64_t>(grid.count()) - chunk;
    const std::int64_t runs = chunks_left < together() ? chunks_left : together();
    const auto rows = together() == 1 ? static_cast<std::int32_t>(grid.rows) : static_cast<std::int32_t>(runs);
    const auto columns = static_cast<std::int32_t>(grid.columns), size = rows * columns;
    const std::int64_t stride = together() == 1 ? static_cast<std::int64_t>(grid.stride) : columns;
    const auto begin = static_cast<std::int64_t>(grid.begin_of(static_cast<std::size_t>(chunk)));
    float* const values = memory;
    float* const products = memory + pitch * pitch;
    for (std::int32_t i = g.rank(); i < size; i += g.size()) {  // 32 bits divide quickly
      values[i / columns * pitch + i % columns] = from[begin + i / columns * stride + i % columns];
    }
    g.sync();
    multiply(g, values, right, products, rows, columns, columns);
    g.sync();
    if (left != nullptr) {
      multiply(g, left, products, values, rows, rows, columns);
      g.sync();
    }
    const float* const done = left != nullptr ? values : products;
    for (std::int32_t i = g.rank(); i < size; i += g.size()) {
      to[begin + i / columns * stride + i % columns] = done[i / columns * pitch + i % columns];
    }
    g.sync();  // before another item takes the memory
  }

 private:
  /// out = a · b, in blocks of sums, of which those beyond rows and columns are computed from whatever is there and not
  /// used.
  template <class G>
  CAUSEWAY_HD static void multiply(const G& g, const float* a, const float* b, float* out, std::int32_t rows,
                                   std::int32_t inner, std::int32_t columns) {
    const std::int32_t across = (columns + block - 1) / block, count = (rows + block - 1) / block * across;
    for (std::int32_t i = g.rank(); i < count; i += g.size()) {
      const std::int32_t r = i / across * block, c = i % across * block;
      float sums[block][block] = {}, v[block];
      for (std::int32_t j = 0; j < inner; ++j) {
        detail::load(v, b + j * pitch + c);
        for (int m = 0; m < block; ++m) {
          const float w = a[(r + m) * pitch + j];
          for (int n = 0; n < block; ++n) sums[m][n] += detail::times(w, v[n]);
        }
      }
      for (int m = 0; m < block; ++m) detail::store(out + (r + m) * pitch + c, sums[m]);
    }
  }
};

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_BODIES_DCT_BODY_HPP
