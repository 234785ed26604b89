// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/packed_gemm_avx512_bf16.hpp>

#include "support/catch.hpp"
#include "support/tile_cases.hpp"

#include <cstdint>
#include <vector>

using namespace causeway;
using namespace causeway::kernels;

#if CAUSEWAY_X86_SIMD
using tile = kernels::detail::avx512_bf16_tile;

TEST_CASE("packed gemm avx512 bf16: packed panels multiply to the right sums at every height", "[kernels][fast]") {
  if (detect_simd_level() < simd_level::avx512_bf16) return;  // this machine cannot
  tests::tiles::check_all<tile, bf16>();
}

TEST_CASE("packed gemm avx512 bf16: rounding in registers equals finishing in memory", "[kernels][fast]") {
  if (detect_simd_level() < simd_level::avx512_bf16) return;
  const std::vector<std::uint32_t> a(tile::rows, 0x00003F80U);  // 1 and 0
  std::vector<std::uint32_t> b(tile::columns);
  for (std::uint32_t j = 0; j < tile::columns; ++j) b[j] = bf16{static_cast<float>(j)}.bits;
  tests::tiles::check_rounding<tile>(a, b);
}
#endif
