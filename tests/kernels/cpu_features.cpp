// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/cpu_features.hpp>

#include "support/catch.hpp"

using namespace causeway;
using namespace causeway::kernels;

TEST_CASE("cpu features: the level is the same each time, and implies what the processor reports", "[kernels][fast]") {
  const simd_level level = detect_simd_level();
  CHECK(detect_simd_level() == level);
#if CAUSEWAY_X86_SIMD
  CHECK((level >= simd_level::avx2) == (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")));
  if (level >= simd_level::avx512) CHECK(__builtin_cpu_supports("avx512bw"));
  if (level >= simd_level::avx512_bf16) CHECK(__builtin_cpu_supports("avx512bf16"));
  if (level == simd_level::amx_bf16) CHECK(kernels::detail::request_amx());  // Linux says yes again
#else
  CHECK(level == simd_level::portable);
#endif
}

TEST_CASE("cpu features: levels are ordered and named", "[kernels][fast]") {
  CHECK(simd_level::portable < simd_level::avx2);
  CHECK(simd_level::avx2 < simd_level::avx512);
  CHECK(simd_level::avx512 < simd_level::avx512_bf16);
  CHECK(simd_level::avx512_bf16 < simd_level::amx_bf16);
  CHECK(to_string(simd_level::portable) == "portable");
  CHECK(to_string(simd_level::avx512_bf16) == "avx512, avx512_bf16");
  CHECK(to_string(simd_level::amx_bf16) == "avx512, amx_bf16");
}
