// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/default_gemm.hpp>

#include <causeway/kernels/gemm.hpp>

#include "support/catch.hpp"
#include "support/gemm_cases.hpp"

using namespace causeway;
using namespace causeway::kernels;
namespace cases = causeway::tests::gemm;

static_assert(Gemm<default_gemm>);

TEST_CASE("default gemm: multiplies in f32 and in bf16 and says its name", "[kernels][fast]") {
  default_gemm gemm;
  thread_pool pool{2};
  scratch memory;
  const cases::shape s{65, 33, 129, false, true, 2};
  cases::check<float, float>(gemm, pool, memory, s, cases::all_endings);
  cases::check<bf16, float>(gemm, pool, memory, s, cases::all_endings);
  cases::check<bf16, bf16>(gemm, pool, memory, s, cases::all_endings);
  CHECK(gemm.describe().find(default_gemm::name) == 0);
}
