// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/bf16_level.hpp>

#include <causeway/kernels/packed_gemm.hpp>

#include "support/catch.hpp"

#include <limits>

using namespace causeway;
using namespace causeway::kernels;

constexpr double never = std::numeric_limits<double>::infinity();

TEST_CASE("bf16 level: pairs are taken unless widened values are clearly quicker", "[kernels][fast]") {
  const auto vectors = [](double widened, double pairs) {
    const bf16_choice choice = choose_bf16_levels({.widened = widened, .pairs = pairs, .tiles = never});
    CHECK(choice.products == choice.vectors);
    return choice.vectors;
  };
  CHECK(vectors(2.0, 1.0) == simd_level::avx512_bf16);  // Zen 4 and 5
  CHECK(vectors(1.0, 2.03) == simd_level::avx512);      // Sapphire Rapids: 175 GFLOP/s of FMAs, 86 of pairs
  CHECK(vectors(1.0, 1.1) == simd_level::avx512_bf16);  // within the noise of a measurement
}

TEST_CASE("bf16 level: AMX multiplies matrices unless it is clearly slower, and changes nothing else", "[kernels][fast]") {
  const bf16_choice quick = choose_bf16_levels({.widened = 1.0, .pairs = 2.03, .tiles = 0.1});
  CHECK(quick.products == simd_level::amx_bf16);
  CHECK(quick.vectors == simd_level::avx512);
  CHECK(choose_bf16_levels({.widened = 1.0, .pairs = 2.0, .tiles = 1.5}).products == simd_level::avx512);
  CHECK(choose_bf16_levels({.widened = 2.0, .pairs = 1.0, .tiles = 1.1}).products == simd_level::amx_bf16);
  CHECK(choose_bf16_levels({.widened = 2.0, .pairs = 1.0, .tiles = 1.5}).products == simd_level::avx512_bf16);
}

TEST_CASE("bf16 level: one answer a process, never more than the machine has, and f32 is not asked", "[kernels][fast]") {
  const bf16_choice choice = bf16_levels();
  CHECK(&bf16_levels() == &bf16_levels());
  CHECK(choice.products <= detect_simd_level());
  CHECK(choice.vectors <= choice.products);
  if (detect_simd_level() < simd_level::avx512_bf16) {
    CHECK(choice.products == detect_simd_level());
  } else {
    CHECK(choice.vectors >= simd_level::avx512);
  }
  CHECK(choice.vectors <= simd_level::avx512_bf16);
  CHECK(product_level<float>() == detect_simd_level());
  CHECK(vector_level<float>() == detect_simd_level());
  CHECK(product_level<bf16>() == choice.products);
  CHECK(vector_level<bf16>() == choice.vectors);
}

TEST_CASE("bf16 level: the tiles that are timed are those that multiply", "[kernels][fast]") {
  if (detect_simd_level() < simd_level::avx512_bf16) return;
  const bf16_timing time = time_bf16_tiles();
  CHECK(time.widened > 0.0);
  CHECK(time.pairs > 0.0);
  CHECK(time.tiles > 0.0);
  CHECK((time.tiles < never) == (detect_simd_level() == simd_level::amx_bf16));
  CHECK(packed_gemm{}.level<bf16>() == bf16_levels().products);
  CHECK(packed_gemm{}.level<float>() == detect_simd_level());
  CHECK(packed_gemm{simd_level::avx2}.level<bf16>() == simd_level::avx2);  // who names a level gets it
}
