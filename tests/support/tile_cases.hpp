// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_TILE_CASES_HPP
#define CAUSEWAY_TESTS_SUPPORT_TILE_CASES_HPP

// The two duties of a tile kernel, each alone: packing puts every value where the product reads it, and the product of two
// packed panels is right for every height.

#include <causeway/kernels/packed_gemm_blocking.hpp>
#include <causeway/kernels/packed_gemm_finish.hpp>

#include "support/catch.hpp"
#include "support/gemm_cases.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace causeway::tests::tiles {

/// Packs one panel of `height` rows of A and one strip of B, stored with lanes or with depth contiguous, multiplies them,
/// and compares with a loop.
template <class Tile, class In>
void check(int height, int width, std::int64_t depth, bool lanes_contiguous, bool add) {
  using namespace causeway::kernels::detail;
  const auto a = gemm::random_values<In>(height * depth, 1);
  const auto b = gemm::random_values<In>(width * depth, 2);
  const auto view = [&](const std::vector<In>& data, std::int64_t lanes) {
    return lanes_contiguous ? operand<In>{data.data(), 1, lanes} : operand<In>{data.data(), depth, 1};
  };
  const std::int64_t steps = divide_up(depth, Tile::depth_step);
  std::vector<typename Tile::packed> pa(static_cast<std::size_t>(height * steps + 16));
  std::vector<typename Tile::packed> pb(static_cast<std::size_t>(Tile::columns * steps + 16));
  pack_panel<Tile>(view(a, height), height, depth, pa.data());
  Tile::pack(view(b, width), width, depth, Tile::columns, pb.data());
  std::vector<float> c(static_cast<std::size_t>(height * Tile::columns), 0.5F);
  Tile::open();
  Tile::multiply(height, steps, pa.data(), pb.data(), c.data(), Tile::columns, add);
  Tile::close();
  double worst = 0;
  for (int i = 0; i < height; ++i) {
    for (int j = 0; j < width; ++j) {
      double sum = add ? 0.5 : 0.0;
      for (std::int64_t p = 0; p < depth; ++p) {
        const auto value = [&](const std::vector<In>& data, std::int64_t lanes, std::int64_t lane) {
          return static_cast<double>(
              static_cast<float>(data[static_cast<std::size_t>(lanes_contiguous ? p * lanes + lane : lane * depth + p)]));
        };
        sum += value(a, height, i) * value(b, width, j);
      }
      worst = std::max(worst, std::abs(sum - static_cast<double>(c[static_cast<std::size_t>(i * Tile::columns + j)])));
    }
  }
  INFO("height " << height << " width " << width << " depth " << depth << (lanes_contiguous ? " by lanes" : " by depth"));
  CHECK(worst < 1e-4);
}

/// Every height, full and narrow strips, depths around the vectors' lengths, both storage orders.
template <class Tile, class In>
void check_all() {
  for (int height = 1; height <= Tile::rows; ++height) {
    for (const int width : {1, Tile::columns / 2 + 1, Tile::columns}) {
      for (const std::int64_t depth : {1, 2, 15, 16, 17, 33, 64}) {
        check<Tile, In>(height, width, depth, true, false);
        check<Tile, In>(height, width, depth, false, true);
      }
    }
  }
}

/// Sums that are rounded to bf16 beside the tile equal those finished in memory, at every height. `a` and `b` are packed
/// for one step with exact products, so that the order of additions cannot show: A is 1 at k = 0, B there is its column.
template <class Tile>
void check_rounding(const std::vector<typename Tile::packed>& a, const std::vector<typename Tile::packed>& b) {
  const auto bias = gemm::random_values<float>(Tile::columns, 1);
  const auto partial = gemm::random_values<float>(Tile::rows * Tile::columns, 2);
  for (int height = 1; height <= Tile::rows; ++height) {
    std::vector<bf16> c(static_cast<std::size_t>(height * Tile::columns));
    kernels::detail::finish_args<bf16> to{};
    to.partial = partial.data();
    to.ld_partial = Tile::columns;
    to.bias = bias.data();
    to.c = c.data();
    to.ldc = Tile::columns;
    Tile::open();
    Tile::multiply_and_round(height, 1, a.data(), b.data(), to);
    Tile::close();
    for (std::size_t i = 0; i < c.size(); ++i) {
      const std::size_t j = i % Tile::columns;
      CHECK(c[i] == bf16{static_cast<float>(j) + bias[j] + partial[i]});
    }
  }
}

}  // namespace causeway::tests::tiles

#endif  // CAUSEWAY_TESTS_SUPPORT_TILE_CASES_HPP
