// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/cblas_gemm.hpp>

#include <causeway/kernels/gemm.hpp>

#include "support/catch.hpp"
#include "support/gemm_cases.hpp"

using namespace causeway;
using namespace causeway::kernels;
namespace cases = causeway::tests::gemm;

static_assert(Gemm<cblas_gemm>);

TEST_CASE("cblas gemm: every shape, transpose and epilogue equals a sum in double precision", "[kernels][fast]") {
  const unsigned threads = GENERATE(1U, 2U, 3U);
  cblas_gemm gemm;
  thread_pool pool{threads};
  INFO(gemm.describe() << ", " << threads << " threads");
  cases::check_all<float, float>(gemm, pool);
  cases::check_all<bf16, float>(gemm, pool);
  cases::check_all<bf16, bf16>(gemm, pool);
}
