// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/packed_gemm_amx.hpp>

#include "support/catch.hpp"
#include "support/tile_cases.hpp"

#include <cstdint>
#include <vector>

using namespace causeway;
using namespace causeway::kernels;

#if CAUSEWAY_X86_SIMD
using tile = kernels::detail::amx_tile;

TEST_CASE("packed gemm amx: packed panels multiply to the right sums at every height", "[kernels][fast]") {
  if (detect_simd_level() < simd_level::amx_bf16) return;  // this machine cannot
  tests::tiles::check_all<tile, bf16>();
}

TEST_CASE("packed gemm amx: rounding beside the tile equals finishing in memory", "[kernels][fast]") {
  if (detect_simd_level() < simd_level::amx_bf16) return;
  std::vector<tile::packed> a(tile::rows + 16);
  for (auto& row : a) row.pairs[0] = 0x00003F80U;
  std::vector<tile::packed> b(tile::columns);
  for (std::uint32_t j = 0; j < tile::columns; ++j) b[j / 16].pairs[j % 16] = bf16{static_cast<float>(j)}.bits;
  tests::tiles::check_rounding<tile>(a, b);
}

TEST_CASE("packed gemm amx: what lies beyond the end of k and below the last row is not read as values",
          "[kernels][fast]") {
  if (detect_simd_level() < simd_level::amx_bf16) return;
  constexpr std::int64_t depth = 35;  // three values of a second step
  constexpr int height = 5;
  const std::uint32_t nan = 0x7FC07FC0U;
  tile::packed dirty{};
  for (auto& pair : dirty.pairs) pair = nan;
  std::vector<tile::packed> a(height * 2 + 16, dirty);
  std::vector<tile::packed> b(tile::columns * 2, dirty);
  const std::vector<bf16> ones(static_cast<std::size_t>(depth * tile::columns), bf16{1.0F});
  for (const bool by_lanes : {false, true}) {
    const kernels::detail::operand<bf16> left{ones.data(), by_lanes ? 1 : depth, by_lanes ? height : 1};
    const kernels::detail::operand<bf16> right{ones.data(), by_lanes ? 1 : depth, by_lanes ? tile::columns : 1};
    tile::pack_panel(left, height, depth, a.data());
    tile::pack(right, tile::columns, depth, tile::columns, b.data());
    std::vector<float> c(height * tile::columns);
    tile::open();
    tile::multiply(height, 2, a.data(), b.data(), c.data(), tile::columns, false);
    tile::close();
    CHECK(c == std::vector<float>(c.size(), static_cast<float>(depth)));
  }
}
#endif
