// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/bf16_level.hpp>

#include <causeway/kernels/packed_gemm.hpp>

#include "support/catch.hpp"

using namespace causeway;
using namespace causeway::kernels;

TEST_CASE("bf16 level: pairs are taken unless widened values are clearly quicker", "[kernels][fast]") {
  CHECK(prefer_pairs({.widened = 2.0, .pairs = 1.0}));         // Zen 4 and 5
  CHECK_FALSE(prefer_pairs({.widened = 1.0, .pairs = 2.03}));  // Sapphire Rapids: 175 GFLOP/s of FMAs, 86 of pairs
  CHECK(prefer_pairs({.widened = 1.0, .pairs = 1.1}));         // within the noise of a measurement
}

TEST_CASE("bf16 level: one answer a process, never more than the machine has, and f32 is not asked", "[kernels][fast]") {
  const simd_level level = bf16_level();
  CHECK(bf16_level() == level);
  CHECK(level <= detect_simd_level());
  if (detect_simd_level() < simd_level::avx512_bf16) {
    CHECK(level == detect_simd_level());
  } else {
    CHECK(level >= simd_level::avx512);
  }
  CHECK(product_level<float>() == detect_simd_level());
  CHECK(product_level<bf16>() == level);
}

TEST_CASE("bf16 level: the tiles that are timed are those that multiply", "[kernels][fast]") {
  if (detect_simd_level() < simd_level::avx512_bf16) return;
  const bf16_timing time = time_bf16_tiles();
  CHECK(time.widened > 0.0);
  CHECK(time.pairs > 0.0);
  CHECK(packed_gemm{}.level<bf16>() == bf16_level());
  CHECK(packed_gemm{}.level<float>() == simd_level::avx512_bf16);
  CHECK(packed_gemm{simd_level::avx2}.level<bf16>() == simd_level::avx2);  // who names a level gets it
}
