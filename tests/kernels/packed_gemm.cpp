// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/packed_gemm.hpp>

#include <causeway/kernels/gemm.hpp>

#include "support/catch.hpp"
#include "support/gemm_cases.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

using namespace causeway;
using namespace causeway::kernels;
namespace cases = causeway::tests::gemm;

static_assert(Gemm<packed_gemm>);

namespace {

template <class In, class Out>
std::vector<Out> result(packed_gemm gemm, unsigned threads, cases::shape s, cases::ending end) {
  thread_pool pool{threads};
  scratch memory;
  cases::product<In, Out> p{s, end};
  gemm.multiply(pool, memory, p.args());
  return p.c;
}

/// C of `args`, in parts of `rows` x `columns`.
template <class T>
std::vector<float> in_parts(packed_gemm gemm, unsigned threads, gemm_args<T, float> args, std::int64_t rows,
                            std::int64_t columns) {
  thread_pool pool{threads};
  scratch memory;
  std::vector<float> c(static_cast<std::size_t>(args.m * args.n));
  for (std::int64_t i = 0; i < args.m; i += rows) {
    for (std::int64_t j = 0; j < args.n; j += columns) {
      gemm_args<T, float> part = args;
      part.m = std::min(rows, args.m - i);
      part.n = std::min(columns, args.n - j);
      part.a += args.transpose_a ? i : i * args.lda;
      part.b += args.transpose_b ? j * args.ldb : j;
      part.c = c.data() + i * args.ldc + j;
      gemm.multiply(pool, memory, part);
    }
  }
  return c;
}

/// Of more than a MiB each, so that they are fetched ahead, and of several blocks in each direction.
template <class T>
void check_large(packed_gemm gemm, bool transpose_a, bool transpose_b) {
  constexpr std::int64_t m = 300, n = 400, k = 1800;
  std::vector<T> a(m * k), b(n * k);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = T(static_cast<float>(i * 7 % 31) / 17 - 1);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = T(static_cast<float>(i * 5 % 29) / 17 - 1);
  const gemm_args<T, float> args{.transpose_a = transpose_a,
                                 .transpose_b = transpose_b,
                                 .m = m,
                                 .n = n,
                                 .k = k,
                                 .a = a.data(),
                                 .lda = transpose_a ? m : k,
                                 .b = b.data(),
                                 .ldb = transpose_b ? k : n,
                                 .ldc = n};
  const auto parts = in_parts(gemm, 1, args, 200, 90);
  CHECK(in_parts(gemm, 1, args, m, n) == parts);
  CHECK(in_parts(gemm, 2, args, m, n) == parts);
}

}  // namespace

TEST_CASE("packed gemm: every shape, transpose and epilogue equals a sum in double precision", "[kernels][fast]") {
  const unsigned threads = GENERATE(1U, 2U, 3U);
  thread_pool pool{threads};
  for (const simd_level level : simd_levels) {
    packed_gemm gemm{level};
    INFO("level " << to_string(gemm.level()) << ", " << threads << " threads");
    cases::check_all<float, float>(gemm, pool);
    cases::check_all<bf16, float>(gemm, pool);
    cases::check_all<bf16, bf16>(gemm, pool);
  }
}

TEST_CASE("packed gemm: the number of threads does not change a bit", "[kernels][fast]") {
  for (const simd_level level : simd_levels) {
    for (const cases::shape s : {cases::shape{97, 211, 530, false, true}, cases::shape{300, 40, 90, true, false}}) {
      const auto alone = result<float, float>(packed_gemm{level}, 1, s, cases::ending::bias_gelu_saved);
      const auto half = result<bf16, bf16>(packed_gemm{level}, 1, s, cases::ending::residual);
      for (const unsigned threads : {1U, 2U, 3U, 4U}) {
        CHECK(result<float, float>(packed_gemm{level}, threads, s, cases::ending::bias_gelu_saved) == alone);
        CHECK(result<bf16, bf16>(packed_gemm{level}, threads, s, cases::ending::residual) == half);
      }
    }
  }
}

TEST_CASE("packed gemm: a large product has the bits of its parts", "[kernels][fast]") {
  for (const simd_level level : simd_levels) {
    INFO("level " << to_string(level));
    check_large<float>(packed_gemm{level}, false, true);
    check_large<float>(packed_gemm{level}, true, false);
    check_large<bf16>(packed_gemm{level}, false, true);
  }
}

TEST_CASE("packed gemm: a second product of the same size allocates nothing", "[kernels][fast]") {
  thread_pool pool{2};
  scratch memory;
  packed_gemm gemm;
  cases::product<bf16, bf16> p{{200, 300, 1000, false, true}, cases::ending::bias};
  gemm.multiply(pool, memory, p.args());
  const std::size_t held = memory.capacity();
  CHECK(held > 0);
  for (int i = 0; i < 3; ++i) gemm.multiply(pool, memory, p.args());
  CHECK(memory.capacity() == held);
}

TEST_CASE("packed gemm: infinities and NaN in a row of A stay in that row of C", "[kernels][fast]") {
  for (const simd_level level : simd_levels) {
    thread_pool pool{1};
    scratch memory;
    cases::product<float, float> p{{31, 47, 65, false, false}, cases::ending::plain};
    p.a[static_cast<std::size_t>(17 * 65 + 3)] = std::numeric_limits<float>::quiet_NaN();
    packed_gemm{level}.multiply(pool, memory, p.args());
    for (std::int64_t i = 0; i < 31; ++i) {
      for (std::int64_t j = 0; j < 47; ++j) {
        const bool finite = std::isfinite(p.c[static_cast<std::size_t>(i * 47 + j)]);
        if (finite == (i == 17)) FAIL_CHECK("row " << i << " column " << j << " at level " << to_string(level));
      }
    }
  }
}

TEST_CASE("packed gemm: a level beyond the machine's becomes the machine's", "[kernels][fast]") {
  CHECK(packed_gemm{simd_level::amx_bf16}.level() == detect_simd_level());
  CHECK(packed_gemm{simd_level::portable}.level() == simd_level::portable);
  CHECK(packed_gemm{simd_level::portable}.describe() == "packed gemm (portable)");
}
