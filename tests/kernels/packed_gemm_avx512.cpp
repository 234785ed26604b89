// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/packed_gemm_avx512.hpp>

#include "support/catch.hpp"
#include "support/tile_cases.hpp"

using namespace causeway;
using namespace causeway::kernels;

TEST_CASE("packed gemm avx512: packed panels multiply to the right sums at every height", "[kernels][fast]") {
#if CAUSEWAY_X86_SIMD
  if (detect_simd_level() < simd_level::avx512) return;  // this machine cannot
  tests::tiles::check_all<kernels::detail::avx512_tile, float>();
  tests::tiles::check_all<kernels::detail::avx512_tile, bf16>();
#endif
}
