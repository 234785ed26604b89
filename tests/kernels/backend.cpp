// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/backend.hpp>

#include <causeway/kernels/packed_gemm.hpp>

#include "support/catch.hpp"

#include <vector>

using namespace causeway;
using namespace causeway::kernels;

static_assert(Backend<cpu_backend>);
static_assert(Backend<basic_cpu_backend<packed_gemm>>);
static_assert(!Backend<packed_gemm>);

TEST_CASE("cpu backend: says what it computes with", "[kernels][fast]") {
  basic_cpu_backend<packed_gemm> alone{1, packed_gemm{simd_level::portable}};
  CHECK(alone.describe() == "cpu: packed gemm (portable), 1 thread");
  basic_cpu_backend<packed_gemm> pair{2, packed_gemm{simd_level::portable}};
  CHECK(pair.describe() == "cpu: packed gemm (portable), 2 threads");
  CHECK(pair.pool().size() == 2);
}

TEST_CASE("cpu backend: multiplies with its own threads and memory", "[kernels][fast]") {
  cpu_backend backend{2};
  const std::vector<float> a{1, 2, 3, 4};
  const std::vector<float> b{5, 6, 7, 8};
  std::vector<float> c(4);
  backend.gemm().multiply(
      backend.pool(), backend.memory(),
      gemm_args<float, float>{
          .m = 2, .n = 2, .k = 2, .a = a.data(), .lda = 2, .b = b.data(), .ldb = 2, .c = c.data(), .ldc = 2});
  CHECK(c == std::vector<float>{19, 22, 43, 50});
}
