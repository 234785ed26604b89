// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/packed_gemm.hpp>

#include <causeway/kernels/gemm.hpp>

#include "support/catch.hpp"
#include "support/gemm_cases.hpp"

#include <cstdint>
#include <vector>

using namespace causeway;
using namespace causeway::kernels;
namespace cases = causeway::tests::gemm;

static_assert(Gemm<packed_gemm>);

TEST_CASE("packed gemm: every shape, transpose and epilogue equals a sum in double precision", "[kernels][fast]") {
  const auto level = GENERATE(simd_level::portable, simd_level::avx2, simd_level::avx512, simd_level::avx512_bf16);
  const unsigned threads = GENERATE(1U, 2U, 3U);
  packed_gemm gemm{level};
  thread_pool pool{threads};
  INFO("level " << to_string(gemm.level()) << ", " << threads << " threads");
  cases::check_all<float, float>(gemm, pool);
  cases::check_all<bf16, float>(gemm, pool);
  cases::check_all<bf16, bf16>(gemm, pool);
}
